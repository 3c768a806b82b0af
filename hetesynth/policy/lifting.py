"""From programs back to schedules."""

from __future__ import annotations

from dataclasses import dataclass

from hetesynth.policy.threshold import Record, threshold


@dataclass(init=False, repr=False, eq=False)
class LiftingPolicy(Record):
    """How long a lifted schedule is shortened, and how far starts are moved at random for it."""

    justification_rounds: int = threshold(
        60,
        "rounds",
        "Double justifications tried while the schedule is longer than its lower bound. 24 programs of six "
        "examples, imported with --topo, take 234 steps together with none, 226 with 5, 223 with 20 and with 60.",
    )
    justified_moves: int = threshold(
        60_000,
        "moves",
        "Moves placed again in all rounds together: large programs get fewer rounds, so that an import takes "
        "seconds. Not measured.",
    )
    start_noise: float = threshold(
        2.0,
        "ticks",
        "Each start becomes a priority after a random amount below this is taken off, so that rounds differ. The "
        "same 24 programs take 225 steps without it, 224 with 0.5, 223 with 2, 4 and 8.",
    )
