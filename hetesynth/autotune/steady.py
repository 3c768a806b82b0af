"""Steady-state candidates: the optimal packing with some numbers of chunks, as programs that keep what it
promises.

In: a topology, a request, a size. Out: ``Ranked`` candidates, the quickest program first. Numbers of chunks are
tried in the order of what their rounding leaves of the optimum, arrangements of a program as the lowering lists
them, until a program is near enough to the bound or the effort is spent. The effort is counted in operations, not
in seconds, so it is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from hetesynth.autotune.candidates import CandidateSpecs
from hetesynth.autotune.program_ranking import Ranked
from hetesynth.autotune.tuning import Candidate, Pipelined
from hetesynth.collectives.inversion import DUAL, invert
from hetesynth.compile.least_time import transfers
from hetesynth.compile.predictors import CostOptions, SchedulePredictor
from hetesynth.compile.problem import ProblemFactory
from hetesynth.compile.steady_programs import SteadyState, steady_predictor
from hetesynth.lowering.msccl.lower import LoweringOptions
from hetesynth.lowering.steady_state.lower import arrangements
from hetesynth.model.cost import Costs
from hetesynth.model.decisions import Decisions
from hetesynth.model.problem import Budget, Problem
from hetesynth.model.schedule import hops
from hetesynth.model.target import Target
from hetesynth.packing.rounding import WholePacking
from hetesynth.policy.autotune import AutotunePolicy
from hetesynth.report.words import microseconds
from hetesynth.synthesis.search import Search
from hetesynth.synthesis.solve import Solution, Solver
from hetesynth.synthesis.steady.carried import schedule_of
from hetesynth.synthesis.steady.steady_state import refuses, whole_packing
from hetesynth.synthesis.strategy import Strategy
from hetesynth.synthesis.timed.earliest_arrival import Rates
from hetesynth.verify.schedule.judge import schedule_violations

NAME = "steady-state"


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
    ranked: list[Ranked] = field(default_factory=list)
    spent: int = 0

    @property
    def _policy(self) -> AutotunePolicy:
        return self.factory.request.policy.autotune

    @property
    def near_bound(self) -> bool:
        """Whether the best program is as near to the limit as makes others not worth trying."""
        best = min((r.seconds or 0.0 for r in self.ranked), default=0.0)
        return bool(best) and self.limit >= self._policy.steady_near * best

    def all(self) -> list[Ranked]:
        """The quickest program of each number of chunks that was tried, the quickest first."""
        for packed, chunks, problem in self._packings():
            self.limit = max(self.limit, packed.least * self.specs.size)
            if self.near_bound or self._ended(chunks):
                break
            self._try(packed, chunks, problem)
        return sorted(self.ranked, key=lambda r: r.seconds or 0.0)

    def _ended(self, chunks: int) -> bool:
        reason = "the time budget is over" if self.late() else None
        if self.ranked and self.spent >= self._policy.steady_effort:
            reason = f"{self.spent:,} operations are tried, no fewer than {self._policy.steady_effort:,}"
        if reason is not None:
            self.decisions.note(f"{NAME}, c={chunks}", "skipped", reason)
        return reason is not None

    def _packings(self) -> Iterator[tuple[WholePacking, int, Problem]]:
        """Packings in whole chunks, those that leave most of the optimum first; of alike ones fewer chunks."""
        packings = []
        for chunks in self._counts():
            chunking = self.specs.paper_chunking(chunks)
            problem = self.factory.problem(chunking, chunks)
            copied = invert(problem)[0] if problem.collective.name in DUAL else problem
            reason = refuses(copied, self.factory.request.policy)
            if reason is not None:
                self.decisions.note(f"{NAME}, c={chunks}", "refused", reason)
                return
            packed = whole_packing(copied, self._rates(chunks), self.factory.request.policy)
            packings.append((packed, chunks, problem))
        if not packings:
            return
        best = min(packed.seconds for packed, _, _ in packings)
        loss = self._policy.steady_rounding
        yield from sorted(packings, key=lambda p: (p[0].seconds > best * (1 + loss), p[1]))

    def _counts(self) -> list[int]:
        request, policy = self.factory.request, self._policy
        if request.fixed_chunks is not None:
            return [request.fixed_chunks]
        rooted = request.collective in ("broadcast", "reduce")
        counts = policy.steady_counts_rooted if rooted else policy.steady_counts
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

    @property
    def _costs(self) -> Costs:
        return CostOptions.of(self.factory.request).costs(self.factory.topology)

    def _try(self, packed: WholePacking, chunks: int, problem: Problem) -> None:
        """Lower the packing in several arrangements, and keep the quickest program."""
        record = self.decisions.inside(f"{NAME}, c={chunks}")
        candidate = self._candidate(packed, chunks, problem)
        options = self._options()
        schedule, costs = candidate.solution.schedule, self._costs
        best: Ranked | None = None
        tried = 0
        for arrangement in arrangements(problem, schedule, costs, options, self.specs.size):
            steady = SteadyState(arrangement, costs)
            operations = len(schedule.transfers) * arrangement.pieces
            if tried >= self._policy.steady_arrangements or (
                best is not None and self.spent + operations > self._policy.steady_effort
            ):
                record.note(steady.label, "skipped", f"after {self.spent:,} operations")
                continue
            if self.near_bound or (best is not None and self.late()):
                break
            tried, self.spent = tried + 1, self.spent + operations
            predictor = steady_predictor(
                self.factory.topology, problem, schedule, steady, options, CostOptions.of(self.factory.request)
            )
            if predictor is None:
                record.note(steady.label, "refused", "it does not fit the target")
                continue
            seconds = predictor.timeline(self.specs.size).makespan
            record.note(steady.label, "tried", microseconds(seconds))
            if best is None or seconds < (best.seconds or 0.0):
                if best is not None:
                    self.ranked.remove(best)
                best = Ranked(candidate, None, seconds, steady)
                self.ranked.append(best)

    def _options(self) -> LoweringOptions:
        return LoweringOptions(
            "timed", target=self.target, servers=self.factory.topology.servers,
            policy=self.factory.request.policy.lowering,
        )  # fmt: skip

    def _candidate(self, packed: WholePacking, chunks: int, problem: Problem) -> Candidate:
        """The packing as a verified schedule."""
        request, topology = self.factory.request, self.factory.topology

        def improve(search: Search) -> None:
            search.offer(schedule_of(search.problem, packed.carriers), NAME)

        solver = Solver(
            Strategy(NAME, improve, whole=True), replace(Budget(), seed=request.budget.seed),
            lambda p, s: schedule_violations(p, s, request.policy.verify), policy=request.policy,
        )  # fmt: skip
        solution = solver.solve(problem)
        if not isinstance(solution, Solution):
            raise TypeError(solution.reason)
        predictor = SchedulePredictor(topology, problem, solution.schedule, CostOptions.of(request))
        first = max(float(link.latency) for link in topology.links)
        pipelined = Pipelined(hops(solution.schedule, problem.arcs) * first, packed.seconds)
        return Candidate(
            f"{NAME}, c={chunks}", NAME, chunks, self.specs.paper_chunking(chunks), problem, solution, predictor,
            pipelined.seconds(self.specs.size), pipelined,
        )  # fmt: skip
