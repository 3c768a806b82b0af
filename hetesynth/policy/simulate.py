"""How exactly a program is simulated."""

from __future__ import annotations

from dataclasses import dataclass

from hetesynth.policy.threshold import Record, threshold


@dataclass(init=False, repr=False, eq=False)
class SimulatePolicy(Record):
    """How exactly a program is simulated."""

    max_loops: int = threshold(
        64,
        "loops",
        "So many loops of a program are simulated at most; further ones are extrapolated. Not measured.",
    )
    min_loops: int = threshold(
        6,
        "loops",
        "So many are simulated in any case: the mean length of a loop is taken from those of them that "
        "skipped_loops leaves. Not measured.",
    )
    skipped_loops: float = threshold(
        0.25,
        "share of the simulated loops",
        "At either end, left out of the mean length of a loop by which further loops are extrapolated. Not "
        "measured.",
    )
    max_tasks: int = threshold(
        300_000,
        "tasks of all simulated loops",
        "More are extrapolated: simulating them takes minutes. Not measured.",
    )
    max_work: int = threshold(
        300_000_000,
        "tasks x connections",
        "The same for programs whose connections may all share one resource, as rates are then computed for all "
        "of them at every event. Not measured.",
    )
