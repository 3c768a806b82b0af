"""Lowering of a schedule to the file of a target: a program that was dispatched or that a library runs, the
quickest plan or table; where the target cannot hold those, the steps one after the other."""

import math
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache

from hetesynth.engine.formats import FORMATS, Emitted, plan_of, servers_of, table_of, xml_of
from hetesynth.engine.predictors import (
    MAX_PROGRAM_TRANSFERS,
    CostOptions,
    PlanPredictor,
    ProgramPredictor,
    TablePredictor,
)
from hetesynth.engine.protocols import quickest_protocol
from hetesynth.engine.steady_programs import Dispatched, DispatchedPlan, Pipeline, PlanDispatching, no_collections
from hetesynth.errors import HetesynthError
from hetesynth.model.cost import Costs, chunk_bytes, runtime_bytes
from hetesynth.model.plan import Plan
from hetesynth.model.problem import Problem
from hetesynth.model.program import Program, Protocol
from hetesynth.model.schedule import Schedule
from hetesynth.model.target import PLAIN_OPS
from hetesynth.model.topology import Rank, Topology
from hetesynth.programs.msccl.lower import Lowered, LoweringOptions, lower_with_notes
from hetesynth.programs.mscclpp.lower import largest_call, lower_plan
from hetesynth.programs.tables.lower import ORDERS, depths, lower_table

Pair = tuple[Rank, Rank]


def chunk_seconds(costs: Costs, protocol: Protocol) -> dict[Pair, float]:
    """Return the seconds for each byte of a chunk that one thread block sends between two ranks over all their
    links, nobody else sending."""
    rates: dict[Pair, float] = defaultdict(float)
    for ends, rate in zip(costs.link_ends, costs.link_rate, strict=True):
        rates[ends] += rate
    copying = {src: costs.copy_rate(src, protocol) for src, _ in rates}
    return {pair: 1 / min(rate, copying[pair[0]] or rate) for pair, rate in rates.items()}


UNFUSED = "no fused receives: with them the program does not fit"
EQUAL = 1e-9  # of the time: programs nearer than that are equally quick, and the shorter one is written


@dataclass(frozen=True, slots=True)
class QuickPlan:
    """A plan and its seconds. ``steady``: how it runs in steady state, None where it is lowered step by step."""

    plan: Plan
    seconds: float
    steady: DispatchedPlan | None


PIECES = (1, 2, 4, 8, 16, 32, 64, 128)
LEAST_PIECE = 1024  # bytes
MOST_MESSAGES = 60_000


@dataclass(frozen=True, slots=True)
class QuickTable:
    """The predictor of a table, and the seconds of the table."""

    predictor: TablePredictor
    seconds: float


