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

from hetesynth.autotune.candidates import CandidateSpecs
from hetesynth.autotune.effort import Effort
from hetesynth.autotune.program_ranking import Ranked, timed_lowering
from hetesynth.autotune.tuning import UNTRIED, Candidate, Pipelined
from hetesynth.collectives.inversion import DUAL, invert
from hetesynth.compile.least_time import transfers
from hetesynth.compile.predictors import CostOptions, SchedulePredictor
from hetesynth.compile.problem import ProblemFactory
from hetesynth.compile.steady_programs import SteadyState, steady_predictor
from hetesynth.compile.verified_solver import verified_solver
from hetesynth.errors import HetesynthError
from hetesynth.lowering.msccl.lower import LoweringOptions
from hetesynth.lowering.steady_state.lower import Arrangement, arrangements
from hetesynth.lowering.steady_state.traffic import Traffic
from hetesynth.model.cost import Costs
from hetesynth.model.deadline import Deadline
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
from hetesynth.synthesis.solve import Solution
from hetesynth.synthesis.steady.carried import schedule_of
from hetesynth.synthesis.steady.steady_state import refuses, whole_packing
from hetesynth.synthesis.strategy import Strategy

NAME = "steady-state"


@dataclass(frozen=True)
class _Plan:
    """A packing with ``trees`` trees, or as many of each root, over ``peers`` peers of a rank at most, and one
    arrangement of its program. ``seconds_per_byte``: of the buffer, what the packing takes of the fullest
    resource."""

    seconds_per_byte: float
    chunks: int
    trees: int
    peers: int | None
    problem: Problem
    solution: Solution
    arrangement: Arrangement
    place: int  # of the arrangement among those of the packing
    seconds: float  # expected

    @property
    def label(self) -> str:
        """What it is called."""
        trees = f", {self.trees} trees" if self.trees != self.chunks else ""
        return f"{NAME}, c={self.chunks}{trees}" + (f", {self.peers} peers" if self.peers else "")


@dataclass
class SteadyCandidates:
    """Tries them for ``specs.size`` bytes. ``limit``: seconds that nothing is quicker than. After ``deadline``
    nothing more is begun."""

    factory: ProblemFactory
    specs: CandidateSpecs
    target: Target
    limit: float
    deadline: Deadline
    decisions: Decisions
    effort: Effort
    ranked: list[Ranked] = field(default_factory=list)

    @property
    def _policy(self) -> AutotunePolicy:
        return self.factory.request.policy.autotune

    def late(self) -> bool:
        """Whether time is over."""
        return self.deadline.expired(UNTRIED)

    @property
    def near_bound(self) -> bool:
        """Whether the best program is as near to the limit as makes others not worth trying."""
        best = self.best_seconds
        return bool(best) and self.limit >= self._policy.steady_near * best

    @property
    def best_seconds(self) -> float:
        """Of the quickest program so far; 0 where none is."""
        return min((r.seconds or 0.0 for r in self.ranked), default=0.0)

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
        return request.policy.effort.operation * plan.arrangement.pieces * number

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
                yield from self._arranged(partial(_Plan, packed.seconds, chunks, trees, peers), problem, solution)

    def _exchanges(self) -> Iterator[_Plan]:
        """Balanced paths, where every chunk is for one rank."""
        for chunks in self._counts():
            problem = self.factory.problem(self.specs.paper_chunking(chunks), chunks)
            _, strategy = timed_strategies(row_of("exchange"), self.specs.rates(chunks), self._policy)[0]
            try:
                solution = self._solved(problem, strategy)
            except HetesynthError as error:
                self.decisions.note(f"{NAME}, c={chunks}", "refused", error.message)
                return
            if isinstance(solution, Solution):
                seconds = self._of_paths(problem, solution.schedule, chunks)
                yield from self._arranged(partial(_Plan, seconds, chunks, chunks, None), problem, solution)

    def _of_paths(self, problem: Problem, schedule: Schedule, chunks: int) -> float:
        """Seconds of the fullest resource for each byte of the buffer, along the paths of ``schedule``."""
        traffic = Traffic.of(problem, schedule, self._costs, steps_of_addition=1)
        return self.specs.chunk_bytes(chunks) / self.specs.size * traffic.seconds_per_byte

    def _arranged(self, plan: Callable[..., _Plan], problem: Problem, solution: Solution) -> Iterator[_Plan]:
        """A plan for each of the arrangements of the program that look best."""
        policy, size = self._policy, self.specs.size
        listed = sorted(
            arrangements(problem, solution.schedule, self._costs, self._options(), size),
            key=lambda a: (round(math.log(a.estimate) / policy.steady_alike), a.pieces),
        )
        for place, arrangement in enumerate(listed[: policy.steady_arrangements]):
            filling = 1.0 + policy.steady_filling * (arrangement.estimate - 1.0)
            expected = plan(problem, solution, arrangement, place, filling)
            yield replace(expected, seconds=expected.seconds_per_byte * filling * size)

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
                packed = whole_packing(copied, self.specs.rates(chunks), policy, self.deadline, trees)
                yield packed, chunks, trees, problem

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

    @cached_property
    def _costs(self) -> Costs:
        return CostOptions.of(self.factory.request).costs(self.factory.topology)

    def _solved(self, problem: Problem, strategy: Strategy) -> Solution | Infeasible | GaveUp:
        """What ``strategy`` finds, verified."""
        request = self.factory.request
        return verified_solver(strategy, Budget(seed=request.budget.seed), request.policy).solve(problem)

    def _try(self, plan: _Plan) -> None:
        """Lower the packing and keep its program, if it is the quickest of its packing."""
        topology, request = self.factory.topology, self.factory.request
        candidate = self._candidate(plan)
        steady = SteadyState(plan.arrangement, self._costs)
        self.effort.spend(self._work(plan))
        predictor = steady_predictor(
            topology, plan.problem, candidate.solution.schedule, steady, self._options(), CostOptions.of(request)
        )
        if predictor is None:
            self.decisions.note(self._name(plan), "refused", "it does not fit the target")
            return
        seconds = predictor.timeline(self.specs.size).makespan
        self.decisions.note(self._name(plan), "tried", microseconds(seconds))
        others = [r for r in self.ranked if r.candidate.label == plan.label]
        if all(seconds < (r.seconds or 0.0) for r in others):
            self.ranked = [r for r in self.ranked if r not in others]
            self.ranked.append(Ranked(candidate, None, seconds, steady))

    def _name(self, plan: _Plan) -> str:
        return f"{plan.label}: {SteadyState(plan.arrangement, self._costs).label}"

    def _options(self) -> LoweringOptions:
        return timed_lowering(self.factory.request, self.target, self.factory.topology)

    def _candidate(self, plan: _Plan) -> Candidate:
        """The packing as a verified schedule."""
        request, topology, solution = self.factory.request, self.factory.topology, plan.solution
        options = CostOptions.of(request)
        predictor = SchedulePredictor(topology, plan.problem, solution.schedule, options)
        slowest = max(float(link.latency) for link in topology.links)
        latency = options.start(topology) + hops(solution.schedule, plan.problem.arcs) * slowest
        pipelined = Pipelined(latency, plan.seconds_per_byte)
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
