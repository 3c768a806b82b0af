"""How the trees of a schedule become a program or a plan that keeps all of them busy, and what libraries run."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from hetesynth.engine.formats import servers_of
from hetesynth.errors import HetesynthError
from hetesynth.model.collective import Collective
from hetesynth.model.cost import Costs, chunk_bytes
from hetesynth.model.plan import Plan
from hetesynth.model.problem import Problem
from hetesynth.model.program import Program
from hetesynth.model.schedule import Schedule, hops
from hetesynth.model.topology import Rank
from hetesynth.programs.msccl.library_programs import demand_fit, direct_program, fits, ring_program, tree_program
from hetesynth.programs.msccl.lower import Lowered, LoweringOptions
from hetesynth.programs.steady_state.lower import Arrangement, lower_steady_state
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

    def plan(self, problem: Problem, schedule: Schedule, options: LoweringOptions) -> Plan:
        """As ``finest_steady_plan``."""
        from hetesynth.programs.steady_state.plan import finest_steady_plan

        servers = servers_of(problem, options)
        return finest_steady_plan(problem, schedule, self.costs, self.arrangement, self.most, options, servers)


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


def _named(program: Program, options: LoweringOptions) -> Program:
    """``program`` under the name and for the sizes of ``options``."""
    return replace(program, name=options.name, min_bytes=options.min_bytes, max_bytes=options.stated_max_bytes)


@dataclass(slots=True)
class SteadyState:
    """``arrangement`` of the trees of a schedule, on links of ``costs``. ``latest``: its program, and what it was
    made of."""

    arrangement: Arrangement
    costs: Costs
    latest: tuple[Problem, Schedule, LoweringOptions, Lowered] | None = field(
        default=None, compare=False, repr=False
    )

    @property
    def label(self) -> str:
        """What tells it from others of the same schedule."""
        a = self.arrangement
        return f"steady state, {a.pieces} pieces, {a.division} channels, turn {a.turn:g}"

    def lowered(self, problem: Problem, schedule: Schedule, options: LoweringOptions) -> Lowered:
        """As ``lower_steady_state``."""
        options.check(problem.collective.name)
        if self.latest is not None:
            of, along, under, lowered = self.latest
            if of is problem and along == schedule and under == options.unnamed:
                return replace(lowered, program=_named(lowered.program, options))
        lowered = lower_steady_state(problem, schedule, self.costs, self.arrangement, options)
        self.latest = problem, schedule, options.unnamed, lowered
        return lowered

    def forget(self) -> None:
        """The latest program is needed no more."""
        self.latest = None


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
        return Lowered(_named(program, options), ())

    def fit(self, collective: Collective, options: LoweringOptions) -> bool:
        """Whether the target holds it."""
        return fits(self.program(collective, options), options.target)


Pipeline = SteadyState | LibraryProgram | SteadyPlan
"""How a program or a plan is made of a schedule other than step by step."""


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
