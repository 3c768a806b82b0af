"""The true optimum of tiny problems by breadth-first search over states. No solver, no hetesynth algorithm.

Copying: a state is who holds what; more is never worse, so each level keeps only its maximal states.
Reducing: a state is the set of contributions in every (rank, chunk); all moves are tried.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from hetesynth.model.problem import Problem

State = tuple[int, ...]  # per chunk: bit set of the ranks that hold it


class Laws:
    """Room left in one step: arcs, wires and groups counted one by one."""

    def __init__(self, problem: Problem) -> None:
        self.gates: list[tuple[frozenset[int], int]] = [
            (frozenset({a}), arc.capacity) for a, arc in enumerate(problem.arcs)
        ]
        for s, segment in enumerate(problem.segments):
            users = frozenset(a for a, arc in enumerate(problem.arcs) if s in arc.segments)
            if segment.capacity is not None and users:
                self.gates.append((users, segment.capacity))
        self.gates += [(frozenset(g.arcs), g.capacity) for g in problem.groups]

    def fit(self, arcs: list[int]) -> bool:
        """Whether these arcs (with repeats) can be used in one step."""
        return all(sum(a in users for a in arcs) <= room for users, room in self.gates)


def copying_optimum(problem: Problem, limit: int = 12) -> int | None:
    """Fewest steps, or None when ``limit`` steps are not enough."""
    laws, wanted = Laws(problem), problem.collective
    start: State = tuple(sum(1 << r for r in pre) for pre in wanted.pre)
    goal: State = tuple(sum(1 << r for r in post) for post in wanted.post)
    level = {start}
    for steps in range(limit + 1):
        if any(all(g & ~s == 0 for g, s in zip(goal, state, strict=True)) for state in level):
            return steps
        found: set[State] = set()
        for state in sorted(level):
            found.update(_after(problem, laws, state))
        level = _maximal(found)
    return None


def _after(problem: Problem, laws: Laws, state: State) -> Iterator[State]:
    deliveries = []
    for k, holders in enumerate(state):
        for v in range(problem.ranks):
            ways = [a for a, arc in enumerate(problem.arcs) if arc.dst == v and holders >> arc.src & 1]
            if ways and not holders >> v & 1:
                deliveries.append((k, v, ways))

    def fill(i: int, now: State, used: list[int], sent: frozenset[tuple[int, int]]) -> Iterator[State]:
        if i == len(deliveries):
            yield now
            return
        k, v, ways = deliveries[i]
        for a in ways:
            mark = (k, problem.arcs[a].src)
            if problem.exclusive_reduction and mark in sent:
                continue
            if laws.fit([*used, a]):
                grown = (*now[:k], now[k] | 1 << v, *now[k + 1 :])
                yield from fill(i + 1, grown, [*used, a], sent | {mark})
        yield from fill(i + 1, now, used, sent)

    yield from _maximal(set(fill(0, state, [], frozenset())))


def _maximal(states: set[State]) -> set[State]:
    kept: list[State] = []
    for s in sorted(states, key=lambda s: -sum(x.bit_count() for x in s)):
        if not any(all(x & ~y == 0 for x, y in zip(s, t, strict=True)) for t in kept):
            kept.append(s)
    return set(kept)


Sums = tuple[int, ...]  # rank * chunks + chunk: bit set of contributors


def reducing_optimum(problem: Problem, limit: int = 6) -> int | None:
    """Fewest steps of a reduction; every subset of sends, adding or copying, is tried. For two or three ranks."""
    laws, wanted = Laws(problem), problem.collective
    chunks = len(wanted.chunks)
    start: Sums = tuple((1 << r) if r in wanted.pre[k] else 0 for r in range(problem.ranks) for k in range(chunks))
    level = {start}
    seen = {start}
    for steps in range(limit + 1):
        for state in level:
            if all(
                state[r * chunks + k] == sum(1 << u for u in wanted.pre[k])
                for k in range(chunks)
                for r in wanted.post[k]
            ):
                return steps
        level = {s for state in level for s in _sums_after(problem, laws, state, chunks)} - seen
        seen |= level
    return None


def _sums_after(problem: Problem, laws: Laws, state: Sums, chunks: int) -> set[Sums]:
    places = [(r, k) for r in range(problem.ranks) for k in range(chunks)]
    moves: list[list[tuple[int, ...]]] = []  # per place: the ways to receive, as (value, arcs...)
    for r, k in places:
        held = state[r * chunks + k]
        ways: list[tuple[int, ...]] = [(held,)]
        sources = [(a, state[arc.src * chunks + k]) for a, arc in enumerate(problem.arcs) if arc.dst == r]
        sources = [(a, v) for a, v in sources if v]
        ways += [(v, a) for a, v in sources if v | held != held]
        sums = [((), held)]
        for a, v in sources:
            sums += [((*arcs, a), total | v) for arcs, total in sums if not total & v]
        limit = 1 if problem.exclusive_reduction else len(sources)
        ways += [(total, *arcs) for arcs, total in sums if arcs and len(arcs) <= limit]
        moves.append(sorted(set(ways)))
    return {
        tuple(way[0] for way in ways) for ways in product(*moves) if laws.fit([a for way in ways for a in way[1:]])
    }
