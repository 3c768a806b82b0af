"""Links to few others: which arcs a strategy may use so that no rank exceeds its limit of peers.

In: a problem with ``max_peers``. Out: incidence tables that list only arcs between chosen pairs of ranks. Every
rank gets its neighbour in its own server and the rank with the same number in the next server first, so that rings
of both kinds join everybody; then the rest of its server; then the same number in servers farther off, at
distances 1, 2, 4 and so on before the others; at last whatever links there are. Where this does not join all, as
where few GPUs of a server have a NIC, a tree of links that lead both ways comes before everything else. Routes
over these arcs keep the limit however they are chosen. The choice knows nothing of loads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from hetesynth.model.problem import Problem
from hetesynth.model.topology import Rank
from hetesynth.policy import Policy
from hetesynth.policy.bounds import BoundsPolicy
from hetesynth.search.copy_problem import CopyProblem, excess
from hetesynth.search.server_groups import servers

Pair = tuple[Rank, Rank]


@lru_cache(maxsize=4)
def within_peers(problem: Problem, policy: BoundsPolicy) -> CopyProblem | None:
    """Tables of arcs that may all be used; None where some chunk then no longer reaches a target."""
    if excess(problem, range(len(problem.arcs))) is None:
        return CopyProblem(problem)
    limit = problem.max_peers or problem.ranks
    pairs = _useful_pairs(problem, limit, policy)
    if not _reaches(problem, pairs):
        pairs = _useful_pairs(problem, limit, policy, _tree(problem, limit))
        if not _reaches(problem, pairs):
            return None
    return CopyProblem(problem, frozenset(a for a, arc in enumerate(problem.arcs) if (arc.src, arc.dst) in pairs))


def stranded(problem: Problem, policy: BoundsPolicy) -> str | None:
    """Why ``within_peers`` has no tables, or None."""
    tables = within_peers(problem, policy)
    return None if tables else f"{problem.max_peers} peers of a rank were not enough to join all"


def without_peers(problem: Problem, policy: Policy) -> str | None:
    """``stranded``, as a strategy that refuses nothing else."""
    return stranded(problem, policy.bounds)


def reachable(ranks: int, pairs: Iterable[Pair]) -> NDArray[np.bool_]:
    """``[u, v]``: whether a path over ``pairs`` leads from rank u to rank v, or they are one."""
    reached: NDArray[np.bool_] = np.eye(ranks, dtype=np.bool_)
    for u, v in pairs:
        reached[u, v] = True
    for _ in range(ranks.bit_length()):
        reached = (reached.astype(np.float32) @ reached.astype(np.float32)) > 0
    return reached


def _useful_pairs(
    problem: Problem, limit: int, policy: BoundsPolicy, first: Iterable[Pair] = ()
) -> set[Pair]:  # fmt: skip
    """Pairs of ranks, those of ``first`` and then the most useful first, as long as both have room."""
    joined = {(arc.src, arc.dst) for arc in problem.arcs}
    receivers, senders = [0] * problem.ranks, [0] * problem.ranks
    pairs: set[Pair] = set()
    for u, v in chain(first, _preferred(servers(CopyProblem(problem), policy), problem.ranks)):
        if (u, v) in joined and (u, v) not in pairs and receivers[u] < limit and senders[v] < limit:
            pairs.add((u, v))
            receivers[u] += 1
            senders[v] += 1
    return pairs


def _tree(problem: Problem, limit: int) -> list[Pair]:
    """Both directions of the links of a tree that joins as many ranks as it can."""
    joined = {(arc.src, arc.dst) for arc in problem.arcs}
    linked = [sorted(v for v in range(problem.ranks) if {(u, v), (v, u)} <= joined) for u in range(problem.ranks)]
    start = max(range(problem.ranks), key=lambda rank: (len(linked[rank]), -rank))
    peers = {start: 0}
    pairs: list[Pair] = []
    while True:
        open_to = {v for u, met in peers.items() if met < limit for v in linked[u] if v not in peers}
        if not open_to:
            return pairs
        new = max(open_to, key=lambda rank: (len(linked[rank]), -rank))
        old = min((u for u in linked[new] if peers.get(u, limit) < limit), key=lambda rank: (peers[rank], rank))
        peers[old] += 1
        peers[new] = 1
        pairs += [(old, new), (new, old)]


def _preferred(groups: Sequence[Sequence[Rank]], ranks: int) -> Iterator[Pair]:
    """Every pair of ranks at least once, the most useful first."""
    largest = max(len(group) for group in groups)
    yield from _inside(groups, 1)
    yield from _across(groups, 1)
    for distance in range(2, largest):
        yield from _inside(groups, distance)
    doubled = [1 << i for i in range(1, len(groups).bit_length())]
    for distance in [*doubled, *range(2, len(groups))]:
        yield from _across(groups, distance)
    for distance in range(1, ranks):
        yield from ((u, (u + distance) % ranks) for u in range(ranks))


def _inside(groups: Sequence[Sequence[Rank]], distance: int) -> Iterator[Pair]:
    for group in groups:
        if distance < len(group):
            yield from ((u, group[(i + distance) % len(group)]) for i, u in enumerate(group))


def _across(groups: Sequence[Sequence[Rank]], distance: int) -> Iterator[Pair]:
    """The ranks with the same number; where servers differ in size, every rank of the larger one."""
    if distance >= len(groups):
        return
    for s, group in enumerate(groups):
        other = groups[(s + distance) % len(groups)]
        for i in range(max(len(group), len(other))):
            yield group[i % len(group)], other[i % len(other)]


def _reaches(problem: Problem, pairs: Iterable[Pair]) -> bool:
    """Whether every chunk can reach all its targets over ``pairs``."""
    reached = reachable(problem.ranks, pairs)
    if reached.all():
        return True
    ends = zip(problem.collective.pre, problem.collective.post, strict=True)
    return all(reached[sorted(pre)][:, sorted(post - pre)].any(axis=0).all() for pre, post in ends)
