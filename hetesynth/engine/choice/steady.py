"""Steady-state candidates: the optimal packing rounded to some numbers of chunks, as programs that keep the
fullest resource busy. The numbers that rounding leaves nearest to the optimum come first, until a program is near
enough to the bound or the effort, which is counted in transfers, is spent."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import chain

from hetesynth.engine.choice.candidates import CandidateSpecs
from hetesynth.engine.choice.program_ranking import MOST_TRANSFERS, NEAR, ProgramRanking, Route
from hetesynth.engine.choice.tuning import FEW, LATE, UNTRIED, Candidate, Pipelined
from hetesynth.engine.problem import unbounded_solver
from hetesynth.errors import HetesynthError
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule
from hetesynth.model.verdict import GaveUp, Infeasible
from hetesynth.model.words import microseconds
from hetesynth.search.baselines.ring_search import ring_sets
from hetesynth.search.baselines.table import wiring
from hetesynth.search.collectives import DUAL, invert
from hetesynth.search.copy_problem import CopyProblem, NoRoute
from hetesynth.search.packing.exchange import Shallow
from hetesynth.search.packing.rounding import WholePacking
from hetesynth.search.registry import row_of, timed_strategies
from hetesynth.search.search import Search, Strategy
from hetesynth.search.solve import Solution
from hetesynth.search.steady_state import refuses, schedule_of, whole_packings

NAME = "steady-state"
PEERS = 18  # of a rank where every chunk is for one, relays included: 24 to 64 GPUs lose with 12, 15 and 22
MOST_RANKS_RINGS = 256  # up to here rings of servers are searched for, up to an eighth of it those of GPUs
COUNTS: tuple[int, ...] = (1, 2, 3, 4)  # trees of each root
ROOTED_COUNTS = (1, 2, 3, 4, 6, 8, 12, 16, 24)  # trees of a broadcast or a reduce
REDUCED = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14, 16)  # of an allreduce: 64 thread blocks hold about 16


def label_of(chunks: int, trees: int, peers: int | None = None, *, stars: bool = False) -> str:
    """Return the name of a candidate with these numbers. ``stars``: its trees are of few levels."""
    of_trees = (f", {trees} trees" if trees != chunks else "") + (", stars" if stars else "")
    return f"{NAME}, c={chunks}{of_trees}{'' if peers is None else f', {peers} peers'}"


def limited(strategy: Strategy, peers: int) -> Strategy:
    """Return ``strategy`` with no rank sending to, or receiving from, more than ``peers`` others."""

    def improve(search: Search) -> None:
        narrow = replace(
            search, problem=replace(search.problem, max_peers=peers), oracle=lambda _problem, _schedule: []
        )  # its offer is judged
        strategy.improve(narrow)
        if narrow.best is not None:
            search.offer(narrow.best, NAME)

    return replace(strategy, improve=improve)


def packing_strategy(packed: WholePacking) -> Strategy:
    """Return a strategy that offers the schedule along the trees of ``packed``."""

    def improve(search: Search) -> None:
        search.offer(schedule_of(search.problem, packed.carriers), NAME)

    return Strategy(NAME, improve, whole=True)


def schedule_along(problem: Problem, packing: WholePacking) -> Schedule:
    """Return the schedule along the trees of ``packing``."""
    if problem.collective.name not in DUAL:
        return schedule_of(problem, packing.carriers)
    dual, recover = invert(problem)
    return recover(schedule_of(dual, packing.carriers))


def copying_problem(problem: Problem) -> Problem:
    """Return the dual of a reduction to one rank for each chunk, and any other problem as it is."""
    return invert(problem)[0] if problem.collective.name in DUAL else problem


def numbers_of_peers(servers: Sequence[str], blocks: int, fewest: int) -> tuple[int | None, ...]:
    """Return how many others a rank may send to, the best number first; None: all, where sending to one and
    receiving from another may share one of ``blocks`` thread blocks. Over relays each peer takes two blocks, and a
    rank needs its server's other ranks and one of every other server, or ``fewest`` if more."""
    sizes = Counter(servers)
    few = max(fewest, max(sizes.values()) + len(sizes) - 2)
    every: tuple[int | None, ...] = (None,) if len(servers) - 1 < blocks else ()
    narrow = (few,) if few < len(servers) - 1 and 2 * few <= blocks else ()
    return every + narrow or (None,)


