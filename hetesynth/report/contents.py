"""What a report shows: the nouns of the page, the picture and the trace.

Units: seconds, bytes.
"""

from dataclasses import dataclass
from typing import Literal

from hetesynth.model.collective import Collective
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule
from hetesynth.model.timeline import Floats, Timeline
from hetesynth.model.topology import Rank, Topology

MAX_TASKS = 80_000  # of a program that are shown, in whole loops

Role = Literal["schedule", "program", "baseline", "bound"]


@dataclass(frozen=True, slots=True, eq=False)
class ScheduleRun:
    """A schedule and when its transfers ran. Task i of ``timeline`` is transfer i; ``problem.arcs`` are the links
    of the topology. ``capacities``: True if those of ``problem`` are the chunks per step of the step model."""

    problem: Problem
    schedule: Schedule
    timeline: Timeline
    capacities: bool = True


@dataclass(frozen=True, slots=True)
class BlockRow:
    """A thread block of GPU ``rank``. ``label``: the peers that it receives from and sends to, in a few words."""

    rank: Rank
    id: int
    label: str


@dataclass(frozen=True, slots=True)
class StepRow:
    """The step of a program that a task stands for: step ``step`` of ``blocks[block]``, or a part of that step.

    ``operation``, ``peers`` (``from GPU 1``), ``src``, ``dst`` (``input[3]``): in words, empty where there is
    nothing to say. ``chunks``: chunks of the collective that the step moves between GPUs, empty where it moves
    none or they are not known.
    """

    block: int
    step: int
    operation: str
    peers: str
    src: str
    dst: str
    chunks: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class ProgramRun:
    """A program or plan and when the steps of its thread blocks ran.

    ``steps``: the tasks of one loop, the same in each of the ``simulated`` loops out of ``loops``. ``since[i]``:
    the seconds at which the thread block of task i got to the task.
    """

    blocks: tuple[BlockRow, ...]
    steps: tuple[StepRow, ...]
    timeline: Timeline
    since: Floats
    simulated: int = 1
    loops: float = 1.0

    @property
    def shown(self) -> int:
        """The number of loops that are drawn."""
        return min(self.simulated, max(1, MAX_TASKS // max(1, len(self.steps))))

    @property
    def tasks(self) -> int:
        """The number of tasks in the loops that are drawn."""
        return len(self.steps) * self.shown


@dataclass(frozen=True, slots=True)
class Curve:
    """A named curve: the seconds at each of the report's sizes."""

    name: str
    role: Role
    seconds: tuple[float, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Report:
    """The contents of a report. ``size``: of the buffer whose timelines are shown. ``certificate``: sentences.

    ``facts``: pairs of a label and a value. ``verdict``: a line on the program. ``run`` is None where no schedule
    can express what the program moves, ``program`` where no program is simulated.
    """

    title: str
    topology: Topology
    collective: Collective | None
    size: int
    facts: tuple[tuple[str, str], ...]
    certificate: tuple[str, ...]
    notes: tuple[str, ...]
    sizes: tuple[int, ...]
    verdict: str = ""
    run: ScheduleRun | None = None
    program: ProgramRun | None = None
    curves: tuple[Curve, ...] = ()
