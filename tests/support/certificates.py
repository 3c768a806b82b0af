"""Rechecking lower bounds from their witnesses, with networkx and counting; no code of hetesynth.search.bounds.

``recheck(problem, bound)`` raises AssertionError when the witness does not prove the bound.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import networkx as nx
import z3
from scipy.optimize import linprog

from hetesynth.model.bound import (
    CutWitness,
    DistanceWitness,
    FlowWitness,
    GrowthWitness,
    LastStepWitness,
    LowerBound,
    PriceWitness,
    UnsatWitness,
    VolumeWitness,
)
from hetesynth.model.problem import Problem
from hetesynth.search.collectives import DUAL, invert


def demand(condition: bool, what: str) -> None:
    """Fail with ``what``."""
    if not condition:
        raise AssertionError(what)


def recheck(problem: Problem, bound: LowerBound) -> None:
    """Whether the witness of ``bound`` proves its number of steps for ``problem``."""
    view = problem
    if bound.backwards:
        view = invert(problem)[0] if problem.collective.name in DUAL else problem.reversed()
    match bound.witness:
        case DistanceWitness() as w:
            _distance(view, bound, w)
        case CutWitness() as w:
            _cut(view, bound, w)
        case LastStepWitness() as w:
            _last_step(view, bound, w)
        case FlowWitness() as w:
            _flow(view, bound, w)
        case GrowthWitness() as w:
            _growth(view, bound, w)
        case VolumeWitness() as w:
            _volume(view, bound, w)
        case PriceWitness() as w:
            _price(view, bound, w)
        case UnsatWitness() as w:
            _unsat(bound, w)
        case None:
            _bare(view, bound)


def _bare(problem: Problem, bound: LowerBound) -> None:
    sets = list(zip(problem.collective.pre, problem.collective.post, strict=True))
    if bound.method == "trivial":
        moves = any(post - pre or (problem.collective.reduces and len(pre) > 1) for pre, post in sets)
        demand(bound.steps == int(moves), "something moves or it does not")
        return
    demand(bound.method == "doubling" and problem.exclusive_reduction, "a bound without a witness")
    spread = max(max(len(pre), len(post)) for pre, post in sets)
    demand(2 ** max(0, bound.steps - 1) < spread or bound.steps == 0, "fewer doublings would do")


def _distance(problem: Problem, bound: LowerBound, w: DistanceWitness) -> None:
    if bound.steps == 0:
        return
    graph = nx.DiGraph([(a.src, a.dst) for a in problem.arcs])
    pre, post = problem.collective.pre[w.chunk], problem.collective.post[w.chunk]
    demand(w.rank in post, "the rank does not want the chunk")
    hops = [nx.shortest_path_length(graph, u, w.rank) for u in pre]
    farthest = max(hops) if problem.collective.reduces else min(hops)
    demand(bound.steps == w.hops <= farthest, f"{w.hops} hops claimed, {farthest} found")


def _capacity(problem: Problem, names: Iterable[str], arcs: set[int]) -> int:
    """Capacity of the named laws, once each; they must cover ``arcs``."""
    laws = {r.name: r for r in problem.resources}
    demand(len(laws) == len(problem.resources), "two resources have one name")
    named = [laws[name] for name in sorted(set(names))]
    demand(arcs <= {a for r in named for a in r.arcs}, "a link across is not covered")
    return sum(r.capacity for r in named)


def _cut(problem: Problem, bound: LowerBound, w: CutWitness) -> None:
    inside = set(w.region)
    entering = w.direction == "in"
    arcs = {
        a for a, arc in enumerate(problem.arcs)
        if (arc.dst in inside) != (arc.src in inside) and (arc.dst in inside) == entering
    }  # fmt: skip
    demand(_capacity(problem, w.resources, arcs) == w.capacity, "the capacity is not the sum of the resources")
    here = inside if entering else set(range(problem.ranks)) - inside
    crossing = 0
    for pre, post in zip(problem.collective.pre, problem.collective.post, strict=True):
        if not post & here:
            continue
        crossing += bool(pre - here) if problem.collective.reduces else not pre & here
    demand(crossing == w.needed, f"{w.needed} chunks claimed to cross, {crossing} found")
    demand(bound.steps == -(-w.needed // w.capacity), "the division is wrong")


def _last_step(problem: Problem, bound: LowerBound, w: LastStepWitness) -> None:
    demand(not problem.collective.reduces, "a sum lands in parts")
    plain = CutWitness(w.region, w.direction, w.resources, w.needed, w.capacity)
    _cut(problem, replace(bound, steps=-(-w.needed // w.capacity)), plain)
    here = set(w.region) if w.direction == "in" else set(range(problem.ranks)) - set(w.region)
    sets = zip(problem.collective.pre, problem.collective.post, strict=True)
    wants = [len(post & here) for pre, post in sets if post & here and not pre & here]
    beside = {r: {a.dst for a in problem.arcs if a.src == r} & here for r in here}
    most = 1 if problem.exclusive_reduction else max(map(len, beside.values()))
    demand(w.wanted <= min(wants) and w.copies >= most, "fewer ranks want a chunk, or more get it at once")
    # ranks that one crossing serves with so many steps to go; a step fewer must not serve all
    served = [min(w.wanted, (1 + w.copies) ** left) for left in range(bound.steps - 1)]
    demand(w.capacity * sum(served) < w.wanted * len(wants), "a step fewer might do")


def _volume(problem: Problem, bound: LowerBound, w: VolumeWitness) -> None:
    demand(problem.collective.name == "allreduce", "only for allreduce")
    part = {r: i for i, members in enumerate(w.parts) for r in members}
    demand(len(part) == sum(map(len, w.parts)) == problem.ranks, "not a partition")
    arcs = {a for a, arc in enumerate(problem.arcs) if part[arc.src] != part[arc.dst]}
    demand(_capacity(problem, w.resources, arcs) == w.capacity, "the capacity is not the sum of the resources")
    demand(w.chunks == len(problem.collective.chunks) and w.crossings == 2 * (len(w.parts) - 1), "miscounted")
    demand(bound.steps == -(-w.chunks * w.crossings // w.capacity), "the division is wrong")


def _growth(problem: Problem, bound: LowerBound, w: GrowthWitness) -> None:
    """With one step fewer the parts cannot all be served, counted as lists of what each step allows at most."""
    home = {r: p for p, part in enumerate(w.parts) for r in part}
    demand(sorted(home) == list(range(problem.ranks)), "no partition")
    cross = [a for a, arc in enumerate(problem.arcs) if home[arc.src] != home[arc.dst]]

    def caps(names: tuple[tuple[str, ...], ...], owner: dict[int, int]) -> list[int]:
        return [
            _capacity(problem, n, {a for a in cross if owner[a] == i}) if any(owner[a] == i for a in cross) else 0
            for i, n in enumerate(names)
        ]

    out = max(caps(w.out_of_parts, {a: home[problem.arcs[a].src] for a in cross}))
    enters = caps(w.into_parts, {a: home[problem.arcs[a].dst] for a in cross})
    rank = max(caps(w.out_of_ranks, {a: problem.arcs[a].src for a in cross}))
    start = problem.collective.pre[w.chunk]
    demand(len(problem.collective.post[w.chunk]) == problem.ranks, "not for everyone")
    reached = [sum(not start.isdisjoint(part) for part in w.parts)]
    sent: list[int] = []
    for t in range(bound.steps - 1):
        full = out * (reached[t - 1] if t else 0)
        newly = min(out, rank) * sent[t - 1] if t else min(out * reached[0], rank * len(start))
        sent.append(full + newly)
        reached.append(min(len(w.parts), reached[t] + sent[t]))
    if bound.steps < 2:
        demand(bound.steps == 1, "a step is needed at least")
        return
    empty = [p for p, part in enumerate(w.parts) if start.isdisjoint(part)]
    late = len(w.parts) - reached[bound.steps - 2]
    sizes = sorted(len(w.parts[p]) for p in empty)
    early = sum(enters[p] < len(w.parts[p]) for p in empty)
    served = sum(sizes[:late]) <= sent[bound.steps - 2] and len(empty) - late >= early
    demand(not served, "one step fewer is not excluded")


def _price(problem: Problem, bound: LowerBound, w: PriceWitness) -> None:
    prices = dict(w.prices)
    demand(all(p >= 0 for p in prices.values()), "a negative price")
    laws = {r.name: r for r in problem.resources}
    demand(len(laws) == len(problem.resources), "two resources have one name")
    earned = sum(p * laws[name].capacity for name, p in prices.items())
    cost = [0] * len(problem.arcs)
    for name, p in prices.items():
        for a in laws[name].arcs:
            cost[a] += p
    graph = nx.DiGraph()
    graph.add_nodes_from(range(problem.ranks))
    for a, arc in enumerate(problem.arcs):
        known = graph.get_edge_data(arc.src, arc.dst, {"weight": cost[a]})["weight"]
        graph.add_edge(arc.src, arc.dst, weight=min(known, cost[a]))
    far = dict(nx.all_pairs_dijkstra_path_length(graph))
    paid = 0
    for pre, post in zip(problem.collective.pre, problem.collective.post, strict=True):
        if not post - pre:
            continue
        least = max(min(far[u][v] for u in pre) for v in post - pre)  # the dearest target, from its nearest holder
        if len(pre) == 1 and len(pre | post) == problem.ranks:
            least = max(least, _spanning(graph, min(pre)))
        paid += least
    demand(w.paid <= paid and w.earned == earned, f"paid {w.paid}/{paid}, earned {w.earned}/{earned}")
    demand(bound.steps == -(-w.paid // w.earned), "the division is wrong")


def _spanning(graph: nx.DiGraph, root: int) -> int:
    """What the cheapest tree from ``root`` to all costs: something enters each set of others (Edmonds 1967)."""
    edges = list(graph.edges(data="weight"))
    scale = max(weight for _, _, weight in edges) or 1
    others = [v for v in graph if v != root]
    sets = [{v for i, v in enumerate(others) if mask >> i & 1} for mask in range(1, 1 << len(others))]
    entered = [[-1.0 * (v in side and u not in side) for u, v, _ in edges] for side in sets]
    costs = [weight / scale for _, _, weight in edges]
    return round(scale * linprog(costs, A_ub=entered, b_ub=[-1.0] * len(sets)).fun)


def _flow(problem: Problem, bound: LowerBound, w: FlowWitness) -> None:
    """The cut (source_side, rest) of the time-expanded graph, its capacity added up edge by edge."""
    side, n = set(w.source_side), problem.ranks
    demand((w.steps, w.destination) not in side, "the destination is on the source side")
    lacking = [
        min(pre)
        for pre, post in zip(problem.collective.pre, problem.collective.post, strict=True)
        if w.destination in post - pre and len(pre) == 1
    ]
    demand(w.needed == len(lacking), f"{w.needed} chunks claimed to be missing, {len(lacking)} found")
    total = sum((0, u) not in side for u in lacking)
    wires = {(s.src, s.dst, i): s.capacity for i, s in enumerate(problem.segments)}
    used = {s for arc in problem.arcs for s in arc.segments}
    edges = [(s, d, c) for (s, d, i), c in wires.items() if i in used]
    edges += [(a.src, a.dst, a.capacity) for a in problem.arcs if not a.segments]
    for t in range(w.steps):
        for src, dst, capacity in edges:
            if (t, src) in side and (t + (dst < n), dst) not in side:
                demand(capacity is not None, "an unlimited wire crosses the cut")
                total += capacity or 0
        for u in range(n):
            demand((t, u) not in side or (t + 1, u) in side, "a GPU forgets across the cut")
    demand(total == w.flow < w.needed, f"the cut carries {total}, {w.flow} of {w.needed} claimed")
    demand(bound.steps == w.steps + 1, "the bound is one step more than what is shown impossible")


def _unsat(bound: LowerBound, w: UnsatWitness) -> None:
    solver = z3.Solver()
    solver.from_string(w.query)
    demand(len(solver.assertions()) > 0, "an empty query")
    demand(solver.check() == z3.unsat, "the query is not unsatisfiable")
    demand(bound.steps == w.steps + 1, "the bound is one step more than what is shown impossible")
