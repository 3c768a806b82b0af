"""The predicted time of schedules, programs and plans: a predictor keeps what does not depend on the size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import count, takewhile
from typing import ClassVar

from hetesynth.engine.formats import Emitted, FileKind
from hetesynth.engine.request import Request
from hetesynth.errors import HetesynthError
from hetesynth.model.calibration import CalibrationName
from hetesynth.model.collective import COLLECTIVE_NAMES, CollectiveName
from hetesynth.model.cost import Costs, bandwidths, chunk_bytes, costed, costs
from hetesynth.model.plan import Plan
from hetesynth.model.problem import Problem
from hetesynth.model.program import Program
from hetesynth.model.runtime_costs import RuntimeCosts
from hetesynth.model.schedule import Schedule
from hetesynth.model.table import Table
from hetesynth.model.target import PORTABLE, Target
from hetesynth.model.timeline import ResourceUse, Timeline
from hetesynth.model.topology import Topology
from hetesynth.policy import DEFAULT, Policy
from hetesynth.simulate.engine import simulate
from hetesynth.simulate.graph_builder import SizedTasks
from hetesynth.simulate.plan import plan_tasks
from hetesynth.simulate.program import ProgramLoops, ProgramTasks
from hetesynth.simulate.schedule import schedule_tasks
from hetesynth.simulate.table import table_tasks
from hetesynth.topology.language.units import parse_quantity

MAX_SIZES = 256
MAX_PROGRAM_TRANSFERS = 5_000  # of a schedule whose program is simulated too


def buffer_size(text: str, option: str) -> int:
    """Return the bytes of a collective's buffer or of a chunk; a number alone is bytes. HetesynthError HS307 where
    ``text`` states none."""
    stated = f"{text.strip()}B" if text.strip().isdecimal() else text
    size = int(parse_quantity(stated, "size", option))
    if not 1 <= size <= 2**50:
        message = f"{option}: {text!r} is not a size from 1 byte to 1 PiB"
        raise HetesynthError(message, code="HS307", help="for example 16MB")
    return size


def buffer_sizes(text: str, option: str, factor: int = 4) -> tuple[int, ...]:
    """Return the sizes that ``text`` states: one, several with commas, or ``1KB..4GB`` in steps of ``factor``."""
    sizes: list[int] = []
    for part in text.split(",")[: MAX_SIZES + 1]:
        low, dots, high = part.partition("..")
        first = buffer_size(low, option)
        last = buffer_size(high, option) if dots else first
        if last < first:
            message = f"{option}: {part.strip()!r} ends before it begins"
            raise HetesynthError(message, code="HS307", help="write the smaller size first")
        sizes.extend(sizes_between(first, last, factor) if dots else (first,))
    if len(sizes) > MAX_SIZES:
        raise HetesynthError(f"{option}: at most {MAX_SIZES} sizes", code="HS307", help="larger steps, or fewer")
    return tuple(sorted(set(sizes)))


@dataclass(frozen=True, slots=True)
class CostOptions:
    """The choice of a cost model; docs/model.md defines the choices. ``runtime``: None leaves out its costs.
    ``calibration``: None: the rates that runs reach where the runtime's costs count, else the stated rates."""

    calibration: CalibrationName | None = None
    policy: Policy = DEFAULT
    runtime: RuntimeCosts | None = None

    @classmethod
    def of(cls, request: Request) -> CostOptions:
        """Return the options by which the predictions of ``request`` are made."""
        return cls(policy=request.policy, runtime=request.runtime)

    @property
    def rates(self) -> CalibrationName:
        """The calibration by which links have their rates."""
        return self.calibration or ("spec" if self.runtime is None else "measured")

    @property
    def line_rate(self) -> CostOptions:
        """The options with the rates of the topology, for which limits are proved; a stated calibration stays."""
        return self if self.calibration is not None else replace(self, calibration="spec")

    def costs(self, topology: Topology) -> Costs:
        """Return the prices of ``topology``."""
        return costs(topology, self.rates, self.runtime)

    def launch(self, topology: Topology) -> float:
        """Return the seconds that every program takes to start on ``topology``."""
        runtime = costed(self.runtime, self.rates)
        return 0.0 if runtime is None else runtime.launch(topology.models)

    def start(self, topology: Topology) -> float:
        """Return the seconds that a program with protocol Simple takes to start on ``topology``."""
        runtime = costed(self.runtime, self.rates)
        return 0.0 if runtime is None else runtime.start(topology.models, "Simple")


