"""What an MSCCL++ plan costs in time, and which chunks of the collective its tasks move.

In: a topology and a plan that its judge has passed. Out: predictions by size, as of schedules and programs.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from hetesynth.engine.formats import FileKind
from hetesynth.engine.predictors import CostOptions, Prediction, ProgramPredictor, prediction
from hetesynth.errors import HetesynthError
from hetesynth.model.collective import COLLECTIVE_NAMES, ROOTED, CollectiveName
from hetesynth.model.plan import Plan
from hetesynth.model.target import Target
from hetesynth.model.topology import Topology

if TYPE_CHECKING:
    from hetesynth.engine.formats import Emitted
    from hetesynth.model.collective import Collective
    from hetesynth.model.timeline import Timeline
    from hetesynth.programs.lifting.buffers import Buffers
    from hetesynth.simulate.plan import Cell, PlanTasks


class PlanPredictor:
    """Predicts one plan at any size."""

    kind: ClassVar[FileKind] = "plan"

    def __init__(self, topology: Topology, plan: Plan, options: CostOptions) -> None:
        from hetesynth.simulate.plan import plan_tasks

        self._machine_code = options.policy.machine_code
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

        return simulate(self.tasks.tasks.graph(float(Fraction(size) / self._pieces)), policy=self._machine_code)

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

    if target.format == "mscclpp-json":
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
