"""The baselines, ready for the registry: what communication libraries do."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hetesynth.model.collective import PERSONALIZED
from hetesynth.model.problem import Problem
from hetesynth.policy import DEFAULT, Policy
from hetesynth.search.baselines.binary_trees import double_tree_routes
from hetesynth.search.baselines.rings import ring_routes
from hetesynth.search.baselines.server_rings import server_ring_routes
from hetesynth.search.baselines.simple import (
    all_pairs_routes,
    doubling_routes,
    hierarchical_routes,
    shortest_path_routes,
)
from hetesynth.search.copy_problem import CopyProblem, excess
from hetesynth.search.list_scheduling import list_schedule
from hetesynth.search.peers import within_peers
from hetesynth.search.routes import NoRoute, Routes
from hetesynth.search.search import Search
from hetesynth.search.strategy import Strategy

Router = Callable[[CopyProblem, Policy], Routes]


def _nccl_ring(tables: CopyProblem, policy: Policy) -> Routes:
    """Rings where NCCL has them; alltoall, gather and scatter are sends to each."""
    if tables.problem.collective.name in PERSONALIZED:
        return all_pairs_routes(tables, policy)
    return ring_routes(tables, (), policy)


def _nccl_tree(tables: CopyProblem, policy: Policy) -> Routes:
    if tables.problem.collective.name in PERSONALIZED:
        return all_pairs_routes(tables, policy)
    return double_tree_routes(tables, policy)


def _shortest(tables: CopyProblem, policy: Policy) -> Routes:
    """Shortest paths; where these take too many peers, over links to few others."""
    routes = shortest_path_routes(tables)
    if excess(tables.problem, {a for route in routes for a in route}) is None:
        return routes
    few = within_peers(tables.problem, policy.bounds)
    return routes if few is None else shortest_path_routes(few)


def baseline(name: str, router: Router) -> Strategy:
    """A strategy that offers the one schedule of its routes."""
    # the last problem by its identity, which the tables keep, and the policy
    latest: dict[tuple[int, Policy], tuple[CopyProblem, Routes]] = {}

    def routed(problem: Problem, policy: Policy) -> tuple[CopyProblem, Routes]:
        key = id(problem), policy
        if key not in latest:
            latest.clear()
            tables = CopyProblem(problem)
            latest[key] = tables, router(tables, policy)
        return latest[key]

    def refuses(problem: Problem, policy: Policy = DEFAULT) -> str | None:
        try:
            _, routes = routed(problem, policy)
        except NoRoute as missing:
            return str(missing)
        return excess(problem, (a for route in routes for a in route))

    def improve(search: Search) -> None:
        tables, routes = routed(search.problem, search.policy)
        latest.clear()
        schedule = list_schedule(tables, routes, search.may_leave)
        if schedule is None:
            return
        search.offer(schedule, name)

    return Strategy(name, improve, refuses)


def ring_strategy(orders: Sequence[Sequence[int]], first_link: tuple[int, int]) -> Strategy:
    """NCCL's rings in stated orders of ranks. ``first_link``: source and destination of link 0, by which a problem
    that is solved backwards is told, so that its rings turn the same way in the end."""
    backwards = [list(reversed(order)) for order in orders]

    def router(tables: CopyProblem, policy: Policy) -> Routes:
        if tables.problem.collective.name in PERSONALIZED:
            return all_pairs_routes(tables, policy)
        arc = tables.problem.arcs[0]
        return ring_routes(tables, orders if (arc.src, arc.dst) == first_link else backwards, policy)

    return baseline("ring", router)


RING = baseline("ring", _nccl_ring)
DOUBLE_TREE = baseline("double-tree", _nccl_tree)
SHORTEST_PATHS = baseline("sph", _shortest)
ALL_PAIRS = baseline("all-pairs", all_pairs_routes)
DOUBLING = baseline("doubling", doubling_routes)
SERVER_RINGS = baseline("server-rings", server_ring_routes)
HIERARCHICAL = baseline("hierarchical", hierarchical_routes)

BASELINES = (RING, DOUBLE_TREE, SHORTEST_PATHS, ALL_PAIRS, DOUBLING, SERVER_RINGS, HIERARCHICAL)
