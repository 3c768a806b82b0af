"""What schedules, programs and plans cost in time: costs, tasks and the simulator put together.

A predictor keeps what does not depend on the size, so that a loop over sizes is cheap.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from hetesynth.engine.formats import FileKind
from hetesynth.engine.request import Request
from hetesynth.errors import HetesynthError
from hetesynth.model.calibration import CalibrationName
from hetesynth.model.collective import COLLECTIVE_NAMES, ROOTED, CollectiveName
from hetesynth.model.cost import Costs, bandwidths, chunk_bytes, costed, costs
from hetesynth.model.plan import Plan
from hetesynth.model.problem import Problem
from hetesynth.model.program import Program
from hetesynth.model.runtime_costs import OURS, RuntimeCosts
from hetesynth.model.schedule import Schedule
from hetesynth.model.target import PORTABLE, Target
from hetesynth.model.topology import Topology
from hetesynth.policy import DEFAULT, Policy
from hetesynth.topology.language.units import parse_quantity

if TYPE_CHECKING:
    from hetesynth.engine.formats import Emitted
    from hetesynth.model.collective import Collective
    from hetesynth.model.timeline import ResourceUse, Timeline
    from hetesynth.programs.lifting.buffers import Buffers
    from hetesynth.simulate.graph_builder import SizedTasks
    from hetesynth.simulate.plan import Cell, PlanTasks
    from hetesynth.simulate.program import ProgramTasks


MAX_SIZES = 256
MAX_PROGRAM_TRANSFERS = 5_000  # of a schedule whose program is simulated too


def buffer_size(text: str, option: str) -> int:
    """Bytes of a collective's buffer or of a chunk. HetesynthError HS307 where ``text`` states none."""
    size = int(parse_quantity(text, "size", option))
    if not 1 <= size <= 2**50:
        raise HetesynthError(
            f"{option}: {text!r} is not a size from 1 byte to 1 PiB", code="HS307", help="for example 16MB"
        )
    return size


def buffer_sizes(text: str, option: str, factor: int = 4) -> tuple[int, ...]:
    """A size, several with commas, or a range such as ``1KB..4GB`` in steps of ``factor``."""
    sizes: list[int] = []
    for part in text.split(",")[: MAX_SIZES + 1]:
        low, dots, high = part.partition("..")
        first = buffer_size(low, option)
        last = buffer_size(high, option) if dots else first
        if last < first:
            raise HetesynthError(
                f"{option}: {part.strip()!r} ends before it begins",
                code="HS307",
                help="write the smaller size first",
            )
        sizes.extend(sizes_between(first, last, factor) if dots else (first,))
    if len(sizes) > MAX_SIZES:
        raise HetesynthError(f"{option}: at most {MAX_SIZES} sizes", code="HS307", help="larger steps, or fewer")
    return tuple(sorted(set(sizes)))


