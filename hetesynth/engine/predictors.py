"""What schedules and programs cost in time: costs, tasks and the simulator put together.

In: a topology with a schedule or a program, and sizes. Out: a ``Prediction`` per size, with its ``Timeline``. A
``SchedulePredictor`` keeps what does not depend on the size, so that a loop over sizes is cheap.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from hetesynth.engine.formats import FileKind
from hetesynth.engine.request import Request
from hetesynth.errors import HetesynthError
from hetesynth.model.calibration import CalibrationName
from hetesynth.model.collective import CollectiveName
from hetesynth.model.cost import AlphaReading, Costs, bandwidths, chunk_bytes, costed, costs
from hetesynth.model.problem import Problem
from hetesynth.model.program import Program
from hetesynth.model.runtime_costs import OURS, RuntimeCosts
from hetesynth.model.schedule import Schedule
from hetesynth.model.target import PORTABLE, Target
from hetesynth.model.topology import Topology
from hetesynth.policy import DEFAULT, Policy

if TYPE_CHECKING:
    from hetesynth.model.timeline import ResourceUse, Timeline
    from hetesynth.simulate.graph_builder import SizedTasks
    from hetesynth.simulate.program import ProgramTasks
    from hetesynth.simulate.schedule import StepReading


@dataclass(frozen=True, slots=True)
class CostOptions:
    """Which cost model is meant; docs/model.md defines the choices. ``runtime``: None leaves out its costs.
    ``calibration``: None: what runs reach where the runtime's costs count, else the rates that are stated."""

    calibration: CalibrationName | None = None
    alpha: AlphaReading = "overlap"
    steps: StepReading = "order"
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
        return costs(topology, self.rates, self.alpha, self.runtime)

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
    ) -> None:  # fmt: skip
        from hetesynth.simulate.schedule import schedule_tasks

        self._machine_code = options.policy.machine_code
        self.problem = problem
        self.schedule = schedule
        self.costs: Costs = options.costs(topology)
        self.tasks: SizedTasks = schedule_tasks(schedule, self.costs, options.steps)

    def timeline(self, size: int | Fraction) -> Timeline:
        """When each transfer runs for a buffer of ``size`` bytes; task i is transfer i of the schedule."""
        from hetesynth.simulate.engine import simulate

        collective = self.problem.collective
        return simulate(
            self.tasks.graph(chunk_bytes(collective.name, collective.ranks, collective.chunks_per_rank, size)),
            policy=self._machine_code,
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
        self, topology: Topology, program: Program, options: CostOptions = CostOptions(),
        target: Target = PORTABLE,
    ) -> None:  # fmt: skip
        from hetesynth.simulate.program import ProgramLoops

        self._machine_code = options.policy.machine_code
        self.program = program
        self.collective = program.collective
        self.costs: Costs = options.costs(topology)
        try:
            self._loops = ProgramLoops(program, self.costs, target=target, policy=options.policy.simulate)
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
            timeline = simulate(tasks.tasks.graph(1.0), policy=self._machine_code)
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
) -> Prediction:  # fmt: skip
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
