"""What schedules and programs cost in time: costs, tasks and the simulator put together.

In: a topology with a schedule or a program, and sizes. Out: a ``Prediction`` per size, with its ``Timeline``. A
``ScheduleClock`` keeps what does not depend on the size, so that a loop over sizes is cheap.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from hetesynth.errors import HetesynthError
from hetesynth.model.calibration import CalibrationName
from hetesynth.model.collective import CollectiveName
from hetesynth.model.cost import AlphaReading, Costs, bandwidths, chunk_bytes, costs
from hetesynth.model.problem import Arc, Problem
from hetesynth.model.program import Program
from hetesynth.model.schedule import Schedule
from hetesynth.model.target import PORTABLE, Target
from hetesynth.model.topology import Topology

if TYPE_CHECKING:
    from hetesynth.model.timeline import ResourceUse, Timeline
    from hetesynth.pipeline.plan_clock import PlanClock
    from hetesynth.simulate.graph_builder import SizedTasks
    from hetesynth.simulate.program import ProgramTasks
    from hetesynth.simulate.schedule import StepReading


FileKind = Literal["schedule", "program", "plan"]


@dataclass(frozen=True, slots=True)
class CostOptions:
    """Which cost model is meant; docs/model.md defines the choices."""

    calibration: CalibrationName = "spec"
    alpha: AlphaReading = "overlap"
    steps: StepReading = "order"


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a collective of ``size`` bytes takes: seconds, and nccl-tests' two bandwidths in bytes per second.

    ``unsteady``: where loops of a program were extrapolated, by how much the simulated ones differ from their mean
    (0: the extrapolation is exact).
    """

    collective: CollectiveName
    ranks: int
    size: int
    seconds: float
    algorithm_bandwidth: float
    bus_bandwidth: float
    timeline: Timeline = field(repr=False)
    unsteady: float = 0.0

    @property
    def bottleneck(self) -> ResourceUse | None:
        """The resource with the largest utilization."""
        return self.timeline.bottleneck()


class ScheduleClock:
    """Predicts one schedule at any size. ``problem.arcs`` are the links of ``topology``."""

    kind: ClassVar[FileKind] = "schedule"

    def __init__(
        self, topology: Topology, problem: Problem, schedule: Schedule, options: CostOptions = CostOptions()
    ) -> None:  # fmt: skip
        from hetesynth.simulate.schedule import schedule_tasks

        self.problem = problem
        self.schedule = schedule
        self.costs: Costs = costs(topology, options.calibration, options.alpha)
        self.tasks: SizedTasks = schedule_tasks(schedule, self.costs, options.steps)

    def timeline(self, size: int | Fraction) -> Timeline:
        """When each transfer runs for a buffer of ``size`` bytes; task i is transfer i of the schedule."""
        from hetesynth.simulate.engine import simulate

        asked = self.problem.collective
        return simulate(self.tasks.graph(chunk_bytes(asked.name, asked.ranks, asked.chunks_per_rank, size)))

    def predict(self, size: int) -> Prediction:
        """The prediction for a buffer of ``size`` bytes."""
        asked = self.problem.collective
        return prediction(asked.name, asked.ranks, size, self.timeline(size))


class ProgramClock:
    """Predicts one program at any size, loops over slices of large buffers included.

    ``target``: whose messages they are; the portable target has the shortest of all.
    """

    kind: ClassVar[FileKind] = "program"

    def __init__(
        self, topology: Topology, program: Program, options: CostOptions = CostOptions(),
        target: Target = PORTABLE,
    ) -> None:  # fmt: skip
        from hetesynth.simulate.program import ProgramLoops

        self.program = program
        self.collective = program.collective
        self.costs: Costs = costs(topology, options.calibration, options.alpha)
        try:
            self._loops = ProgramLoops(program, self.costs, target=target)
        except ValueError as error:
            raise _misfit(error) from error

    def tasks(self, size: int | Fraction) -> ProgramTasks:
        """What is simulated for a buffer of ``size`` bytes, and which instruction each task stands for."""
        whole = Fraction(size) / (self.program.ranks if self.program.collective in ("gather", "scatter") else 1)
        return self._loops.tasks(float(whole / self.program.chunks_per_loop))

    def timeline(self, size: int | Fraction) -> Timeline:
        """When each task runs; the makespan counts all loops, the arrays hold those that were simulated."""
        return self._run(size)[0]

    def _run(self, size: int | Fraction) -> tuple[Timeline, float]:
        from hetesynth.simulate.engine import simulate

        tasks = self.tasks(size)
        try:
            timeline = simulate(tasks.tasks.graph(1.0))
        except ValueError as error:
            raise _misfit(error) from error
        makespan, unsteady = tasks.whole(timeline)
        return replace(timeline, makespan=makespan), unsteady

    def predict(self, size: int) -> Prediction:
        """The prediction for a buffer of ``size`` bytes."""
        timeline, unsteady = self._run(size)
        found = prediction(self.program.collective, self.program.ranks, size, timeline)
        return replace(found, unsteady=unsteady)


def _misfit(error: ValueError) -> HetesynthError:
    return HetesynthError(str(error), code="HS560", help="check the file: hetesynth verify FILE --topo TOPOLOGY")


def prediction(name: CollectiveName, ranks: int, size: int, timeline: Timeline) -> Prediction:
    """``timeline`` in the terms users ask for."""
    reached = bandwidths(name, ranks, size, timeline.makespan)
    return Prediction(name, ranks, size, timeline.makespan, reached.algorithm, reached.bus, timeline)


