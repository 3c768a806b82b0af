"""From a request to files: peers, chunking, predictions nobody asked for."""

from __future__ import annotations

from dataclasses import dataclass

from hetesynth.policy.threshold import Record, threshold


@dataclass(init=False, repr=False, eq=False)
class CompilePolicy(Record):
    """From a request to files: peers, chunking, predictions nobody asked for."""

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
        "chunks. Without any 23 % more (seed 203), with 8 parts 0.6 % less for half as much work again.",
    )
    max_cut: int = threshold(
        2_500,
        "transfers",
        "Of a schedule with its chunks cut, up to which its program is timed: lowering and simulating takes a "
        "second for about 2,000.",
    )
