"""What a report shows: the nouns of the page, the picture and the trace.

In: topology, schedule, program and their simulated timelines, as the pipeline found them. Units: seconds, bytes.
Knows nothing of files, of HTML and of how anything was computed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hetesynth.model.collective import Collective
from hetesynth.model.problem import Problem
from hetesynth.model.program import Program
from hetesynth.model.schedule import Schedule
from hetesynth.model.timeline import Floats, Ints, Timeline
from hetesynth.model.topology import Topology

MAX_TASKS = 80_000  # of a program that are shown, in whole loops

Role = Literal["schedule", "program", "baseline", "bound"]


@dataclass(frozen=True, slots=True, eq=False)
class ScheduleRun:
    """A schedule and when its transfers ran. Task i of ``timeline`` is transfer i; ``problem.arcs`` are the links
    of the topology. ``capacities``: whether those of ``problem`` are the chunks per step of the step model."""

    problem: Problem
    schedule: Schedule
    timeline: Timeline
    capacities: bool = True


@dataclass(frozen=True, slots=True, eq=False)
class ProgramRun:
    """A program and when its instructions ran.

    ``gpu``, ``block``, ``step`` (indices, from ``program.gpus`` on) say what the tasks of one loop stand for, the
    same in each of the ``simulated`` loops out of ``loops``; ``chunks``: which chunks of the collective each moves
    between GPUs, empty where it moves none or that is not known.
    """

    program: Program
    timeline: Timeline
    gpu: Ints
    block: Ints
    step: Ints
    chunks: tuple[tuple[int, ...], ...]
    simulated: int
    loops: float

    def __post_init__(self) -> None:
        if not len(self.gpu) == len(self.block) == len(self.step) == len(self.chunks):
            raise ValueError("columns of different length")
        if len(self.gpu) * self.simulated != self.timeline.graph.tasks:
            raise ValueError("the tasks are not those of the loops")

    @property
    def shown(self) -> int:
        """The loops that are drawn."""
        return min(self.simulated, max(1, MAX_TASKS // max(1, len(self.gpu))))

    @property
    def tasks(self) -> int:
        """The instructions in the loops that are drawn."""
        return len(self.gpu) * self.shown

    def since(self) -> Floats:
        """When the thread block of each task got to it: the end of the one before, 0 for the first."""
        import numpy as np

        found = np.zeros(self.timeline.graph.tasks)
        ends: dict[tuple[int, int], float] = {}
        blocks = list(zip(self.gpu.tolist(), self.block.tolist(), strict=True))
        for task, end in enumerate(self.timeline.end.tolist()):
            key = blocks[task % len(blocks)]
            found[task] = ends.get(key, 0.0)
            ends[key] = end
        return found


@dataclass(frozen=True, slots=True)
class Curve:
    """Seconds at each of the report's sizes."""

    name: str
    role: Role
    seconds: tuple[float, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Report:
    """Everything a report says. ``size``: of the buffer whose timelines are shown. ``certificate``: sentences.

    ``facts``: pairs of a label and a value. ``run`` is None where a program moves what no schedule can say,
    ``program`` where there is none that is simulated.
    """

    title: str
    topology: Topology
    collective: Collective | None
    size: int
    facts: tuple[tuple[str, str], ...]
    certificate: tuple[str, ...]
    notes: tuple[str, ...]
    run: ScheduleRun | None
    program: ProgramRun | None
    sizes: tuple[int, ...]
    curves: tuple[Curve, ...]

    def __post_init__(self) -> None:
        if self.run is None and self.program is None:
            raise ValueError("a report needs a schedule or a program")
        if any(len(curve.seconds) != len(self.sizes) for curve in self.curves):
            raise ValueError("a curve needs one time per size")
