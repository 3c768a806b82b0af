"""Rings as NCCL has them, one a channel: chunk part p travels ring p from its origin past all ranks.

The rings are those of ``ring_search``. ``orders`` replaces the search: a ring's ranks in order, one list per
channel, as read from a dump of NCCL's own graph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from hetesynth.model.topology import Rank
from hetesynth.policy import Policy
from hetesynth.search.baselines.ring_search import Ring, RingSet, Wiring, ring_sets
from hetesynth.search.copy_problem import CopyProblem
from hetesynth.search.routes import NoRoute, Routes
from hetesynth.search.server_groups import ServerGraph, ring_servers


def ring_routes(tables: CopyProblem, orders: Sequence[Sequence[Rank]], policy: Policy) -> Routes:
    """Every chunk around the ring of its part, as far as somebody wants it. NoRoute: there is no ring."""
    collective = tables.problem.collective
    if any(len(pre) > 1 for pre in collective.pre):
        raise NoRoute("a chunk starts at several ranks")
    most = policy.baselines.max_channels
    if orders:
        graph = ServerGraph(tables, policy)
        rings: Sequence[Ring] = [_stated_ring(graph, order) for order in orders[:most]]
    else:
        rings = _best(tables, min(most, collective.chunks_per_rank), policy)
    return [
        _around(tables, rings[chunk.part % len(rings)], min(pre), post)
        for chunk, pre, post in zip(collective.chunks, collective.pre, collective.post, strict=True)
    ]


def wiring(tables: CopyProblem, policy: Policy) -> Wiring:
    """What rings are searched on, in chunks per step."""
    problem = tables.problem
    return Wiring(
        ends=tuple((arc.src, arc.dst) for arc in problem.arcs),
        uses=tuple(map(tuple, tables.resources_of)),
        rates=tuple(float(resource.capacity) for resource in tables.resources),
        servers=tuple(ring_servers(problem, policy.bounds)),
    )


def _best(tables: CopyProblem, parts: int, policy: Policy) -> Sequence[Ring]:
    """Of the sets of up to ``parts`` rings the one whose fullest resource has the least work, parts in turn."""
    on = wiring(tables, policy)

    def cost(rings: RingSet) -> float:
        """Steps that the fullest resource works for a chunk of each part."""
        number = len(rings.rings)
        load = Counter[int]()
        for k, ring in enumerate(rings.rings):
            for a in ring:
                for r in on.uses[a]:
                    load[r] += len(range(k, parts, number))
        return max(carried / on.rates[r] for r, carried in load.items())

    candidates = [s for s in ring_sets(on, policy.baselines) if len(s.rings) <= parts]
    return min(candidates, key=lambda s: (cost(s), -len(s.rings))).rings


def _around(tables: CopyProblem, ring: Sequence[int], start: Rank, targets: frozenset[Rank]) -> list[int]:
    """The arcs of ``ring`` from ``start`` to the last rank that wants the chunk."""
    arcs = tables.problem.arcs
    at = next(i for i, a in enumerate(ring) if arcs[a].src == start)
    turned = [*ring[at:], *ring[:at]][: len(ring) - 1]
    last = max((i for i, a in enumerate(turned) if arcs[a].dst in targets), default=-1)
    return turned[: last + 1]


def _stated_ring(graph: ServerGraph, order: Sequence[Rank]) -> Ring:
    """The ring that visits the ranks in ``order``."""
    if sorted(order) != list(range(graph.tables.problem.ranks)):
        raise NoRoute("a ring must visit every rank once")
    ring = tuple(graph.need(u, v) for u, v in zip(order, [*order[1:], order[0]], strict=True))
    for arc in ring:
        graph.load.take(arc)
    return ring
