"""From a request to files: peers, chunking, predictions nobody asked for."""

from __future__ import annotations

from dataclasses import dataclass

from hetesynth.policy.threshold import Record, threshold


@dataclass(init=False, repr=False, eq=False)
class CompilePolicy(Record):
    """From a request to files: peers, chunking, predictions nobody asked for."""

    many_ranks: int = threshold(
        64,
        "ranks",
        "Up to here a program has a thread block for every peer; past it peers are limited, and memory is given "
        "back between lowering and judging. Not measured.",
    )
    peer_share: float = threshold(
        0.75,
        "share of the thread blocks",
        "Peers of a rank past many_ranks: leaves some blocks for second channels and copies. Not measured.",
    )
    recheck_seconds: float = threshold(
        10.0, "seconds", "What a second solver gets for the query that proves a bound. Not measured."
    )
    recheck_rlimit: int = threshold(
        20_000_000,
        "solver resource units",
        "The same where the budget has no seconds, so that no clock decides. Strategy cegis spends as much on one "
        "number of steps. Not measured.",
    )
    step_share: float = threshold(
        0.75,
        "share of the budget",
        "For the search whose schedule is lowered and judged after it. Not measured.",
    )
    grace: float = threshold(
        1.5,
        "seconds",
        "After the budget of synth, for the first result where there is none: a budget is kept within 2 s.",
    )
    handed_over: float = threshold(
        0.05,
        "share of the time",
        "By which a program is quicker than the last whose files were made while the search goes on; or as much "
        "time has passed as these took. Not measured.",
    )
    max_program_transfers: int = threshold(
        5_000, "transfers", "Of a schedule whose program is simulated too. Not measured."
    )
    max_predicted_unasked: int = threshold(
        50_000, "transfers", "Of a schedule whose time is predicted though no size was stated. Not measured."
    )
    large_rounding_error: float = threshold(
        0.25, "share of the rate", "Of a capacity, above which the report points it out. Not measured."
    )
    max_both_receives: int = threshold(
        10_000,
        "transfers",
        "Of a schedule whose programs with and without fused receives are both timed, which takes some seconds "
        "(docs/decisions.md, 7). Not measured.",
    )
    max_spread: int = threshold(
        10_000,
        "transfers",
        "Of a schedule whose program is also timed with as many channels as the copy rate of thread blocks asks "
        "for. Of ten schedules of 8 to 32 GPUs it is up to 18 % quicker at 1 GB, and 7 % slower for one.",
    )
    instances: tuple[int, ...] = threshold(
        (2, 4),
        "parts of a chunk",
        "Into how many every chunk is cut in programs that are timed too, where one thread block does not fill a "
        "link: greedy schedules on 16 clusters of up to 24 GPUs take 4 % less time on average than with whole "
        "chunks. More parts were not tried.",
    )
    max_cut: int = threshold(
        2_500,
        "transfers",
        "Of a schedule with its chunks cut, up to which its program is timed: lowering and simulating takes a "
        "second for about 2,000.",
    )
    max_step_multiple: int = threshold(
        4,
        "chunks over the slowest link",
        "The longest step that is tried for capacities rounded down. Not measured.",
    )
    little_bandwidth: float = threshold(
        0.005,
        "share of the bandwidth",
        "Of capacities rounded down: no longer step is tried for it. Not measured.",
    )
    max_compared_ranks: int = threshold(
        64, "ranks", "Up to here steps of several lengths are compared by what they lose. Not measured."
    )
    few_sizes_from_ranks: int = threshold(
        32,
        "ranks",
        "Past it a report simulates the rings of NCCL at few sizes only: each takes seconds. Not measured.",
    )
    few_sizes: int = threshold(3, "sizes", "So many, from the smallest to the largest. Not measured.")
    max_baseline_deliveries: int = threshold(
        10_000, "deliveries", "Of a problem for which a report computes baselines. Not measured."
    )
    baseline_chunks: int = threshold(
        4,
        "chunks per rank",
        "Of a baseline at least: as many rings and trees, as libraries have channels. Not measured.",
    )
