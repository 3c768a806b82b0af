"""Prices, growth and cheapest trees, case by case: the steps that a witness proves, or why it proves none."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from itertools import product
from random import Random

import numpy as np
import pytest
from support.graphs import Graph, full, problem
from test_bounds_cuts import check, moving

from hetesynth.judge.bounds import delays, laws
from hetesynth.judge.bounds import judge as cuts
from hetesynth.judge.bounds.laws import NONE, arborescence_cost, shortest_paths
from hetesynth.model.bound import GrowthWitness, SteppedPriceWitness
from hetesynth.model.collective import CollectiveName
from hetesynth.model.problem import Arc, Problem, Resource
from hetesynth.search.collectives import collective


def all_distances(costs: list[list[int]]) -> list[list[int]]:
    """Shortest paths by trying paths of one edge more, again and again."""
    n = len(costs)
    best = [[0 if u == v else costs[u][v] for v in range(n)] for u in range(n)]
    for _ in range(n):
        best = [
            [min(best[u][w] + (0 if w == v else costs[w][v]) for w in range(n)) for v in range(n)]
            for u in range(n)
        ]
    return best


@pytest.mark.parametrize("seed", range(60))
def test_cheapest_paths_and_trees_of_random_graphs(seed: int) -> None:
    """Against all trees: one edge into each vertex but the root, none in a circle."""
    rng = Random(seed)
    n = rng.randint(2, 5)
    lots = (0, 0, 1, 2, 3, 9) if seed % 2 else (0, 1, 1, NONE)
    costs = [[rng.choice(lots) for _ in range(n)] for _ in range(n)]
    matrix = np.array(costs, dtype=np.int64)
    before = matrix.copy()
    paths = all_distances(costs)
    assert shortest_paths(matrix).tolist() == [[min(d, NONE // 4) for d in row] for row in paths]
    for root in range(n):
        assert arborescence_cost(matrix, root) == cheapest_tree(costs, root)
    assert (matrix == before).all()


def cheapest_tree(costs: list[list[int]], root: int) -> int | None:
    n = len(costs)
    others = [v for v in range(n) if v != root]
    best = None
    for chosen in product(range(n), repeat=n - 1):
        into = dict(zip(others, chosen, strict=True))
        cost = sum(costs[u][v] for v, u in into.items())
        if cost < NONE and all(leads(into, v, root) for v in others):
            best = cost if best is None else min(best, cost)
    return best


def leads(into: dict[int, int], v: int, root: int) -> bool:
    for _ in into:
        v = into.get(v, v)
    return v == root


def grown(sizes: list[int], rng: Random, most: int = 4) -> tuple[Problem, GrowthWitness]:
    """A broadcast over parts of ``sizes``, with a law for what leaves and enters each and leaves each rank."""
    parts: list[tuple[int, ...]] = []
    for size in sizes:
        begin = sum(map(len, parts))
        parts.append(tuple(range(begin, begin + size)))
    home = {r: p for p, part in enumerate(parts) for r in part}
    graph = full(len(home))
    across = [a for a, x in enumerate(graph.arcs) if home[x.src] != home[x.dst]]

    def law(name: str, arcs: list[int], widest: int = most) -> tuple[str, ...]:
        graph.groups.append(Resource(name, tuple(arcs), rng.randint(1, widest)))
        return (name,)

    out = tuple(law(f"out {p}", [a for a in across if home[graph.arcs[a].src] == p]) for p in range(len(parts)))
    into = tuple(law(f"in {p}", [a for a in across if home[graph.arcs[a].dst] == p]) for p in range(len(parts)))
    ranks = tuple(law(f"rank {r}", [a for a in across if graph.arcs[a].src == r], 5 - most) for r in sorted(home))
    return problem(graph, "broadcast"), GrowthWitness(0, tuple(parts), out, into, ranks)


SPREAD, SPREADING = grown([2, 1, 2], Random(1))
DOUBLED, DOUBLING = grown([1] * 24, Random(1), 1)
APART = tuple((r,) for r in range(4))
ONE_WAY = Graph(4)
ONE_WAY.link(0, 1, 3)
FROM_0 = problem(ONE_WAY, "broadcast")
ONLY = (("link 0 (0->1)",), (), (), ())
GROWTH: list[tuple[Problem, GrowthWitness, int | str]] = [
    (SPREAD, SPREADING, 2), (DOUBLED, DOUBLING, 5),
    (SPREAD, replace(SPREADING, chunk=1), "a chunk that does not exist"),
    (SPREAD, replace(SPREADING, chunk=-1), "a chunk that does not exist"),
    (SPREAD, replace(SPREADING, parts=((0, 1), (2,), (3,))), "leave a rank out"),
    (SPREAD, replace(SPREADING, parts=((0, 1), (2,), (3, 4), ())), "a part is empty"),
    (SPREAD, replace(SPREADING, parts=((0, 1), (2,), (3, 4, 0))), "names a rank twice"),
    (SPREAD, replace(SPREADING, parts=((0, 1), (2,), (3, 4, 5))), "names a rank that does not exist"),
    (SPREAD, replace(SPREADING, out_of_ranks=SPREADING.out_of_ranks[1:]), "does not name resources for everyone"),
    (SPREAD, replace(SPREADING, into_parts=(*SPREADING.into_parts, ())), "does not name resources for everyone"),
    (SPREAD, replace(SPREADING, out_of_parts=SPREADING.out_of_parts[1:]), "does not name resources for everyone"),
    (moving(full(3), ({0}, {0, 1})), GrowthWitness(0, APART[:3], ((),) * 3, ((),) * 3, ((),) * 3),
    "not every rank"),
    (moving(full(2),
    ({0}, {0, 1}), name="allreduce"), GrowthWitness(0, APART[:2], ((),) * 2, ((),) * 2, ((),) * 2),
     "growth is about copies"),
    # what nothing leaves or enters needs no resource; parts that one step cannot fill have the chunk before it
    (FROM_0, GrowthWitness(0, APART, ONLY, ((), ONLY[0], (), ()), ONLY), 2),
    (problem(Graph(2), "broadcast"), GrowthWitness(0, APART[:2], ((),) * 2, ((),) * 2, ((),) * 2), 1),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(GROWTH)))
def test_growth(case: int) -> None:
    check(cuts.growth_steps, *GROWTH[case])


@pytest.mark.parametrize(
    ("ranks", "arcs", "name", "work"), [(2, ((0, 1),), "broadcast", 1), (2, ((0, 1), (1, 0)), "allgather", 4)]
)
def test_prices_of_steps_are_rechecked_up_to_a_size(
    ranks: int, arcs: tuple[tuple[int, int], ...], name: CollectiveName, work: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = 0 if name == "broadcast" else None
    of = Problem(ranks, ranks, (), tuple(Arc(*ends, 1) for ends in arcs), (), collective(name, ranks, 2, root))
    prices = tuple((resource.name, 0, 1) for resource in of.resources)
    claim = SteppedPriceWitness(1, prices, paid=2 * len(arcs), earned=len(arcs))
    monkeypatch.setattr(laws, "MAX_PRICED", work)
    assert laws.stepped_price_steps(of, claim) == 2
    monkeypatch.setattr(laws, "MAX_PRICED", work - 1)
    with pytest.raises(laws.Refuted, match="not rechecked"):
        laws.stepped_price_steps(of, claim)


def test_a_supply_gives_what_came_since_it_began() -> None:
    supply = [(Fraction(1), Fraction(2)), (Fraction(4), Fraction(5))]
    assert [delays._supplied_by(supply, Fraction(time)) for time in (0, 1, 3, 6)] == [0, 0, 4, 20]
