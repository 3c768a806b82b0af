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