@dataclass(frozen=True, slots=True)
class Prediction:
    """The predicted seconds of a collective of ``size`` bytes, and nccl-tests' two bandwidths in bytes per second.
    ``unsteady``: by how much the simulated loops of a program differ from their mean."""

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


def _misfit(error: ValueError) -> HetesynthError:
    return HetesynthError(str(error), code="HS560", help="check the file: hetesynth verify FILE --topo TOPOLOGY")


class _Predictor:
    """Predicts one schedule, program or plan of ``collective`` at any size."""

    kind: ClassVar[FileKind]
    collective: CollectiveName
    ranks: int

    def run(self, size: int | Fraction) -> tuple[Timeline, float]:
        """Return the timeline of the tasks for a buffer of ``size`` bytes, and how unsteady the loops are."""
        raise NotImplementedError

    def timeline(self, size: int | Fraction) -> Timeline:
        """Return the timeline of the tasks for a buffer of ``size`` bytes."""
        return self.run(size)[0]

    def predict(self, size: int) -> Prediction:
        """Return the prediction for a buffer of ``size`` bytes."""
        timeline, unsteady = self.run(size)
        reached = bandwidths(self.collective, self.ranks, size, timeline.makespan)
        rates = reached.algorithm, reached.bus
        return Prediction(self.collective, self.ranks, size, timeline.makespan, *rates, timeline, unsteady)


class PlanPredictor(_Predictor):
    """Predicts one plan."""

    kind = "plan"

    def __init__(self, topology: Topology, plan: Plan, options: CostOptions) -> None:
        self.plan, self.ranks = plan, plan.ranks
        self.collective = next(name for name in COLLECTIVE_NAMES if name == plan.collective)
        self._pieces = max(max(gpu.input_chunks, gpu.output_chunks) for gpu in plan.gpus)
        try:
            self.tasks = plan_tasks(plan, options.costs(topology))
        except ValueError as error:
            raise _misfit(error) from error

    def run(self, size: int | Fraction) -> tuple[Timeline, float]:
        """Return the timeline of the tasks for a buffer of ``size`` bytes, and 0, as plans do not loop."""
        return simulate(self.tasks.tasks.graph(float(Fraction(size) / self._pieces))), 0.0

    def repriced(self, topology: Topology, options: CostOptions) -> PlanPredictor:
        """Return the predictor of the same plan by other costs."""
        return PlanPredictor(topology, self.plan, options)


class TablePredictor(_Predictor):
    """Predicts one table; task i is its message i. ``target``: the target whose executor runs the table."""

    kind = "table"

    def __init__(self, topology: Topology, table: Table, options: CostOptions, target: Target) -> None:
        self.table, self.target = table, target
        self.collective, self.ranks = table.collective, table.ranks
        self._pieces = table.chunks
        priced = options.runtime is not None
        one, each = target.round_seconds * priced, target.message_seconds * priced
        try:
            self.tasks = table_tasks(table, options.costs(topology), lambda most: one + most * each)
        except ValueError as error:
            raise _misfit(error) from error

    def run(self, size: int | Fraction) -> tuple[Timeline, float]:
        """Return the timeline of the messages for a buffer of ``size`` bytes, and 0, as tables do not loop."""
        return simulate(self.tasks.graph(float(Fraction(size) / self._pieces))), 0.0

    def repriced(self, topology: Topology, options: CostOptions) -> TablePredictor:
        """Return the predictor of the same table by other costs."""
        return TablePredictor(topology, self.table, options, self.target)


