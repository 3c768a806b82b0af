"""The baselines, ready for the registry: what communication libraries do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hetesynth.model.collective import PERSONALIZED
from hetesynth.model.problem import Problem
from hetesynth.synthesis.baselines.binary_trees import double_tree_routes
from hetesynth.synthesis.baselines.rings import ring_routes
from hetesynth.synthesis.baselines.server_rings import server_ring_routes
from hetesynth.synthesis.baselines.simple import (
    all_pairs_routes,
    doubling_routes,
    hierarchical_routes,
    shortest_path_routes,
)
from hetesynth.synthesis.copy_problem import CopyProblem, excess
from hetesynth.synthesis.list_scheduling import list_schedule
from hetesynth.synthesis.peers import within_peers
from hetesynth.synthesis.routes import NoRoute, Routes
from hetesynth.synthesis.search import Search
from hetesynth.synthesis.strategy import Strategy

Router = Callable[[CopyProblem], Routes]


def _nccl_ring(tables: CopyProblem) -> Routes:
    """Rings where NCCL has them; alltoall, gather and scatter are sends to each."""
    return (all_pairs_routes if tables.problem.collective.name in PERSONALIZED else ring_routes)(tables)


def _nccl_tree(tables: CopyProblem) -> Routes:
    return (all_pairs_routes if tables.problem.collective.name in PERSONALIZED else double_tree_routes)(tables)


def _shortest(tables: CopyProblem) -> Routes:
    """Shortest paths; where these take too many peers, over links to few others."""
    routes = shortest_path_routes(tables)
    if excess(tables.problem, {a for route in routes for a in route}) is None:
        return routes
    few = within_peers(tables.problem)
    return routes if few is None else shortest_path_routes(few)


def baseline(name: str, router: Router) -> Strategy:
    """A strategy that offers the one schedule of its routes."""
    asked: dict[int, tuple[CopyProblem, Routes]] = {}  # the last problem by its identity, which the tables keep

    def routed(problem: Problem) -> tuple[CopyProblem, Routes]:
        if id(problem) not in asked:
            asked.clear()
            tables = CopyProblem(problem)
            asked[id(problem)] = tables, router(tables)
        return asked[id(problem)]

    def refuses(problem: Problem) -> str | None:
        try:
            routed(problem)
        except NoRoute as missing:
            return str(missing)
        return excess(problem, (a for route in asked[id(problem)][1] for a in route))

    def improve(search: Search) -> None:
        tables, routes = routed(search.problem)
        asked.clear()
        schedule = list_schedule(tables, routes, lambda: search.budget.strict_deadline and search.out_of_time())
        if schedule is None:
            return
        search.offer(schedule, name)

    return Strategy(name, improve, refuses)


def ring_strategy(orders: Sequence[Sequence[int]], first_link: tuple[int, int]) -> Strategy:
    """NCCL's rings in stated orders of ranks. ``first_link``: source and destination of link 0, by which a problem
    that is solved backwards is told, so that its rings turn the same way in the end."""
    backwards = [list(reversed(order)) for order in orders]

    def router(tables: CopyProblem) -> Routes:
        if tables.problem.collective.name in PERSONALIZED:
            return all_pairs_routes(tables)
        arc = tables.problem.arcs[0]
        return ring_routes(tables, orders if (arc.src, arc.dst) == first_link else backwards)

    return baseline("ring", router)


RING = baseline("ring", _nccl_ring)
DOUBLE_TREE = baseline("double-tree", _nccl_tree)
SHORTEST_PATHS = baseline("sph", _shortest)
ALL_PAIRS = baseline("all-pairs", all_pairs_routes)
DOUBLING = baseline("doubling", doubling_routes)
SERVER_RINGS = baseline("server-rings", server_ring_routes)
HIERARCHICAL = baseline("hierarchical", hierarchical_routes)

BASELINES = (RING, DOUBLE_TREE, SHORTEST_PATHS, ALL_PAIRS, DOUBLING, SERVER_RINGS, HIERARCHICAL)
