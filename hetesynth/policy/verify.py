"""How schedules are judged."""

from __future__ import annotations

from dataclasses import dataclass

from hetesynth.policy.threshold import Record, threshold


@dataclass(init=False, repr=False, eq=False)
class VerifyPolicy(Record):
    """How schedules are judged."""

    array_transfers: int = threshold(
        20_000,
        "transfers",
        "From so many on the laws are first checked on arrays, which say that a schedule is right but not what is "
        "wrong; only what does not pass is replayed. Allgather on a ring: replayed 11 ms at 4,032 transfers and "
        "33 ms at 20,022, on arrays 3 and 9, so that a lower value may be better: lower values were not measured.",
    )