def predict(
    topology: Topology, problem: Problem, schedule: Schedule, size: int, options: CostOptions = CostOptions()
) -> Prediction:  # fmt: skip
    """What ``schedule`` costs at one size; for several sizes use a ``ScheduleClock``."""
    return ScheduleClock(topology, problem, schedule, options).predict(size)


@dataclass(frozen=True, slots=True)
class FilePredictions:
    """What the file at ``path`` costs on ``topology`` at every size asked for."""

    path: Path
    kind: FileKind
    topology: Topology
    options: CostOptions
    predictions: tuple[Prediction, ...]
    spent: Mapping[str, float]  # seconds to read the files, and to simulate


def simulate_file(path: Path, topology: Path, sizes: Sequence[int], options: CostOptions) -> FilePredictions:
    """Predict a schedule JSON, an MSCCL XML or an MSCCL++ plan at ``sizes``.

    Raises HetesynthError for what cannot be simulated.
    """
    from hetesynth.frontend import load_topology

    began = time.monotonic()
    cluster = load_topology(topology)
    clock = file_clock(path, cluster, options)
    ready = time.monotonic()
    found = tuple(clock.predict(size) for size in sizes)
    spent = {"read": ready - began, "simulate": time.monotonic() - ready}
    return FilePredictions(path, clock.kind, cluster, options, found, spent)


def file_clock(path: Path, topology: Topology, options: CostOptions) -> ScheduleClock | ProgramClock | PlanClock:
    """The clock of what ``path`` holds: JSON is a schedule or a plan, anything else MSCCL XML."""
    from hetesynth.emitter.schedule_json import MAX_BYTES
    from hetesynth.pipeline.formats import demand_one_run, format_of, kind_of
    from hetesynth.pipeline.plan_clock import plan_clock

    demand_one_run(path)
    if format_of(path) == "msccl-xml":
        return program_clock(path, topology, options)
    if kind_of(_contents(path, MAX_BYTES), path) == "plan":
        return plan_clock(path, topology, options)
    return schedule_clock(path, topology, options)


def schedule_clock(path: Path, topology: Topology, options: CostOptions) -> ScheduleClock:
    """The clock of a schedule JSON. Raises HetesynthError where it is none for ``topology``."""
    from hetesynth.emitter.schedule_json import MAX_BYTES, read_schedule_json
    from hetesynth.pipeline.schedule_sizes import asked_collective
    from hetesynth.verify.schedule import schedule_violations

    document = read_schedule_json(_contents(path, MAX_BYTES), str(path))
    ends = {i: (link.src, link.dst) for i, link in enumerate(topology.links)}
    if document.ranks != topology.ranks or any(ends.get(i) != (src, dst) for i, src, dst in document.links):
        raise HetesynthError(
            f"{path} is not a schedule for {topology.name}: their ranks or links differ",
            code="HS561",
            help="give the topology it was synthesized for",
        )
    asked = asked_collective(document, str(path))
    room = len(document.schedule.transfers) + 1  # the hardware's limits are the simulator's business
    arcs = tuple(Arc(link.src, link.dst, room) for link in topology.links)
    problem = Problem(topology.ranks, topology.ranks, (), arcs, (), asked)
    wrong = schedule_violations(problem, document.schedule)
    if wrong:
        raise HetesynthError(
            f"{path} is no schedule of its collective: {wrong[0].message}",
            code="HS562",
            help="give a schedule JSON as `hetesynth synth` wrote it",
            exit_code=1,
        )
    try:
        return ScheduleClock(topology, problem, document.schedule, options)
    except ValueError as error:
        raise _misfit(error) from error


def program_clock(path: Path, topology: Topology, options: CostOptions) -> ProgramClock:
    """The clock of an MSCCL XML. Raises HetesynthError where it is wrong or not for ``topology``."""
    from hetesynth.pipeline.formats import demand_algorithm
    from hetesynth.verify.msccl_xml import load_program
    from hetesynth.verify.program import program_violations

    read = load_program(path)
    demand_algorithm(read, path)
    if read.program is not None and read.program.ranks != topology.ranks:
        raise HetesynthError(
            f"{path} is for {read.program.ranks} ranks, {topology.name} has {topology.ranks}",
            code="HS561",
            help="give the topology it was made for",
        )
    links = {(link.src, link.dst) for link in topology.links}
    wrong = program_violations(read, links=links, max_findings=1)
    if read.program is None or wrong:
        raise HetesynthError(
            f"{path} cannot be simulated: {wrong[0].message if wrong else 'there is no program in it'}",
            code="HS562",
            help=f"hetesynth verify {path} --topo TOPOLOGY says more",
            exit_code=1,
        )
    return ProgramClock(topology, read.program, options)


def _contents(path: Path, most: int) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise OSError("not a regular file")
        with path.open("rb") as file:
            return file.read(most + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise HetesynthError(
            f"cannot read {path}: {reason}", code="HS540", help="give a schedule JSON or an MSCCL XML"
        ) from error


def sizes_between(low: int, high: int, factor: int = 4) -> tuple[int, ...]:
    """``low``, ``low`` x ``factor``, ... and ``high`` itself."""
    found = []
    at = low
    while at < high:
        found.append(at)
        at *= factor
    return (*found, high)
