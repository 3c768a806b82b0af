"""Small graphs and a naive step-greedy scheduler, so that the emitter is tested without the synthesizers."""

from __future__ import annotations

import random
from functools import cache

import networkx as nx

from hetesynth.model.problem import Arc, Problem, Resource
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.search.collectives import DUAL, collective, invert, split

Edges = dict[tuple[int, int], int]


def _both(edges: Edges) -> Edges:
    return {**edges, **{(v, u): c for (u, v), c in edges.items()}}


def _ring(n: int) -> Edges:
    return _both({(i, (i + 1) % n): 1 for i in range(n)})


def _full(n: int, capacity: int = 1) -> Edges:
    return {(u, v): capacity for u in range(n) for v in range(n) if u != v}


def _dgx1() -> Edges:
    double = [(0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)]
    single = [(0, 1), (0, 2), (1, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7)]
    return _both({**dict.fromkeys(double, 2), **dict.fromkeys(single, 1)})


def _two_servers(a: int, b: int, nics: int) -> tuple[Edges, list[tuple[str, list[tuple[int, int]], int]]]:
    """Switched servers of a and b GPUs (port capacity 9) joined by NICs (capacity 1) that GPUs share."""
    servers = [list(range(a)), list(range(a, a + b))]
    edges: Edges = {}
    groups = []
    for here, there in (servers, servers[::-1]):
        edges.update({(u, v): 9 for u in here for v in here if u != v})
        edges.update({(u, v): 1 for u in here for v in there})
        for u in here:
            groups.append((f"out {u}", [(u, v) for v in here if v != u], 9))
            groups.append((f"in {u}", [(v, u) for v in here if v != u], 9))
        for nic in range(nics):
            users = [u for i, u in enumerate(here) if i * nics // len(here) == nic]
            groups.append((f"nic {here[0]}.{nic} out", [(u, v) for u in users for v in there], 1))
            groups.append((f"nic {here[0]}.{nic} in", [(v, u) for u in users for v in there], 1))
    return edges, groups


def _graph(name: str) -> tuple[int, Edges, list[tuple[str, list[tuple[int, int]], int]]]:
    table: dict[str, tuple[int, Edges]] = {
        "one": (1, {}),
        "pair": (2, {(0, 1): 1, (1, 0): 1}),
        "line3": (3, _both({(0, 1): 1, (1, 2): 1})),
        "full3": (3, _full(3)),
        "full4": (4, _full(4, 3)),
        "oneway4": (4, {(i, (i + 1) % 4): 1 + i % 2 for i in range(4)}),
        "star5": (5, _both({(0, i): 2 for i in range(1, 5)})),
        "ring8": (8, _ring(8)),
        "dgx1": (8, _dgx1()),
    }
    if name == "h4p8":
        return 12, *_two_servers(4, 8, 4)
    return *table[name], []


GRAPHS = ("one", "pair", "line3", "full3", "full4", "oneway4", "star5", "ring8", "dgx1", "h4p8")


def problem_on(graph: str, name: str, chunks: int = 1, root: int | None = None) -> Problem:
    ranks, edges, groups = _graph(graph)
    arcs = sorted(edges)
    resources = tuple(Resource(g, tuple(arcs.index(e) for e in members), c) for g, members, c in groups)
    wanted = collective(name, ranks, chunks, root)  # type: ignore[arg-type]
    return Problem(ranks, ranks, (), tuple(Arc(u, v, edges[u, v]) for u, v in arcs), resources, wanted)


@cache
def case(graph: str, name: str, chunks: int = 1, root: int | None = None) -> tuple[Problem, Schedule]:
    problem = problem_on(graph, name, chunks, root)
    return problem, schedule_for(problem)


def schedule_for(problem: Problem) -> Schedule:
    """Any valid schedule: reductions by inversion, allreduce by composition."""
    if problem.collective.name == "allreduce":
        first, second, join = split(problem)
        return join(schedule_for(first), schedule_for(second))
    if problem.collective.name in DUAL:
        dual, recover = invert(problem)
        return recover(schedule_for(dual))
    return _greedy(problem)


def _distances(problem: Problem) -> list[list[int]]:
    graph = nx.DiGraph([(arc.src, arc.dst) for arc in problem.arcs])
    graph.add_nodes_from(range(problem.ranks))
    hops = dict(nx.all_pairs_shortest_path_length(graph))
    return [[hops[u].get(v, problem.ranks + 1) for v in range(problem.ranks)] for u in range(problem.ranks)]


def _greedy(problem: Problem) -> Schedule:
    distance = _distances(problem)
    resources = [[r for r, res in enumerate(problem.resources) if a in res.arcs] for a in range(len(problem.arcs))]
    leaving: dict[int, list[int]] = {}
    for a, arc in enumerate(problem.arcs):
        leaving.setdefault(arc.src, []).append(a)
    collective = problem.collective
    held = [set(pre) for pre in collective.pre]
    transfers: list[Transfer] = []
    step = 0
    while any(not post <= held[k] for k, post in enumerate(collective.post)):
        room = [res.capacity for res in problem.resources]
        coming: list[set[int]] = [set() for _ in held]
        for k in sorted(range(len(held)), key=lambda k: (k + step) % len(held)):
            for w in sorted(collective.post[k] - held[k]):
                holders = sorted(held[k], key=lambda u: (distance[u][w], u))
                nearest = distance[holders[0]][w]
                hops = [
                    a
                    for u in holders
                    if distance[u][w] == nearest
                    for a in leaving.get(u, [])
                    if distance[problem.arcs[a].dst][w] < nearest and all(room[r] for r in resources[a])
                ]
                hops = [a for a in hops if problem.arcs[a].dst not in held[k] | coming[k]]
                if hops:
                    for r in resources[hops[0]]:
                        room[r] -= 1
                    coming[k].add(problem.arcs[hops[0]].dst)
                    transfers.append(Transfer(step, step + 1, k, hops[0]))
        for k, ranks in enumerate(coming):
            held[k] |= ranks
        step += 1
        if step > 10_000:
            raise ValueError("unreachable ranks")
    return Schedule.of(transfers)


def random_schedule(problem: Problem, rng: random.Random, longest: int) -> Schedule | None:
    """Random transfers until everything is delivered, or None if that does not happen.

    Values are bit sets of contributors. The result is meant to be valid, but the caller checks it.
    """
    collective = problem.collective
    full = [sum(1 << r for r in pre) for pre in collective.pre]
    value = {(r, k): 1 << r for k, pre in enumerate(collective.pre) for r in pre}
    coming: list[tuple[Transfer, int]] = []
    transfers: list[Transfer] = []
    for tick in range(60):
        for t, carried in [c for c in coming if c[0].end == tick]:
            here = (problem.arcs[t.link].dst, t.chunk)
            value[here] = value.get(here, 0) | carried if t.reduce else carried
        coming = [c for c in coming if c[0].end > tick]
        missing = any(value.get((r, k), 0) != full[k] for k, post in enumerate(collective.post) for r in post)
        if not coming and not missing:
            return Schedule.of(transfers)
        choices = [(a, k) for a in range(len(problem.arcs)) for k in range(len(full))]
        rng.shuffle(choices)
        for a, k in choices:
            src, dst = problem.arcs[a].src, problem.arcs[a].dst
            end = tick + rng.randint(1, longest)
            waiting = [c for c in coming if c[0].chunk == k and problem.arcs[c[0].link].dst == dst]
            carried, there = value.get((src, k), 0), value.get((dst, k), 0)
            busy = sum(t.link == a for t, _ in coming) >= problem.arcs[a].capacity
            if busy or not carried or carried == there or rng.random() < 0.3:
                continue
            expected = there | sum({c for _, c in waiting})
            reduce = collective.reduces and carried != full[k]
            overlap = carried & expected if reduce else there & ~carried
            late = not reduce and any(not t.reduce or t.end >= end for t, _ in waiting)
            if overlap or late or (reduce and any(not t.reduce for t, _ in waiting)):
                continue
            transfers.append(Transfer(tick, end, k, a, reduce))
            coming.append((transfers[-1], carried))
    return None