class PlanPredictor:
    """Predicts one plan at any size."""

    kind: ClassVar[FileKind] = "plan"

    def __init__(self, topology: Topology, plan: Plan, options: CostOptions) -> None:
        from hetesynth.simulate.plan import plan_tasks

        self.plan = plan
        self.collective: CollectiveName = next(name for name in COLLECTIVE_NAMES if name == plan.collective)
        self._pieces = max(max(gpu.input_chunks, gpu.output_chunks) for gpu in plan.gpus)
        try:
            self.tasks: PlanTasks = plan_tasks(plan, options.costs(topology))
        except ValueError as error:
            raise HetesynthError(
                str(error), code="HS560", help="check the file: hetesynth verify FILE --topo TOPOLOGY"
            ) from error

    def timeline(self, size: int | Fraction) -> Timeline:
        """When each task runs for a buffer of ``size`` bytes."""
        from hetesynth.simulate.engine import simulate

        return simulate(self.tasks.tasks.graph(float(Fraction(size) / self._pieces)))

    def predict(self, size: int) -> Prediction:
        """The prediction for a buffer of ``size`` bytes."""
        return prediction(self.collective, self.plan.ranks, size, self.timeline(size))

    def asked(self) -> Collective | None:
        """What the plan carries out; None where that takes a root, which plans do not state, or uneven blocks."""
        from hetesynth.search.collectives import collective

        ranks = self.plan.ranks
        if self.collective in ROOTED or self._pieces % ranks:
            return None
        return collective(self.collective, ranks, self._pieces // ranks)


def first_predictor(
    topology: Topology, programs: Mapping[str, Emitted], options: CostOptions
) -> ProgramPredictor | PlanPredictor | None:
    """The predictor of the first of ``programs``, as a reader reads its bytes; None where there is none."""
    first = next(iter(programs.items()), None)
    if first is None:
        return None
    return contents_predictor(first[1].data, first[0], first[1].target, topology, options)


def contents_predictor(
    data: bytes, name: str, target: Target, topology: Topology, options: CostOptions
) -> ProgramPredictor | PlanPredictor | None:
    """The predictor of a file for ``target`` that holds ``data``; None where there is no program in it."""
    from hetesynth.judge.msccl.reader import read_program
    from hetesynth.judge.mscclpp.reader import read_plan_json

    if target.format.plan:
        return PlanPredictor(topology, read_plan_json(data, name), options)
    program = read_program(data, name).program
    return None if program is None else ProgramPredictor(topology, program, options, target)


def chunks_of_tasks(predictor: PlanPredictor, collective: Collective) -> tuple[tuple[int, ...], ...]:
    """The chunks of ``collective`` that each task moves, followed from the input through all buffers."""
    from hetesynth.programs.lifting.buffers import Buffers

    buffers = Buffers(collective, 1, in_place=predictor.plan.in_place)
    contents: dict[Cell, int] = {(rank, *cell): chunk for (rank, cell), chunk in buffers.at_start().items()}
    by_task: list[tuple[int, ...]] = []
    for place in predictor.tasks.places:
        moved: dict[int, None] = {}
        if place.src is not None and place.dst is not None:
            for k in range(place.count):
                src, dst = _cell(buffers, place.src, k), _cell(buffers, place.dst, k)
                if src in contents:
                    contents[dst] = contents[src]
                    moved[contents[src]] = None
        by_task.append(tuple(moved))
    return tuple(by_task)


def _cell(buffers: Buffers, first: Cell, k: int) -> Cell:
    """The memory of the k-th chunk of a slice, by one name in both views of an aliased buffer."""
    rank, buffer, index = first
    return rank, *buffers.cell(rank, buffer, index + k)


@dataclass(frozen=True, slots=True)
class CostOptions:
    """Which cost model is meant; docs/model.md defines the choices. ``runtime``: None leaves out its costs.
    ``calibration``: None: what runs reach where the runtime's costs count, else the rates that are stated."""

    calibration: CalibrationName | None = None
    policy: Policy = DEFAULT
    runtime: RuntimeCosts | None = None

    @classmethod
    def of(cls, request: Request) -> CostOptions:
        """Those by which the predictions of ``request`` are made."""
        return cls(policy=request.policy, runtime=request.runtime)

    @property
    def rates(self) -> CalibrationName:
        """The calibration by which links have their rates."""
        return self.calibration or ("spec" if self.runtime is None else "measured")

    def costs(self, topology: Topology) -> Costs:
        """The prices of ``topology``."""
        return costs(topology, self.rates, self.runtime)

    def launch(self, topology: Topology) -> float:
        """Seconds that every program takes to start on ``topology``."""
        runtime = costed(self.runtime, self.rates)
        return 0.0 if runtime is None else runtime.launch(topology.models)

    def start(self, topology: Topology) -> float:
        """The same of programs with the protocol of ours."""
        runtime = costed(self.runtime, self.rates)
        return 0.0 if runtime is None else runtime.start(topology.models, OURS)


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


class SchedulePredictor:
    """Predicts one schedule at any size. ``problem.arcs`` are the links of ``topology``."""

    kind: ClassVar[FileKind] = "schedule"

    def __init__(
        self, topology: Topology, problem: Problem, schedule: Schedule, options: CostOptions = CostOptions()
    ) -> None:
        from hetesynth.simulate.schedule import schedule_tasks

        self.problem = problem
        self.schedule = schedule
        self.costs: Costs = options.costs(topology)
        self.tasks: SizedTasks = schedule_tasks(schedule, self.costs)

    def timeline(self, size: int | Fraction) -> Timeline:
        """When each transfer runs for a buffer of ``size`` bytes; task i is transfer i of the schedule."""
        from hetesynth.simulate.engine import simulate

        collective = self.problem.collective
        return simulate(
            self.tasks.graph(chunk_bytes(collective.name, collective.ranks, collective.chunks_per_rank, size))
        )

    def predict(self, size: int) -> Prediction:
        """The prediction for a buffer of ``size`` bytes."""
        collective = self.problem.collective
        return prediction(collective.name, collective.ranks, size, self.timeline(size))


class ProgramPredictor:
    """Predicts one program at any size, loops over slices of large buffers included.

    ``target``: whose messages they are; the portable target has the shortest of all.
    """

    kind: ClassVar[FileKind] = "program"

    def __init__(
        self, topology: Topology, program: Program, options: CostOptions = CostOptions(), target: Target = PORTABLE
    ) -> None:
        from hetesynth.simulate.program import ProgramLoops

        self.program = program
        self.collective = program.collective
        self.costs: Costs = options.costs(topology)
        try:
            self._loops = ProgramLoops(program, self.costs, target=target)
        except ValueError as error:
            raise _misfit(error) from error

    def tasks(self, size: int | Fraction, alike: int = 1) -> ProgramTasks:
        """What is simulated for a buffer of ``size`` bytes, and which instruction each task stands for. ``alike``:
        how many of the program run side by side, each with its part of the bytes and of every resource."""
        whole = Fraction(size) / (self.program.ranks if self.program.collective in ("gather", "scatter") else 1)
        costs = self.costs if alike == 1 else self.costs.shared(alike)
        return self._loops.tasks(float(whole / self.program.chunks_per_loop / alike), costs)

    def timeline(self, size: int | Fraction) -> Timeline:
        """When each task runs; the makespan counts all loops, the arrays hold those that were simulated."""
        return self._run(size)[0]

    def _run(self, size: int | Fraction, alike: int = 1) -> tuple[Timeline, float]:
        from hetesynth.simulate.engine import simulate

        tasks = self.tasks(size, alike)
        try:
            timeline = simulate(tasks.tasks.graph(1.0))
        except ValueError as error:
            raise _misfit(error) from error
        makespan, unsteady = tasks.whole(timeline)
        return replace(timeline, makespan=makespan), unsteady

    def predict(self, size: int, alike: int = 1) -> Prediction:
        """The prediction for a buffer of ``size`` bytes, over ``alike`` of the program as in ``tasks``."""
        timeline, unsteady = self._run(size, alike)
        predicted = prediction(self.program.collective, self.program.ranks, size, timeline)
        return replace(predicted, unsteady=unsteady)


def _misfit(error: ValueError) -> HetesynthError:
    return HetesynthError(str(error), code="HS560", help="check the file: hetesynth verify FILE --topo TOPOLOGY")


def prediction(name: CollectiveName, ranks: int, size: int, timeline: Timeline) -> Prediction:
    """``timeline`` in the terms users ask for."""
    reached = bandwidths(name, ranks, size, timeline.makespan)
    return Prediction(name, ranks, size, timeline.makespan, reached.algorithm, reached.bus, timeline)


def predict(
    topology: Topology, problem: Problem, schedule: Schedule, size: int, options: CostOptions = CostOptions()
) -> Prediction:
    """What ``schedule`` costs at one size; for several sizes use a ``SchedulePredictor``."""
    return SchedulePredictor(topology, problem, schedule, options).predict(size)


def sizes_between(low: int, high: int, factor: int = 4) -> tuple[int, ...]:
    """``low``, ``low`` x ``factor``, ... and ``high`` itself."""
    sizes = []
    at = low
    while at < high:
        sizes.append(at)
        at *= factor
    return (*sizes, high)
