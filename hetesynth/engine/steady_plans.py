"""Which plan is written of a schedule: in steady state or step by step, whichever is quicker.

In: a schedule, a size, how it is lowered for a target in MSCCL++ JSON. Out: a ``QuickPlan``, the quickest of the
arrangements in steady state and of the step lowering, or its file. Every time is that of the simulated plan.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hetesynth.engine.formats import Emitted, plan_of, plan_options, servers_of
from hetesynth.engine.plan_predictor import PlanPredictor
from hetesynth.engine.predictors import CostOptions
from hetesynth.engine.steady_programs import Pipeline, no_collections
from hetesynth.errors import HetesynthError, InternalError
from hetesynth.model.cost import Costs, chunk_bytes, runtime_bytes
from hetesynth.model.plan import Plan
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, hops
from hetesynth.model.topology import Topology
from hetesynth.programs.msccl.lower import Lowered, LoweringOptions
from hetesynth.programs.mscclpp.lower import largest_call, lower_plan
from hetesynth.programs.steady_state.plan import finest_steady_plan, plan_arrangements
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
        return finest_steady_plan(
            problem, schedule, self.costs, self.arrangement, self.most, plan_options(options),
            servers_of(problem, options),
        )  # fmt: skip


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
    collective = problem.collective
    whole = chunk_bytes(collective.name, collective.ranks, collective.chunks_per_rank, size)
    policy = options.policy
    enough = policy.steady_plan_pieces * hops(schedule, problem.arcs)
    most = max(1, min(enough, int(whole // policy.steady_least_piece)))
    try:
        listed = plan_arrangements(problem, schedule, costs, policy, most)
    except HetesynthError:
        return []
    return [SteadyPlan(arrangement, most, costs) for arrangement in listed]


def quick_plan(
    topology: Topology, problem: Problem, schedule: Schedule, steady: SteadyPlan, size: int,
    options: LoweringOptions, costs: CostOptions,
) -> QuickPlan | None:  # fmt: skip
    """The plan of ``steady``; None where the runtime cannot hold it, or not for ``size`` bytes."""
    try:
        with no_collections():
            return _timed(topology, steady.plan(problem, schedule, options), steady, size, costs)
    except HetesynthError:
        return None


def quickest_plan(
    topology: Topology, problem: Problem, schedule: Schedule, size: int, options: LoweringOptions,
    costs: CostOptions,
) -> QuickPlan | None:  # fmt: skip
    """The quickest for ``size`` bytes; None where the runtime can hold none."""

    def plans() -> Iterator[QuickPlan | None]:
        for steady in steady_plans(problem, schedule, options, costs.costs(topology), size):
            yield quick_plan(topology, problem, schedule, steady, size, options, costs)
        try:
            plan = lower_plan(problem, schedule, plan_options(options), servers_of(problem, options))
            yield _timed(topology, plan, None, size, costs)
        except HetesynthError:
            return

    return min((p for p in plans() if p is not None), key=lambda p: p.seconds, default=None)


def plan_emitted(
    topology: Topology, problem: Problem, schedule: Schedule, size: int, steady: Pipeline | None,
    options: LoweringOptions, costs: CostOptions,
) -> Emitted | None:  # fmt: skip
    """The file of the plan; None where the target takes none, none fits, or the schedule is so large that plans
    are not simulated to choose."""
    if options.target.format != "mscclpp-json":
        return None
    if isinstance(steady, SteadyPlan):
        try:
            with no_collections():
                return plan_of(steady.plan(problem, schedule, options), options)
        except HetesynthError:  # in place the collective may have none
            pass
    if len(schedule.transfers) > costs.policy.compile.max_program_transfers:
        return None
    quick = quickest_plan(topology, problem, schedule, size, options, costs)
    return None if quick is None else plan_of(quick.plan, options)


def _timed(
    topology: Topology, plan: Plan, steady: SteadyPlan | None, size: int, costs: CostOptions
) -> QuickPlan | None:  # fmt: skip
    predictor = PlanPredictor(topology, plan, costs)
    if largest_call(plan.collective, plan.gpus) < runtime_bytes(predictor.collective, plan.ranks, size):
        return None
    return QuickPlan(plan, predictor.timeline(size).makespan, steady)