class SchedulePredictor(_Predictor):
    """Predicts one schedule; task i is its transfer i. ``problem.arcs`` are the links of ``topology``."""

    kind = "schedule"

    def __init__(
        self, topology: Topology, problem: Problem, schedule: Schedule, options: CostOptions = CostOptions()
    ) -> None:
        self.problem, self.schedule = problem, schedule
        self.collective, self.ranks = problem.collective.name, problem.ranks
        self.costs = options.costs(topology)
        self.tasks = schedule_tasks(schedule, self.costs)

    def run(self, size: int | Fraction) -> tuple[Timeline, float]:
        """Return the timeline of the transfers for a buffer of ``size`` bytes, and 0, as schedules do not loop."""
        chunks = self.problem.collective.chunks_per_rank
        return simulate(self.tasks.graph(chunk_bytes(self.collective, self.ranks, chunks, size))), 0.0


class ProgramPredictor(_Predictor):
    """Predicts one program: the makespan counts all loops over slices of large buffers, the arrays hold the loops
    that were simulated. ``target``: the target whose messages they are."""

    kind = "program"

    def __init__(
        self, topology: Topology, program: Program, options: CostOptions = CostOptions(), target: Target = PORTABLE
    ) -> None:
        self.program, self.target = program, target
        self.collective, self.ranks = program.collective, program.ranks
        self.costs = options.costs(topology).of(program.protocol)
        self._latest: tuple[int | Fraction, tuple[Timeline, float]] | None = None
        self._simulated: tuple[SizedTasks, Timeline] | None = None
        try:
            self._loops = ProgramLoops(program, self.costs, target=target)
        except ValueError as error:
            raise _misfit(error) from error

    def repriced(self, topology: Topology, options: CostOptions) -> ProgramPredictor:
        """Return the predictor of the same program by other costs."""
        return ProgramPredictor(topology, self.program, options, self.target)

    def tasks(self, size: int | Fraction) -> ProgramTasks:
        """Return the tasks that are simulated for ``size`` bytes, and the instruction that each stands for."""
        whole = Fraction(size) / (self.ranks if self.collective in ("gather", "scatter") else 1)
        return self._loops.tasks(float(whole / self.program.chunks_per_loop))

    def run(self, size: int | Fraction) -> tuple[Timeline, float]:
        """Return the timeline, and how unsteady the loops are; the latest answer is kept, as whoever chose a
        protocol for a size asks again."""
        if self._latest is None or self._latest[0] != size:
            tasks = self.tasks(size)
            if self._simulated is None or self._simulated[0] is not tasks.tasks:
                try:
                    self._simulated = tasks.tasks, simulate(tasks.tasks.graph(1.0))
                except ValueError as error:
                    raise _misfit(error) from error
            timeline = self._simulated[1]
            makespan, unsteady = tasks.whole(timeline)
            self._latest = size, (replace(timeline, makespan=makespan), unsteady)
        return self._latest[1]


AnyPredictor = ProgramPredictor | PlanPredictor | TablePredictor


def first_predictor(
    topology: Topology, programs: Mapping[str, Emitted], options: CostOptions
) -> AnyPredictor | None:
    """Return the predictor of the first of ``programs``, read from its bytes; None where there is none."""
    for name, program in programs.items():
        return contents_predictor(program.data, name, program.target, topology, options)
    return None


def contents_predictor(
    data: bytes, name: str, target: Target, topology: Topology, options: CostOptions
) -> AnyPredictor | None:
    """Return the predictor of a file for ``target`` that holds ``data``; None where there is no program in it."""
    from hetesynth.judge.msccl.reader import read_program
    from hetesynth.judge.mscclpp.reader import read_plan_json
    from hetesynth.judge.tables.reader import read_table

    if target.format.table:
        return TablePredictor(topology, read_table(data, name), options, target)
    if target.format.plan:
        return PlanPredictor(topology, read_plan_json(data, name), options)
    program = read_program(data, name).program
    return None if program is None else ProgramPredictor(topology, program, options, target)


def sizes_between(low: int, high: int, factor: int = 4) -> tuple[int, ...]:
    """Return ``low``, ``low`` x ``factor``, ... and ``high`` itself."""
    return (*takewhile(lambda size: size < high, (low * factor**k for k in count())), high)
