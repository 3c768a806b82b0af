"""What communication libraries do."""

from __future__ import annotations

from dataclasses import dataclass

from hetesynth.policy.threshold import Record, threshold


@dataclass(init=False, repr=False, eq=False)
class BaselinesPolicy(Record):
    """What communication libraries do."""

    max_channels: int = threshold(
        32, "rings or trees", "How many a schedule is spread over at most, as over NCCL's channels. Not measured."
    )
    max_rings_of_servers: int = threshold(
        8, "rings", "How many rings of servers are tried, one after the other. Not measured."
    )
    ring_of_servers_gain: float = threshold(
        0.999,
        "share of the busiest resource's load",
        "One more ring of servers is taken only where the load comes down to less than this share. Not measured.",
    )
    path_tries: int = threshold(
        20_000,
        "partial paths",
        "After so many the search for a path through all ranks of a server is given up. Not measured.",
    )
    max_rings: int = threshold(
        16, "rings", "How many different rings a set has at most; more channels repeat them. Not measured."
    )
    ring_patience: int = threshold(
        4, "rings", "After so many more that made a set no cheaper, no more rings are searched. Not measured."
    )
    ring_gain: float = threshold(
        0.999, "share of the cost", "A larger set of rings counts as cheaper only below this share. Not measured."
    )
    ring_sweeps: int = threshold(
        4, "sweeps", "How often each ring of a set is searched again while the others stay. Not measured."
    )
    load_exponent: float = threshold(
        8.0,
        "exponent",
        "The price of a resource is the growth of its load to this power: high, so that the fullest counts. Not "
        "measured.",
    )
    exact_path_ranks: int = threshold(
        8,
        "ranks",
        "Up to here the cheapest path through a server is exact; its table doubles with each rank. Not measured.",
    )
    patching_tries: int = threshold(
        32,
        "assignments",
        "From so many it is tried to patch cycles together where paths cannot be listed. Not measured.",
    )
    patched_cycles: int = threshold(1, "cycles", "The cheapest of so many patched cycles is taken. Not measured.")
    chain_parts: tuple[int, ...] = threshold(
        (1, 4, 16, 32, 64),
        "chunks per channel",
        "Tried for a broadcast or a reduce, as chains are pipelined. 5x5 GPUs, broadcast of 16 MB: 3,869 us with "
        "16, 3,465 us with 64; 8 A100, 1 GB: 4,857 us with 1 to 16, 4,732 us with 64.",
    )
