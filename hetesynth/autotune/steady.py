"""Steady-state candidates: the optimal packing with some numbers of chunks, as programs that keep what it
promises.

In: a topology, a request, a size. Out: ``Ranked`` candidates, the quickest program first. Numbers of chunks are
tried in the order of what their rounding leaves of the optimum, arrangements of a program as the lowering lists
them, until a program is near enough to the bound or the effort is spent, which is counted in operations.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np

from hetesynth.autotune.candidates import CandidateSpecs
from hetesynth.autotune.effort import Effort
from hetesynth.autotune.program_ranking import Ranked
from hetesynth.autotune.tuning import Candidate, Pipelined
from hetesynth.collectives.inversion import DUAL, invert
from hetesynth.compile.least_time import transfers
from hetesynth.compile.predictors import CostOptions, SchedulePredictor
from hetesynth.compile.problem import ProblemFactory
from hetesynth.compile.steady_plans import SteadyPlan, quick_plan, steady_plans
from hetesynth.compile.steady_programs import SteadyState, steady_predictor
from hetesynth.errors import HetesynthError
from hetesynth.lowering.msccl.lower import LoweringOptions
from hetesynth.lowering.steady_state.lower import arrangements
from hetesynth.model.cost import Costs
from hetesynth.model.decisions import Decisions
from hetesynth.model.problem import Budget, Problem
from hetesynth.model.schedule import Schedule, hops
from hetesynth.model.target import Target
from hetesynth.model.verdict import GaveUp, Infeasible
from hetesynth.packing.rounding import WholePacking
from hetesynth.policy.autotune import AutotunePolicy
from hetesynth.report.words import microseconds
from hetesynth.synthesis.registry import row_of, timed_strategies
from hetesynth.synthesis.search import Search
from hetesynth.synthesis.solve import Solution, Solver
from hetesynth.synthesis.steady.carried import schedule_of
from hetesynth.synthesis.steady.steady_state import refuses, whole_packing
from hetesynth.synthesis.strategy import Strategy
from hetesynth.synthesis.timed.earliest_arrival import Rates
from hetesynth.verify.schedule.judge import schedule_violations

NAME = "steady-state"


@dataclass(frozen=True)
class _Plan:
    """A packing with ``trees`` trees, or as many of each root, over ``peers`` peers of a rank at most, and one
    arrangement of its program or plan."""

    packed: WholePacking
    chunks: int
    trees: int
    peers: int | None
    problem: Problem
    solution: Solution
    pipeline: SteadyState | SteadyPlan
    place: int  # of the arrangement among those of the packing
    seconds: float  # expected

    @property
    def label(self) -> str:
        """What it is called."""
        trees = f", {self.trees} trees" if self.trees != self.chunks else ""
        return f"{NAME}, c={self.chunks}{trees}" + (f", {self.peers} peers" if self.peers else "")


@dataclass
class SteadyCandidates:
    """Tries them for ``specs.size`` bytes. ``limit``: seconds that nothing is quicker than. ``late``: whether
    time is over."""

    factory: ProblemFactory
    specs: CandidateSpecs
    target: Target
    limit: float
    late: Callable[[], bool]
    decisions: Decisions
    effort: Effort
    ranked: list[Ranked] = field(default_factory=list)

    @property
    def _policy(self) -> AutotunePolicy:
        return self.factory.request.policy.autotune

    @property
    def near_bound(self) -> bool:
        """Whether the best program is as near to the limit as makes others not worth trying."""
        best = min((r.seconds or 0.0 for r in self.ranked), default=0.0)
        return bool(best) and self.limit >= self._policy.steady_near * best

    def all(self) -> list[Ranked]:
        """The quickest program of each packing that was tried, the quickest first."""
        for peers in (self.factory.request.max_peers, *self._policy.steady_peers):
            if self.near_bound or (self.ranked and (self.late() or self.effort.exhausted)):
                break
            for plan in self._sorted_plans(peers):
                reason = "the limit is near" if self.near_bound else self._ended(plan)
                if reason is None:
                    self._try(plan)
                else:
                    self.decisions.note(self._name(plan), "skipped", reason)
        return self.quickest_first()

    def quickest_first(self) -> list[Ranked]:
        """What was tried so far."""
        return sorted(self.ranked, key=lambda r: r.seconds or 0.0)

    def _sorted_plans(self, peers: int | None) -> list[_Plan]:
        """The best arrangement of each packing first, then the next, the quickest first; none where so few peers
        do not join all ranks."""
        try:
            return sorted(self._plans(peers), key=lambda plan: (plan.place, plan.seconds))
        except ValueError as error:
            if peers == self.factory.request.max_peers:
                raise
            self.decisions.note(f"{NAME}, {peers} peers", "refused", str(error))
            return []

    def _ended(self, plan: _Plan) -> str | None:
        if not self.ranked:
            return None
        exceeded = self.effort.exceeded_by(self._work(plan))
        if exceeded is not None:
            return exceeded
        best = min(r.seconds or 0.0 for r in self.ranked)
        if plan.seconds > self._policy.steady_hope * best:
            return f"{microseconds(plan.seconds)} are expected, the best program takes {microseconds(best)}"
        return "the time budget is over" if self.late() else None

    def _work(self, plan: _Plan) -> float:
        request = self.factory.request
        number = transfers(request.collective, self.factory.topology.ranks, plan.chunks)
        policy = request.policy.effort
        each = policy.plan_operation if isinstance(plan.pipeline, SteadyPlan) else policy.operation
        return each * plan.pipeline.arrangement.pieces * number

    def _plans(self, peers: int | None) -> Iterator[_Plan]:
        """The packings in whole chunks that look best, each with the arrangements that do."""
        if self.specs.personalized:
            if peers == self.factory.request.max_peers:
                yield from self._exchanges()
            return
        policy, ranks = self._policy, self.factory.topology.ranks

        def promise(entry: tuple[WholePacking, int, int, Problem]) -> float:
            packed, _, trees, problem = entry
            every = trees * (ranks if problem.collective.name in ("allgather", "reducescatter") else 1)
            return packed.seconds * (1.0 + policy.steady_tree_cost * every / ranks)

        for packed, chunks, trees, problem in sorted(self._packings(peers), key=promise)[: policy.steady_packings]:
            if peers == self.factory.request.max_peers:
                self.limit = max(self.limit, packed.least * self.specs.size)
            elif self.limit < policy.steady_near * packed.least * self.specs.size:
                return
            solution = self._solved(problem, _along(packed))
            if isinstance(solution, Solution):
                yield from self._arranged(partial(_Plan, packed, chunks, trees, peers), problem, solution)

    def _exchanges(self) -> Iterator[_Plan]:
        """Balanced paths, where every chunk is for one rank."""
        for chunks in self._counts():
            problem = self.factory.problem(self.specs.paper_chunking(chunks), chunks)
            _, strategy = timed_strategies(row_of("exchange"), self._rates(chunks), self._policy)[0]
            try:
                solution = self._solved(problem, strategy)
            except HetesynthError as error:
                self.decisions.note(f"{NAME}, c={chunks}", "refused", error.message)
                return
            if isinstance(solution, Solution):
                packed = self._paths(solution.schedule, chunks)
                yield from self._arranged(partial(_Plan, packed, chunks, chunks, None), problem, solution)

    def _paths(self, schedule: Schedule, chunks: int) -> WholePacking:
        """What the paths of ``schedule`` load."""
        costs, load = self._costs, [0.0] * len(self._costs.resource_rate)
        for transfer in schedule.transfers:
            for r in costs.link_resources[transfer.link]:
                load[r] += 1.0
        each = self.specs.chunk_bytes(chunks) / self.specs.size
        seconds = each * max(number / rate for number, rate in zip(load, costs.resource_rate, strict=True))
        return WholePacking((), np.array(load), seconds, 0.0)

    def _arranged(self, plan: Callable[..., _Plan], problem: Problem, solution: Solution) -> Iterator[_Plan]:
        """A plan for each of the arrangements of the program that look best."""
        policy, size = self._policy, self.specs.size
        if self.target.format == "mscclpp-json":
            plans = steady_plans(problem, solution.schedule, self._options(), self._costs, size)
            for place, steady in enumerate(plans):
                expected = plan(problem, solution, steady, place, 1.0)
                yield replace(expected, seconds=expected.packed.seconds * size)
            return
        listed = sorted(
            arrangements(problem, solution.schedule, self._costs, self._options(), size),
            key=lambda a: (round(math.log(a.estimate) / policy.steady_alike), a.pieces),
        )
        for place, arrangement in enumerate(listed[: policy.steady_arrangements]):
            filling = 1.0 + policy.steady_filling * (arrangement.estimate - 1.0)
            expected = plan(problem, solution, SteadyState(arrangement, self._costs), place, filling)
            yield replace(expected, seconds=expected.packed.seconds * filling * size)

    def _packings(self, peers: int | None) -> Iterator[tuple[WholePacking, int, int, Problem]]:
        """Packings by numbers of chunks and of trees."""
        policy = self.factory.request.policy
        for chunks in self._counts():
            problem = self.factory.problem(self.specs.paper_chunking(chunks), chunks)
            copied = replace(_copied(problem), max_peers=peers)
            reason = refuses(copied, policy)
            if reason is not None:
                self.decisions.note(f"{NAME}, c={chunks}", "refused", reason)
                return
            for trees in self._trees(copied, chunks):
                yield whole_packing(copied, self._rates(chunks), policy, trees), chunks, trees, problem

    def _trees(self, problem: Problem, chunks: int) -> list[int]:
        """Numbers of trees: of each root, or where any root will do, of all chunks or an even part of them."""
        if problem.collective.name == "allgather":
            return [chunks]
        number = len(problem.collective.chunks)
        return [number // part for part in self._policy.steady_parts if number % part == 0]

    def _counts(self) -> list[int]:
        request, policy = self.factory.request, self._policy
        if request.fixed_chunks is not None:
            return [request.fixed_chunks]
        counts = policy.steady_counts
        if request.collective in ("broadcast", "reduce"):
            counts = policy.steady_counts_rooted
        elif self.specs.personalized:
            counts = policy.steady_counts_personalized
        most, ranks = policy.steady_transfers, self.factory.topology.ranks
        fitting = [c for c in counts if self.specs.chunk_bytes(c) >= policy.steady_chunk_bytes]
        few = [c for c in fitting if transfers(request.collective, ranks, c) <= most]
        return few or fitting[:1]

    def _rates(self, chunks: int) -> Rates:
        prices = self._costs
        return Rates(
            prices.link_alpha, prices.link_resources, prices.resource_rate, self.specs.chunk_bytes(chunks),
            self.factory.topology.servers,
        )  # fmt: skip

    @cached_property
    def _costs(self) -> Costs:
        return CostOptions.of(self.factory.request).costs(self.factory.topology)

    def _solved(self, problem: Problem, strategy: Strategy) -> Solution | Infeasible | GaveUp:
        """What ``strategy`` finds, verified."""
        request = self.factory.request
        oracle = partial(schedule_violations, policy=request.policy.verify)
        return Solver(strategy, Budget(seed=request.budget.seed), oracle, policy=request.policy).solve(problem)

    def _try(self, plan: _Plan) -> None:
        """Lower the packing and keep its program, if it is the quickest of its packing."""
        candidate = self._candidate(plan)
        self.effort.spend(self._work(plan))
        seconds = self._seconds(plan)
        if seconds is None:
            self.decisions.note(self._name(plan), "refused", "it does not fit the target")
            return
        self.decisions.note(self._name(plan), "tried", microseconds(seconds))
        others = [r for r in self.ranked if r.candidate.label == plan.label]
        if all(seconds < (r.seconds or 0.0) for r in others):
            self.ranked = [r for r in self.ranked if r not in others]
            self.ranked.append(Ranked(candidate, None, seconds, plan.pipeline))

    def _seconds(self, plan: _Plan) -> float | None:
        """What the program or plan takes; None where the target cannot hold it."""
        topology, size, costs = self.factory.topology, self.specs.size, CostOptions.of(self.factory.request)
        schedule, options, pipeline = plan.solution.schedule, self._options(), plan.pipeline
        if isinstance(pipeline, SteadyPlan):
            quick = quick_plan(topology, plan.problem, schedule, pipeline, size, options, costs)
            return None if quick is None else quick.seconds
        predictor = steady_predictor(topology, plan.problem, schedule, pipeline, options, costs)
        return None if predictor is None else predictor.timeline(size).makespan

    def _name(self, plan: _Plan) -> str:
        return f"{plan.label}: {plan.pipeline.label}"

    def _options(self) -> LoweringOptions:
        return LoweringOptions(
            "timed", target=self.target, servers=self.factory.topology.servers,
            policy=self.factory.request.policy.lowering,
        )  # fmt: skip

    def _candidate(self, plan: _Plan) -> Candidate:
        """The packing as a verified schedule."""
        request, topology, solution = self.factory.request, self.factory.topology, plan.solution
        options = CostOptions.of(request)
        predictor = SchedulePredictor(topology, plan.problem, solution.schedule, options)
        slowest = max(float(link.latency) for link in topology.links)
        latency = options.start(topology) + hops(solution.schedule, plan.problem.arcs) * slowest
        pipelined = Pipelined(latency, plan.packed.seconds)
        return Candidate(
            plan.label, NAME, plan.chunks, self.specs.paper_chunking(plan.chunks), plan.problem, solution,
            predictor, pipelined.seconds(self.specs.size), pipelined,
        )  # fmt: skip


def _along(packed: WholePacking) -> Strategy:
    """A strategy that offers the schedule along the trees of ``packed``."""

    def improve(search: Search) -> None:
        search.offer(schedule_of(search.problem, packed.carriers), NAME)

    return Strategy(NAME, improve, whole=True)


def _copied(problem: Problem) -> Problem:
    """The problem, or of a reduction to one rank for each chunk its dual."""
    return invert(problem)[0] if problem.collective.name in DUAL else problem
