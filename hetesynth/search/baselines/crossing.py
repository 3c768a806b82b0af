"""AllReduce whose sums cross each slow fabric once: groups scatter sums among their ranks, trade them level by
level with the other groups, and gather. A reduce-scatter before an allgather crosses every fabric twice.

Levels are the groups that links of no more than some latency join; groups trade what their ranks hold of a chunk,
all at once, before anything of it is added.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache

from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.topology import Rank
from hetesynth.policy import Policy
from hetesynth.search.bounds.regions import components
from hetesynth.search.copy_problem import CopyProblem, NoRoute
from hetesynth.search.search import Search, Strategy
from hetesynth.search.server_groups import ServerGraph
from hetesynth.search.timed.earliest_arrival import Rates

Groups = list[list[Rank]]


def levels_of(problem: Problem, alpha: Sequence[float]) -> list[Groups]:
    """Ranks grouped by links of ever more latency: each on its own, ..., all together."""
    levels: list[Groups] = [[[rank] for rank in range(problem.ranks)]]
    for most in sorted({*alpha}):
        pairs = [(arc.src, arc.dst) for arc, a in zip(problem.arcs, alpha, strict=True) if a <= most]
        groups = sorted(sorted(group) for group in components(problem.ranks, pairs))
        if groups != levels[-1]:
            levels.append(groups)
        if len(groups) == 1:
            return levels
    raise NoRoute("links do not join all ranks")


class _Steps:
    """A schedule under construction: transfers as early as capacities allow."""

    def __init__(self, problem: Problem, alpha: Sequence[float]) -> None:
        self.tables, self.alpha = CopyProblem(problem), alpha
        self.graph, self.exclusive = ServerGraph(self.tables), problem.exclusive_reduction
        self.carried: Counter[tuple[int, int]] = Counter()  # chunks, by resource and step
        self.added: set[tuple[Rank, int, int]] = set()  # where a chunk is added in a step
        self.ready: Counter[tuple[Rank, int]] = Counter()  # the step from which a rank holds a chunk
        self.transfers: list[Transfer] = []
        self.known: dict[tuple[Rank, bool, int], list[tuple[Rank, Rank]]] = {}

    def paths(self, home: Rank, group: Sequence[Rank], *, into: bool) -> list[tuple[Rank, Rank]]:
        """Return ``_paths``, found once for each rank and size of group: a rank is in one group of each size."""
        key = home, into, len(group)
        if key not in self.known:
            self.known[key] = self._paths(home, group, into=into)
        return self.known[key]

    def _paths(self, home: Rank, group: Sequence[Rank], *, into: bool) -> list[tuple[Rank, Rank]]:
        """Return quickest paths from ``home`` to ``group``, or back if ``into``: pairs of ranks, nearest first."""
        near: dict[Rank, list[tuple[Rank, float]]] = {rank: [] for rank in group}
        arcs, uses = self.tables.problem.arcs, self.tables.resources_of
        leaving = {
            r for arc, used in zip(arcs, uses, strict=True) if (arc.src in near) != (arc.dst in near) for r in used
        }
        for arc, used, alpha in zip(arcs, uses, self.alpha, strict=True):
            ends = (arc.dst, arc.src) if into else (arc.src, arc.dst)
            if ends[0] in near and ends[1] in near:  # what leads out of the group is kept for that
                near[ends[0]].append((ends[1], alpha if leaving.isdisjoint(used) else alpha + 1.0))
        pairs, reached, queue = list[tuple[Rank, Rank]](), set[Rank](), [(0.0, home, home)]
        while queue:
            seconds, rank, by = heapq.heappop(queue)
            if rank not in reached:
                reached.add(rank)
                pairs += [(by, rank)] if rank != home else []
                for to, alpha in near[rank]:
                    heapq.heappush(queue, (seconds + alpha, to, rank))
        if len(pairs) + 1 < len(group):
            raise NoRoute(f"a group of ranks around {home} is not joined both ways")
        return pairs

    def sender_in_turn(self, sources: Sequence[Rank], to: Rank, turn: int) -> Rank:
        """Return the one of ``sources`` that sends to ``to``, those with a link in turn. NoRoute: none has one."""
        linked = [rank for rank in sources if self.graph.arc(rank, to) is not None]
        if not linked:
            raise NoRoute(f"no link from ranks {list(sources)} to rank {to}")
        return linked[turn % len(linked)]

    def move(self, chunk: int, moves: Sequence[tuple[Rank, Rank]], *, reduce: bool) -> None:
        """Send ``chunk`` along ``moves``, all in one step. NoRoute: a link is missing, or carries too little."""
        arcs = [self.graph.take(src, dst) for src, dst in moves]
        needed = Counter(r for arc in arcs for r in self.tables.resources_of[arc])
        if any(count > self.tables.resources[r].capacity for r, count in needed.items()):
            raise NoRoute(f"chunk {chunk} is traded by more ranks than a step has room for")
        into = Counter(dst for _, dst in moves)
        if reduce and self.exclusive and max(into.values()) > 1:
            raise NoRoute("a rank would add several values to a chunk at once")
        step = max(self.ready[src, chunk] for src, _ in moves)
        while any(
            self.carried[r, step] + count > self.tables.resources[r].capacity for r, count in needed.items()
        ) or (reduce and self.exclusive and any((dst, chunk, step) in self.added for dst in into)):
            step += 1
        for (_, dst), arc in zip(moves, arcs, strict=True):
            self.transfers.append(Transfer(step, step + 1, chunk, arc, reduce))
            self.added.add((dst, chunk, step))
        for r, count in needed.items():
            self.carried[r, step] += count
        for _, dst in moves:
            self.ready[dst, chunk] = max(self.ready[dst, chunk], step + 1)


def crossing(problem: Problem, alpha: Sequence[float], levels: Sequence[Groups], scattered: int) -> Schedule:
    """The schedule in which the groups of level ``scattered`` scatter their sums. NoRoute: there is none."""
    steps, ranks = _Steps(problem, alpha), problem.ranks
    for chunk in range(len(problem.collective.chunks)):
        homes = [group[chunk % ranks * len(group) // ranks] for group in levels[scattered]]
        group_of = dict(zip(homes, levels[scattered], strict=True))
        for home, group in group_of.items():
            for to, rank in reversed(steps.paths(home, group, into=True)):
                steps.move(chunk, [(rank, to)], reduce=True)
        parts = [[home] for home in homes]  # ranks that hold the same sum
        for level in levels[scattered + 1 :]:
            together = [[part for part in parts if part[0] in group] for group in map(frozenset, level)]
            for joined in together:
                trades = [
                    (steps.sender_in_turn(other, rank, i), rank)
                    for part in joined
                    for other in joined
                    if other is not part
                    for i, rank in enumerate(part)
                ]
                if trades:
                    steps.move(chunk, trades, reduce=True)
            parts = [[rank for part in joined for rank in part] for joined in together]
        for home, group in group_of.items():
            for by, rank in steps.paths(home, group, into=False):
                steps.move(chunk, [(by, rank)], reduce=False)
    return Schedule.of(steps.transfers)


def crossing_strategy(rates: Rates) -> Strategy:
    """A strategy that offers the schedule in which the smallest groups scatter, and trade level by level."""
    return _strategy("crossing", lambda problem: levels_of(problem, rates.alpha), rates)


def trading_strategy(rates: Rates) -> Strategy:
    """Return a strategy in which all of the smallest groups trade at once: one crossing, with more bytes."""

    def levels(problem: Problem) -> list[Groups]:
        every = levels_of(problem, rates.alpha)
        return [*every[:2], every[-1]] if len(every) > 2 else every

    return _strategy("trading", levels, rates)


def _strategy(name: str, levels: Callable[[Problem], list[Groups]], rates: Rates) -> Strategy:
    @lru_cache(maxsize=1)
    def found(problem: Problem) -> Schedule | str:
        """The schedule, or why there is none."""
        if problem.collective.name != "allreduce":
            return "it is for allreduce"
        try:
            groups = levels(problem)
            return "all links are alike" if len(groups) < 3 else crossing(problem, rates.alpha, groups, 1)
        except NoRoute as missing:
            return str(missing)

    def refuses(problem: Problem, policy: Policy) -> str | None:
        answer = found(problem)
        return answer if isinstance(answer, str) else None

    def improve(search: Search) -> None:
        schedule = found(search.problem)
        if isinstance(schedule, Schedule):
            search.offer(schedule, name)

    return Strategy(name, improve, refuses, whole=True)
