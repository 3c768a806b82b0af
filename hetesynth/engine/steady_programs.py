"""Programs and plans in steady state, or as a library runs them, from the choice to the file.

Where a target or a form of the collective cannot hold one, the schedule is lowered step by step.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Protocol

from hetesynth.engine.formats import Emitted, plan_of, servers_of, xml_of
from hetesynth.engine.predictors import (
    MAX_PROGRAM_TRANSFERS,
    CostOptions,
    PlanPredictor,
    ProgramPredictor,
)
from hetesynth.errors import HetesynthError, InternalError
from hetesynth.model.collective import Collective
from hetesynth.model.cost import Costs, chunk_bytes, runtime_bytes
from hetesynth.model.plan import Plan
from hetesynth.model.problem import Problem
from hetesynth.model.program import Program
from hetesynth.model.schedule import Schedule, hops
from hetesynth.model.topology import Rank, Topology
from hetesynth.programs.msccl.library_programs import (
    demand_fit,
    direct_program,
    fits,
    ring_program,
    tree_program,
)
from hetesynth.programs.msccl.lower import Lowered, LoweringOptions
from hetesynth.programs.steady_state.lower import Arrangement, lower_steady_state

if TYPE_CHECKING:  # plans, which are rare
    from hetesynth.programs.steady_state.wiring import PlanArrangement


@dataclass(frozen=True, slots=True)
class SteadyPlan:
    """``arrangement`` of the trees of a schedule in a plan, with up to ``most`` pieces, on links of ``costs``."""

    arrangement: PlanArrangement
    most: int
    costs: Costs

    @property
    def label(self) -> str:
        """What tells it from others of the same schedule."""
        a = self.arrangement
        return f"plan in steady state, about {a.pieces} pieces, {a.width} x {a.shifts} thread blocks for each tree"

    def lowered(self, problem: Problem, schedule: Schedule, options: LoweringOptions) -> Lowered:
        """It is no program, and is chosen only where none is made."""
        raise InternalError("a plan in steady state is lowered to a program")

    def plan(self, problem: Problem, schedule: Schedule, options: LoweringOptions) -> Plan:
        """As ``finest_steady_plan``."""
        from hetesynth.programs.steady_state.plan import finest_steady_plan

        return finest_steady_plan(
            problem,
            schedule,
            self.costs,
            self.arrangement,
            self.most,
            options,
            servers_of(problem, options),
        )


@dataclass(frozen=True, slots=True)
class QuickPlan:
    """A plan and what it takes. ``steady``: how it runs in steady state, None where it is lowered step by step."""

    plan: Plan
    seconds: float
    steady: SteadyPlan | None


def steady_plans(
    problem: Problem, schedule: Schedule, options: LoweringOptions, costs: Costs, size: int
) -> list[SteadyPlan]:
    """Those that may be quickest for ``size`` bytes; none where there are none."""
    from hetesynth.programs.steady_state.plan import plan_arrangements

    collective = problem.collective
    whole = chunk_bytes(collective.name, collective.ranks, collective.chunks_per_rank, size)
    enough = 16 * hops(schedule, problem.arcs)  # a broadcast along 4 hops: 5144 us with 56 pieces, 5182 with 112
    most = max(1, min(enough, int(whole // options.policy.steady_least_piece)))
    try:
        listed = plan_arrangements(problem, schedule, costs, most)
    except HetesynthError:
        return []
    return [SteadyPlan(arrangement, most, costs) for arrangement in listed]


def quick_plan(
    topology: Topology,
    problem: Problem,
    schedule: Schedule,
    steady: SteadyPlan,
    size: int,
    options: LoweringOptions,
    costs: CostOptions,
) -> QuickPlan | None:
    """The plan of ``steady``; None where the runtime cannot hold it, or not for ``size`` bytes."""
    try:
        with no_collections():
            return _timed(topology, steady.plan(problem, schedule, options), steady, size, costs)
    except HetesynthError:
        return None


def quickest_plan(
    topology: Topology,
    problem: Problem,
    schedule: Schedule,
    size: int,
    options: LoweringOptions,
    costs: CostOptions,
) -> QuickPlan | None:
    """The quickest for ``size`` bytes; None where the runtime can hold none."""
    from hetesynth.programs.mscclpp.lower import lower_plan

    def plans() -> Iterator[QuickPlan | None]:
        for steady in steady_plans(problem, schedule, options, costs.costs(topology), size):
            yield quick_plan(topology, problem, schedule, steady, size, options, costs)
        try:
            plan = lower_plan(problem, schedule, options, servers_of(problem, options))
            yield _timed(topology, plan, None, size, costs)
        except HetesynthError:
            return

    return min((p for p in plans() if p is not None), key=lambda p: p.seconds, default=None)


def plan_emitted(
    topology: Topology,
    problem: Problem,
    schedule: Schedule,
    size: int,
    steady: Pipeline | None,
    options: LoweringOptions,
    costs: CostOptions,
) -> Emitted | None:
    """The file of the plan; None where the target takes none, none fits, or the schedule is so large that plans
    are not simulated to choose."""
    if not options.target.format.plan:
        return None
    if isinstance(steady, SteadyPlan):
        try:
            with no_collections():
                return plan_of(steady.plan(problem, schedule, options), options)
        except HetesynthError:  # in place the collective may have none
            pass
    if len(schedule.transfers) > MAX_PROGRAM_TRANSFERS:
        return None
    quick = quickest_plan(topology, problem, schedule, size, options, costs)
    return None if quick is None else plan_of(quick.plan, options)


def _timed(
    topology: Topology, plan: Plan, steady: SteadyPlan | None, size: int, costs: CostOptions
) -> QuickPlan | None:
    from hetesynth.programs.mscclpp.lower import largest_call

    predictor = PlanPredictor(topology, plan, costs)
    if largest_call(plan.collective, plan.gpus) < runtime_bytes(predictor.collective, plan.ranks, size):
        return None
    return QuickPlan(plan, predictor.timeline(size).makespan, steady)


class Pipeline(Protocol):
    """How the trees of a schedule become a program that keeps all of them busy at once."""

    @property
    def label(self) -> str:
        """What tells it from others of the same schedule."""

    def lowered(self, problem: Problem, schedule: Schedule, options: LoweringOptions) -> Lowered:
        """The program. HetesynthError where the target cannot hold it, or the collective has no such form."""


@dataclass(slots=True)
class LatestProgram:
    """The program that was lowered last, and of what, so that the file of a program that was timed needs no second
    lowering."""

    question: tuple[Problem, Schedule, LoweringOptions] | None = None
    lowered: Lowered | None = None

    def of(self, problem: Problem, schedule: Schedule, options: LoweringOptions) -> Lowered | None:
        """The program of ``schedule``, under the name and for the sizes of ``options``, if it is that one."""
        if self.question is None or self.lowered is None:
            return None
        last_problem, last_schedule, last_options = self.question
        if last_problem is not problem or last_schedule != schedule or last_options != options.unnamed:
            return None
        program = replace(
            self.lowered.program,
            name=options.name,
            min_bytes=options.min_bytes,
            max_bytes=options.stated_max_bytes,
        )
        return replace(self.lowered, program=program)

    def keep(self, problem: Problem, schedule: Schedule, options: LoweringOptions, lowered: Lowered) -> None:
        """Remember ``lowered``."""
        self.question, self.lowered = (problem, schedule, options.unnamed), lowered

    def forget(self) -> None:
        """It is needed no more."""
        self.question = self.lowered = None


@dataclass(frozen=True, slots=True)
class SteadyState:
    """``arrangement`` of the trees of a schedule, on links of ``costs``. ``latest``: its program, once there is
    one."""

    arrangement: Arrangement
    costs: Costs
    latest: LatestProgram = field(default_factory=LatestProgram, compare=False, repr=False)

    @property
    def label(self) -> str:
        """What tells it from others of the same schedule."""
        a = self.arrangement
        return f"steady state, {a.pieces} pieces, {a.division} channels, turn {a.turn:g}"

    def lowered(self, problem: Problem, schedule: Schedule, options: LoweringOptions) -> Lowered:
        """As ``lower_steady_state``."""
        options.check(problem.collective.name)
        lowered = self.latest.of(problem, schedule, options)
        if lowered is None:
            lowered = lower_steady_state(problem, schedule, self.costs, self.arrangement, options)
            self.latest.keep(problem, schedule, options, lowered)
        return lowered


@dataclass(frozen=True, slots=True)
class LibraryProgram:
    """A program as a library runs it, whatever schedule goes along the same links: rings in the ``orders`` of the
    ranks, one a channel (``apart``: see ``ring_program``), double binary ``trees`` of an AllReduce, one a channel,
    or else each chunk straight to its receiver, on so many ``channels``."""

    orders: tuple[tuple[Rank, ...], ...] = ()
    apart: int = 0
    trees: tuple[tuple[Rank, ...], ...] = ()
    channels: int = 0

    @property
    def label(self) -> str:
        """What tells it from others of the same schedule."""
        if self.trees:
            return f"trees on {len(self.trees)} channels"
        if self.orders:
            return f"rings on {len(self.orders)} channels" + (", ranks in turn" if self.apart else "")
        return f"sends on {self.channels} channels"

    def program(self, collective: Collective, options: LoweringOptions) -> Program:
        """It, without limits of a target. ``collective``: in as many parts as it has channels or chunks."""
        name, in_place, fused = options.name, options.in_place, "rrc" in options.target.ops
        if self.trees:
            return tree_program(name, self.trees, len(collective.chunks), in_place=in_place, fused=fused)
        if self.orders:
            fused = fused and collective.reduces
            return ring_program(name, collective, self.orders, self.apart, in_place=in_place, fused=fused)
        return direct_program(name, collective, self.channels, in_place=in_place)

    def lowered(self, problem: Problem, schedule: Schedule, options: LoweringOptions) -> Lowered:
        """It, of the collective of ``problem``. HetesynthError HS501 where it does not fit."""
        options.check(problem.collective.name)
        program = self.program(problem.collective, options)
        demand_fit(program, options.target)
        sizes = replace(program, min_bytes=options.min_bytes, max_bytes=options.stated_max_bytes)
        return Lowered(sizes, ())

    def fit(self, collective: Collective, options: LoweringOptions) -> bool:
        """Whether the target holds it."""
        return fits(self.program(collective, options), options.target)


def steady_emitted(
    problem: Problem, schedule: Schedule, steady: Pipeline | None, options: LoweringOptions
) -> Emitted | None:
    """The file of the program; None where ``steady`` is, or where the target cannot hold it."""
    if steady is None or options.target.format.plan:
        return None
    lowered = _lowered(problem, schedule, steady, options)
    return None if lowered is None else xml_of(lowered, options)


def steady_predictor(
    topology: Topology,
    problem: Problem,
    schedule: Schedule,
    steady: Pipeline,
    options: LoweringOptions,
    costs: CostOptions,
) -> ProgramPredictor | None:
    """The predictor of the program, for any size; None where the target cannot hold it."""
    with no_collections():
        lowered = _lowered(problem, schedule, steady, options)
        return None if lowered is None else ProgramPredictor(topology, lowered.program, costs, options.target)


@contextmanager
def no_collections() -> Iterator[None]:
    """Without collections of garbage: lowering makes many objects and no garbage, and took 1.6 times as long."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


def _lowered(problem: Problem, schedule: Schedule, steady: Pipeline, options: LoweringOptions) -> Lowered | None:
    try:
        return steady.lowered(problem, schedule, options)
    except HetesynthError:
        return None
