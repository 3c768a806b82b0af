"""When every message of a schedule is sent."""

from dataclasses import dataclass

from hetesynth.model.timeline import Floats, Ints


@dataclass(frozen=True, eq=False)
class Lanes:
    """Thread blocks that each send one message at a time. ``of[t]``: the group of lanes that send transfer t; a
    group has one link. ``number[g]``: lanes of group g."""

    of: Ints
    number: Ints


@dataclass(frozen=True, eq=False)
class Dispatch:
    """When a lane begins each message and has sent its last byte, in seconds: piece p of transfer t is message
    p x transfers + t. ``makespan``: counts the start of the kernel."""

    pieces: int
    lanes: Lanes
    start: Floats
    sent: Floats
    makespan: float