@dataclass(frozen=True, eq=False)
class Lowering:
    """A schedule to be lowered as ``options`` say, so that it is quickest for ``size`` bytes by ``costs``. Two are
    equal only if topology, problem and schedule are the same objects."""

    topology: Topology
    problem: Problem
    schedule: Schedule
    size: int
    options: LoweringOptions
    costs: CostOptions

    @property
    def _identity(self) -> tuple[object, ...]:
        return id(self.topology), id(self.problem), id(self.schedule), self.size, self.costs

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Lowering) and self._identity == other._identity and self.options == other.options

    def __hash__(self) -> int:
        return hash(self._identity)

    def emitted(self, steady: Pipeline | None = None) -> Emitted:
        """Return the file: along ``steady`` where the target holds such a program, else of the quickest."""
        options = self.options
        if options.target.format.plan:
            plan = self.plan(steady)
            if plan is None:
                return FORMATS[options.target.format].emit(self.problem, self.schedule, options)
            return plan_of(plan, options)
        if options.target.format.table:
            quick = self.quickest_table()
            if quick is None:
                return FORMATS[options.target.format].emit(self.problem, self.schedule, options)
            table = quick.predictor.table
            table = replace(table, name=options.name, min_bytes=options.min_bytes, max_bytes=options.max_bytes)
            return table_of(table, options)
        pipelined = self._pipelined(steady)
        if pipelined is None:
            pipelined, steady = self._step_by_step(), None
        return xml_of(replace(pipelined, program=self._quickest(pipelined.program, steady)), options)

    def seconds(self) -> float | None:
        """Return the seconds of the program step by step, or of the quickest plan or table; None: none fits."""
        if self.options.target.format.plan:
            quick = self.quickest_plan()
            return None if quick is None else quick.seconds
        if self.options.target.format.table:
            table = self.quickest_table()
            return None if table is None else table.seconds
        predictor = self.predictor()
        return None if predictor is None else predictor.timeline(self.size).makespan

    def predictor(self, steady: Pipeline | None = None) -> ProgramPredictor | TablePredictor | None:
        """Return the predictor, for any size, of the program along ``steady`` or step by step, or of the table;
        None where the target cannot hold it."""
        if self.options.target.format.table:
            quick = self.quickest_table()
            return None if quick is None else quick.predictor
        with no_collections():
            lowered = self._pipelined(steady)
            if steady is None:
                with suppress(HetesynthError):
                    lowered = self._step_by_step()
            predictor = None if lowered is None else self._predictor(lowered.program)
            if predictor is not None and isinstance(steady, Dispatched) and steady.size == self.size:
                protocol = predictor.program.protocol
                steady.quickest = self.problem, self.schedule, self.options.target, protocol
            return predictor

    def _predictor(self, program: Program) -> ProgramPredictor:
        """Return the predictor of ``program`` with the quickest protocol."""
        target, servers = self.options.target, self.options.servers
        return quickest_protocol(self.topology, program, self.size, self.costs, target, servers)

    def _quickest(self, program: Program, steady: Pipeline | None) -> Program:
        """Return ``program`` with the quickest protocol: known if ``steady`` was timed for this size."""
        if isinstance(steady, Dispatched) and steady.quickest and steady.size == self.size:
            of, along, target, protocol = steady.quickest
            if of is self.problem and along == self.schedule and target == self.options.target:
                return replace(program, protocol=protocol)
        return self._predictor(program).program

    def _pipelined(self, steady: Pipeline | None) -> Lowered | None:
        """Return the program along ``steady``; None where there is none that fits."""
        if steady is None or isinstance(steady, DispatchedPlan):
            return None
        try:
            return steady.lowered(self.problem, self.schedule, self.options)
        except HetesynthError:
            return None

    # plans

    def plan(self, steady: Pipeline | None) -> Plan | None:
        """Return the plan along ``steady``, else the quickest; None: none fits, or they are too large to time."""
        if isinstance(steady, DispatchedPlan):
            with suppress(HetesynthError), no_collections():  # in place the collective may have none
                return steady.plan(self.problem, self.schedule, self.options)
        if len(self.schedule.transfers) > MAX_PROGRAM_TRANSFERS:
            return None
        quick = self.quickest_plan()
        return None if quick is None else quick.plan

    def quick_plan(self, steady: DispatchedPlan | None) -> QuickPlan | None:
        """Return the plan along ``steady``, or step by step; None where the runtime cannot hold it, or not for
        ``size`` bytes."""
        servers = servers_of(self.problem, self.options)
        with suppress(HetesynthError), no_collections():
            if steady is None:
                plan = lower_plan(self.problem, self.schedule, self.options, servers)
            else:
                plan = steady.plan(self.problem, self.schedule, self.options)
            predictor = PlanPredictor(self.topology, plan, self.costs)
            call = runtime_bytes(predictor.collective, plan.ranks, self.size)
            if largest_call(plan.collective, plan.gpus) >= call:
                return QuickPlan(plan, predictor.timeline(self.size).makespan, steady)
        return None

    def quickest_plan(self) -> QuickPlan | None:
        """Return the quickest plan; None where the runtime can hold none."""
        costs = self.costs.costs(self.topology)
        dispatching = PlanDispatching(self.problem, self.schedule, costs, self.options, self.size)
        listed: list[DispatchedPlan] = []
        with suppress(HetesynthError):  # chunks that do not take trees
            best, _ = dispatching.best(max(10_000, 3 * len(self.schedule.transfers)))
            listed = [dispatching.pipeline(arrangement) for _, arrangement in best]
        plans = (self.quick_plan(steady) for steady in (*listed, None))
        return min((p for p in plans if p is not None), key=lambda p: p.seconds, default=None)

    # tables

    def quickest_table(self) -> QuickTable | None:
        """Return the quickest table that verifies; None where none does."""
        return _quickest_table(replace(self, options=self.options.unnamed))

    # programs step by step

    def _step_by_step(self) -> Lowered:
        """Return the program with fused receives where the target has them, which are a third fewer instructions
        where data is added; plain ones need fewer shared thread blocks. HetesynthError where neither fits."""
        options, prices = self.options, self.costs.costs(self.topology)
        options = replace(options, chunk_seconds=chunk_seconds(prices, options.protocol))
        if not (options.target.ops > PLAIN_OPS and options.fusion != "none"):
            return lower_with_notes(self.problem, self.schedule, options)
        with suppress(HetesynthError):
            return lower_with_notes(self.problem, self.schedule, options)
        plain = lower_with_notes(self.problem, self.schedule, replace(options, fusion="none"))
        return replace(plain, notes=(*plain.notes, UNFUSED))


@lru_cache(maxsize=64)
def _quickest_table(q: Lowering) -> QuickTable | None:
    """Return the quickest table, found once for choice and file: twice as many pieces while that is quicker."""
    from hetesynth.judge.tables.judge import table_violations

    goal, target, best = q.problem.collective, q.options.target, None
    chunk = chunk_bytes(goal.name, goal.ranks, goal.chunks_per_rank, q.size)
    seen: list[list[int]] = []
    for order in ORDERS:
        if (rounds := depths(q.problem, q.schedule, order)) in seen:
            continue
        seen.append(rounds)
        before = math.inf
        for pieces in PIECES:
            if pieces > 1 and (chunk < LEAST_PIECE * pieces or len(q.schedule.transfers) * pieces > MOST_MESSAGES):
                break
            table = lower_table(q.problem, q.schedule, q.options, pieces, order)
            if pieces == 1 and table_violations(table, root=goal.root, max_findings=1):
                break  # what a transfer does not wait for must not come before it
            predictor = TablePredictor(q.topology, table, q.costs, target)
            seconds = predictor.timeline(q.size).makespan
            if best is None or seconds < best.seconds * (1 - EQUAL):
                best = QuickTable(predictor, seconds)
            if seconds > before:
                break
            before = seconds
    return best
