"""Strategies that count seconds."""

from __future__ import annotations

from dataclasses import dataclass

from hetesynth.policy.threshold import Record, threshold


@dataclass(init=False, repr=False, eq=False)
class TimedPolicy(Record):
    """Strategies that count seconds."""

    arrival_rounds: int = threshold(
        4, "rounds", "Rounds of earliest arrival with growing prices; without prices there is one. Not measured."
    )
    arrival_growth: float = threshold(
        0.5,
        "share of its price",
        "By how much the busiest resource becomes dearer after a round of earliest arrival. Not measured.",
    )
    arrival_exponent: int = threshold(
        2,
        "exponent",
        "Of the share of the busiest resource's work, by which the others become dearer after a round of earliest "
        "arrival. Not measured.",
    )
    negotiated_rounds: int = threshold(
        10, "rounds", "Rounds of earliest arrival whose loads are negotiated. Not measured."
    )
    negotiated_weight: float = threshold(
        16.0,
        "seconds",
        "What a second of work of a resource costs in the first negotiated round. Not measured.",
    )
    negotiated_step: float = threshold(
        2.0,
        "exponent",
        "How strongly prices follow the share of its goal that a resource works in a negotiated round. Not "
        "measured.",
    )
    negotiated_goal: float = threshold(
        0.96,
        "share of the least work of a busiest resource so far",
        "The work that the next negotiated round aims at. The heterogeneous mesh of 256 GPUs came within 1.1 % "
        "of its bound with all values together; this one alone: not measured.",
    )
    negotiated_pressure: float = threshold(
        1.0,
        "seconds of urgency for each second of work left",
        "How urgent the list schedule of a negotiated round finds a delivery before much work. Not measured.",
    )
    negotiated_scheduled: int = threshold(
        2,
        "rounds",
        "The negotiated rounds, those with the least work of a busiest resource, that get a list schedule on "
        "large problems. Not measured.",
    )
    negotiated_all_scheduled: int = threshold(
        20_000,
        "deliveries",
        "Up to here all negotiated rounds get a list schedule. Not measured.",
    )
    path_sharpness: tuple[float, ...] = threshold(
        (8.0, 16.0, 32.0, 64.0, 128.0),
        "exponents",
        "How steeply prices rise with the load, one sweep of rerouting for each. With all values together "
        "alltoall on two DGX-2 is at its bound (docs/benchmarks_time.md); each alone: not measured.",
    )
    path_weight: float = threshold(
        8.0, "seconds", "What a second of the busiest resource costs on a path. Not measured."
    )
    path_pressures: tuple[float, ...] = threshold(
        (0.0, 0.05, 1.0),
        "seconds of urgency for each second of work left",
        "The list schedules of balanced paths that are tried, one for each. Not measured.",
    )
    path_chunks: int = threshold(
        20_000,
        "chunks",
        "Where ranks exchange several chunks with each other, balanced paths refuse more. Not measured.",
    )
    path_single_chunks: int = threshold(
        70_000,
        "chunks",
        "Where ranks exchange one chunk with each other, balanced paths refuse more: an alltoall of 256 GPUs has "
        "65,280 and is found. Seconds: not measured.",
    )
    scanned_paths: int = threshold(
        20_000,
        "paths",
        "More are list-scheduled from a queue: looking at all of them before each choice takes quadratic time. "
        "Not measured.",
    )
    tree_sweeps: int = threshold(8, "sweeps", "Sweeps of rerouting of timed-trees. Not measured.")
    tree_unscheduled: float = threshold(
        0.5,
        "share of the sweeps",
        "The first sweeps of timed-trees, whose trees get no list schedule, as they are still uneven. Not "
        "measured.",
    )
    tree_early_schedule: int = threshold(
        1,
        "sweeps",
        "After so many and one more the trees of timed-trees get a list schedule all the same, so that there is "
        "one soon. Not measured.",
    )
    tree_goal: float = threshold(
        0.97,
        "share of the busiest resource's work",
        "The work that the next sweep of timed-trees aims at. Not measured.",
    )
    urgent_lead: float = threshold(
        0.05,
        "seconds for each second of urgency",
        "How far a more urgent delivery of timed-trees goes ahead of one that can begin sooner. Not measured.",
    )
    urgency_updates: int = threshold(
        60, "times", "How often the urgencies of a list schedule in seconds are computed anew. Not measured."
    )
    same_start: float = threshold(
        1e-3,
        "share of the shortest time that a chunk keeps a resource busy",
        "Starts that differ by less count as the same, and urgency decides. Not measured.",
    )
