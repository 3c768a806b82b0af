"""Links to few others: which arcs a strategy may use so that no rank exceeds its limit of peers.

Every rank gets its neighbor in its own server and the rank with the same number in the next server first, so that
rings of both kinds join everybody; then the rest of its server; then the same number in servers farther off, at
distances 1, 2, 4 and so on before the others; at last whatever links there are. Where this does not join all, as
where few GPUs of a server have a NIC, a tree of links that lead both ways comes before everything else. Routes
over these arcs keep the limit however they are chosen. The choice knows nothing of loads.
"""

from collections.abc import Iterator
from functools import lru_cache

from hetesynth.model.problem import Problem
from hetesynth.model.topology import Rank
from hetesynth.policy import Policy
from hetesynth.search.copy_problem import CopyProblem, reachable
from hetesynth.search.search import excess
from hetesynth.search.server_groups import servers

Pair = tuple[Rank, Rank]


@lru_cache(maxsize=4)
def within_peers(problem: Problem) -> CopyProblem | None:
    """Return tables of arcs that may all be used; None where some chunk then no longer reaches a target."""
    if excess(problem, range(len(problem.arcs))) is None:
        return CopyProblem(problem)
    limit = problem.max_peers or problem.ranks
    for along_tree in (False, True):
        pairs = _useful_pairs(problem, limit, along_tree)
        reached = reachable(problem.ranks, pairs)
        ends = problem.collective.ends
        if reached.all() or all(reached[sorted(p)][:, sorted(q - p)].any(axis=0).all() for p, q in ends):
            break
    else:
        return None
    return CopyProblem(problem, frozenset(a for a, arc in enumerate(problem.arcs) if (arc.src, arc.dst) in pairs))


def stranded(problem: Problem, _policy: Policy) -> str | None:
    """Return why ``within_peers`` has no tables, or None; ``refuses`` of strategies that refuse nothing else."""
    tables = within_peers(problem)
    return None if tables else f"{problem.max_peers} peers of a rank were not enough to join all"


def _useful_pairs(problem: Problem, limit: int, along_tree: bool) -> set[Pair]:
    """Return pairs of ranks, chosen the most useful first, as long as both ranks have fewer than ``limit`` peers.
    ``along_tree``: before all else both directions of the links of a tree that joins as many ranks as it can."""
    n, joined, groups = problem.ranks, {(arc.src, arc.dst) for arc in problem.arcs}, servers(problem)
    tree: list[Pair] = []
    linked = [sorted(v for v in range(n) if {(u, v), (v, u)} <= joined) for u in range(n if along_tree else 0)]
    peers = {max(range(len(linked)), key=lambda rank: (len(linked[rank]), -rank)): 0} if linked else {}
    while open_to := {v for u, met in peers.items() if met < limit for v in linked[u] if v not in peers}:
        new = max(open_to, key=lambda rank: (len(linked[rank]), -rank))
        old = min((u for u in linked[new] if peers.get(u, limit) < limit), key=lambda rank: (peers[rank], rank))
        peers[old] += 1
        peers[new] = 1
        tree += [(old, new), (new, old)]

    def inside(distance: int) -> Iterator[Pair]:
        for group in groups:
            if distance < len(group):
                yield from ((u, group[(i + distance) % len(group)]) for i, u in enumerate(group))

    def across(distance: int) -> Iterator[Pair]:
        """Yield pairs of ranks with one number; where servers differ in size, every rank of the larger server."""
        for s, group in enumerate(groups if distance < len(groups) else ()):
            other = groups[(s + distance) % len(groups)]
            for i in range(max(len(group), len(other))):
                yield group[i % len(group)], other[i % len(other)]

    def preferred() -> Iterator[Pair]:
        """Yield every pair at least once, the most useful first."""
        yield from tree
        yield from inside(1)
        yield from across(1)
        for distance in range(2, max(map(len, groups))):
            yield from inside(distance)
        for distance in [*(1 << i for i in range(1, len(groups).bit_length())), *range(2, len(groups))]:
            yield from across(distance)
        for distance in range(1, n):
            yield from ((u, (u + distance) % n) for u in range(n))

    receivers, senders, pairs = [0] * n, [0] * n, set[Pair]()
    for u, v in preferred():
        if (u, v) in joined and (u, v) not in pairs and receivers[u] < limit and senders[v] < limit:
            pairs.add((u, v))
            receivers[u] += 1
            senders[v] += 1
    return pairs
