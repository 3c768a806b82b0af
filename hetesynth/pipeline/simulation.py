"""What schedules and programs cost in time: costs, tasks and the simulator put together.

In: a topology with a schedule or a program, and sizes. Out: a ``Prediction`` per size, with its ``Timeline``. A
``ScheduleClock`` keeps what does not depend on the size, so that a loop over sizes is cheap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from hetesynth.model.calibration import CalibrationName
from hetesynth.model.collective import CollectiveName
from hetesynth.model.cost import AlphaReading, Costs, bandwidths, chunk_bytes, costs
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule
from hetesynth.model.topology import Topology

if TYPE_CHECKING:
    from hetesynth.model.timeline import ResourceUse, Timeline
    from hetesynth.simulate.graph_builder import SizedTasks
    from hetesynth.simulate.schedule import StepReading


@dataclass(frozen=True, slots=True)
class CostOptions:
    """Which cost model is meant; docs/model.md defines the choices."""

    calibration: CalibrationName = "spec"
    alpha: AlphaReading = "overlap"
    steps: StepReading = "data"


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a collective of ``size`` bytes takes: seconds, and nccl-tests' two bandwidths in bytes per second."""

    collective: CollectiveName
    ranks: int
    size: int
    seconds: float
    algorithm_bandwidth: float
    bus_bandwidth: float
    timeline: Timeline = field(repr=False)

    @property
    def bottleneck(self) -> ResourceUse | None:
        """The resource with the largest utilization."""
        return self.timeline.bottleneck()


class ScheduleClock:
    """Predicts one schedule at any size. ``problem.arcs`` are the links of ``topology``."""

    def __init__(
        self, topology: Topology, problem: Problem, schedule: Schedule, options: CostOptions = CostOptions()
    ) -> None:  # fmt: skip
        from hetesynth.simulate.schedule import schedule_tasks

        self.problem = problem
        self.costs: Costs = costs(topology, options.calibration, options.alpha)
        self.tasks: SizedTasks = schedule_tasks(problem, schedule, self.costs, options.steps)

    def timeline(self, size: int | Fraction) -> Timeline:
        """When each transfer runs for a buffer of ``size`` bytes; task i is transfer i of the schedule."""
        from hetesynth.simulate.engine import simulate

        asked = self.problem.collective
        return simulate(self.tasks.graph(chunk_bytes(asked.name, asked.ranks, asked.chunks_per_rank, size)))

    def predict(self, size: int) -> Prediction:
        """The prediction for a buffer of ``size`` bytes."""
        asked = self.problem.collective
        return prediction(asked.name, asked.ranks, size, self.timeline(size))


def prediction(name: CollectiveName, ranks: int, size: int, timeline: Timeline) -> Prediction:
    """``timeline`` in the terms users ask for."""
    reached = bandwidths(name, ranks, size, timeline.makespan)
    return Prediction(name, ranks, size, timeline.makespan, reached.algorithm, reached.bus, timeline)


def predict(
    topology: Topology, problem: Problem, schedule: Schedule, size: int, options: CostOptions = CostOptions()
) -> Prediction:  # fmt: skip
    """What ``schedule`` costs at one size; for several sizes use a ``ScheduleClock``."""
    return ScheduleClock(topology, problem, schedule, options).predict(size)


def sizes_between(low: int, high: int, factor: int = 4) -> Sequence[int]:
    """``low``, ``low`` x ``factor``, ... and ``high`` itself."""
    found = []
    at = low
    while at < high:
        found.append(at)
        at *= factor
    return [*found, high]