@dataclass
class SteadyCandidates:
    """Routes in steady state for ``ranking``: packings and, ``with_rings``, schedules along rings; or exchanges
    where every chunk is for one rank. ``enough``: returns True if a program along rings is so good that large
    packings are not tried."""

    ranking: ProgramRanking
    with_rings: bool = True
    enough: Callable[[], bool] = lambda: False

    @property
    def specs(self) -> CandidateSpecs:
        """The candidate specs of the ranking."""
        return self.ranking.specs

    def try_all(self) -> None:
        """Try the routes, until a program is near the limit or the effort or the time is spent."""
        if self.specs.personalized:
            for paths in self._exchanges():
                self.ranking.run([paths])
        else:
            rings = self._rings() if self.with_rings else iter(())
            counts = self._counts()
            stages: list[Iterator[Route]] = [chain(rings, self._packings(counts))]
            if self.specs.transfers(1) > FEW:
                # of an allreduce many trees are quicker and leave few without a chance
                half = len(counts) // 2 if self.specs.request.collective == "allreduce" else 0
                stages = [rings, self._packings(counts[half:]), self._packings(counts[:half])]
            if self.large:
                stages.append(self.without_search("timed", most=MOST_TRANSFERS))
            for routes in stages:
                if not self.ranking.ranked or not self.enough():
                    self.ranking.run(routes)
        self.ranking.best_step_by_step()

    @property
    def large(self) -> bool:
        """True if, of strategies that count steps or seconds, only earliest arrival may be quicker: chunks are for
        all ranks, transfers are many, and latency hardly counts."""
        specs, others = self.specs, self.with_rings
        return others and not specs.personalized and specs.transfers(1) > FEW and not specs.latency_counts

    def _rings(self) -> Iterator[Route]:
        """Yield routes along rings of servers, where there are several, and of GPUs, a chunk for each ring."""
        specs = self.specs
        if specs.topology.ranks > MOST_RANKS_RINGS:
            return
        if len({*specs.topology.servers}) > 1:
            yield from self.without_search("server-rings")
            if 8 * specs.topology.ranks > MOST_RANKS_RINGS:
                return
        with suppress(NoRoute):
            sets = ring_sets(wiring(CopyProblem(specs.factory.problem(specs.paper_chunking(1), 1))))
            cheapest = min(sets, key=lambda rings: rings.cost)
            yield from self.without_search("ring", len(cheapest.rings))

    def without_search(self, name: str, chunks: int = 1, most: int = 4 * MOST_TRANSFERS) -> Iterator[Route]:
        """Yield the routes of the first variant of strategy ``name``, which needs no search, with requested chunks
        per rank or else ``chunks``; none where it refuses, chunks are too small or there are more transfers than
        ``most``."""
        specs = self.specs
        chunks = specs.request.fixed_chunks or chunks
        if specs.chunk_bytes(chunks) < 1 or specs.transfers(chunks) > most:
            return
        spec = next(specs.of(name, chunks))
        problem = specs.problem(spec)
        try:
            solution = self.solved_by(problem, spec.strategy)
        except HetesynthError:
            return
        if isinstance(solution, Solution):
            load = self.ranking.dispatchings(problem, solution.schedule)[0].load
            candidate = self.candidate(spec.label, problem, solution, load, None, name)
            yield from self.ranking.routes(candidate)

    def _late(self, *, first: bool) -> bool:
        """Return True if the deadline has passed; with no other strategy to try the ``first`` is never late."""
        return not (self.ranking.alone and first) and self.ranking.deadline.expired(UNTRIED)

    def _packings(self, counts: Sequence[tuple[int, int]]) -> Iterator[Route]:
        """Yield routes along different packings, by number of trees, up to twice the first near the bound."""
        policy, enough, seen, ranking = self.specs.request.policy, math.inf, set[Schedule](), self.ranking
        for place, (chunks, trees) in enumerate(counts):
            if trees > enough:
                break
            if self._late(first=place == 0 and not ranking.ranked):
                ranking.decisions.note(label_of(chunks, chunks), "skipped", LATE)
                continue
            problem = self.specs.factory.problem(self.specs.paper_chunking(chunks), chunks)
            packed = copying_problem(problem)
            reason = refuses(packed, policy)
            if reason is not None:
                ranking.decisions.note(NAME, "refused", reason)
                break
            question = packed, self.specs.rates(chunks), policy, ranking.deadline, trees, self.connections(trees)
            most = ranking.best_seconds / self.specs.size
            stars: Shallow = "also" if self.specs.latency_counts else "instead"
            packings = whole_packings(*question, stars=stars, most=most)
            ranking.limit = max([ranking.limit, *(p.least * self.specs.size for p in packings)])
            if any(packing.near_bound for packing in packings):
                enough = min(enough, 2 * trees)
            light = [packing for packing in packings if packing.seconds < most]
            if not light:
                reason = f"whole trees take no less than the best program, {microseconds(ranking.best_seconds)}"
                ranking.decisions.note(label_of(chunks, trees), "skipped", reason)
            for packing in light:
                if (schedule := schedule_along(problem, packing)) not in seen:
                    seen.add(schedule)
                    yield from self.routes(problem, packing, schedule, trees)

    def routes(self, problem: Problem, packing: WholePacking, schedule: Schedule, trees: int) -> Iterator[Route]:
        """Yield ``schedule``, which goes along the trees of ``packing``, dispatched with each protocol."""
        chunks = problem.collective.chunks_per_rank
        label = label_of(chunks, trees, stars=packing.stars)
        solved = cache(partial(self._candidate, label, problem, packing_strategy(packing), packing.seconds, trees))
        for dispatching in self.ranking.dispatchings(problem, schedule):
            yield Route(label, dispatching, dispatching.estimate, self.ranking.ways(dispatching), solved)

    def _candidate(
        self, label: str, problem: Problem, strategy: Strategy, seconds_per_byte: float, trees: int
    ) -> Candidate | None:
        """Return the verified schedule of ``strategy``, or None. ``seconds_per_byte``: of the fullest resource."""
        solution = self.solved_by(problem, strategy)
        if not isinstance(solution, Solution):
            return None
        return self.candidate(label, problem, solution, seconds_per_byte, trees)

    def candidate(
        self,
        label: str,
        problem: Problem,
        solution: Solution,
        seconds_per_byte: float,
        trees: int | None,
        name: str = NAME,
    ) -> Candidate:
        """Return ``solution`` as a candidate. ``trees``: in all or of each root; None: other paths than trees."""
        specs = self.specs
        pipelined = Pipelined(specs.latency(problem, solution.schedule), seconds_per_byte, trees)
        chunking = specs.paper_chunking(problem.collective.chunks_per_rank)
        return Candidate.of(label, name, chunking, problem, solution, specs.size, specs.costs, pipelined)

    def connections(self, trees: int) -> int | None:
        """Return how many connections a rank may have so that each tree has its own; None: too many anyway."""
        most, ranks = self.ranking.target.thread_blocks - 1, self.specs.topology.ranks
        ends = {"allgather": 2 * ranks, "reducescatter": 2 * ranks, "allreduce": 4}
        many = trees * ends.get(self.specs.request.collective, 2) * (ranks - 1) > most * ranks
        return None if many else most

    def _counts(self) -> list[tuple[int, int]]:
        """Return pairs of chunks per rank and trees of each root, or in all where any root will do."""
        request, ranks = self.specs.request, self.specs.topology.ranks
        fixed = request.fixed_chunks
        reduced = request.collective == "allreduce"
        numbers = COUNTS
        if reduced:
            numbers = tuple(sorted({*REDUCED, (ranks + 1) // 2, ranks}))
        elif request.collective in ("broadcast", "reduce"):
            numbers = ROOTED_COUNTS
        if fixed is not None:
            chunks = fixed * ranks if reduced else fixed
            return [(fixed, trees) for trees in sorted({*numbers, chunks}) if chunks % trees == 0]
        counts = [(trees // math.gcd(trees, ranks) if reduced else trees, trees) for trees in numbers]
        return self._fitting(counts)

    def _fitting(self, counts: list[tuple[int, int]]) -> list[tuple[int, int]]:
        """Return the pairs whose chunks are neither too small nor too many; where there are none, the first."""
        fitting = [
            (chunks, trees)
            for chunks, trees in counts
            if self.specs.chunk_bytes(chunks) >= 4_096 and self.specs.transfers(chunks) <= 25_000
        ]
        return fitting or counts[:1]

    def _exchanges(self) -> Iterator[Route]:
        """Yield routes along balanced paths, for chunks for one rank each, by numbers of chunks and of peers."""
        request, counts = self.specs.request, (1, 2)
        fixed, blocks, ranking = request.fixed_chunks, self.ranking.target.thread_blocks - 1, self.ranking
        peers: tuple[int | None, ...] = (None,)  # as many as the request leaves
        if request.max_peers is None:
            peers = numbers_of_peers(self.specs.topology.servers, blocks, PEERS)
        for place, (chunks, few) in enumerate(
            (chunks, few)
            for chunks, _ in self._fitting([(c, c) for c in (counts if fixed is None else (fixed,))])
            for few in peers
        ):
            label = label_of(chunks, chunks, few)
            reason = NEAR if ranking.near_bound else None
            if reason is None and ranking.ranked:
                reason = ranking.effort.exceeded_by(4 * self.specs.transfers(chunks))  # balancing takes so long
            if reason is not None:
                ranking.decisions.note(label, "skipped", reason)
            elif self._late(first=place == 0):
                ranking.decisions.note(label, "skipped", LATE)
            else:
                yield from self._exchange(label, chunks, few)

    def _exchange(self, label: str, chunks: int, few: int | None) -> Iterator[Route]:
        """Yield the route of paths for ``chunks`` chunks per rank over ``few`` peers of each (None: any)."""
        problem = self.specs.factory.problem(self.specs.paper_chunking(chunks), chunks)
        _, strategy = timed_strategies(row_of("exchange"), self.specs.rates(chunks))[0]
        try:
            solution = self.solved_by(problem, strategy if few is None else limited(strategy, few))
        except HetesynthError as error:
            self.ranking.decisions.note(label, "refused", error.message)
            return
        if isinstance(solution, Solution):
            dispatching = self.ranking.dispatchings(problem, solution.schedule)[0]
            candidate = partial(self.candidate, label, problem, solution, dispatching.load, chunks)
            yield Route(label, dispatching, dispatching.least_seconds, self.ranking.ways(dispatching), candidate)

    def solved_by(self, problem: Problem, strategy: Strategy) -> Solution | Infeasible | GaveUp:
        """Return the verified solution of ``problem`` by ``strategy``, or why there is none."""
        return unbounded_solver(strategy, self.specs.request).solve(problem)
