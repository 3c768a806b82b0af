"""Hypothesis strategies: tiny graphs for exhaustive search, and random heterogeneous clusters."""

from __future__ import annotations

from hypothesis import strategies as st
from support.graphs import Graph, problem, servers

from hetesynth.model.collective import CollectiveName
from hetesynth.model.problem import Problem, Resource


@st.composite
def tiny_graphs(draw: st.DrawFn, most: int = 4) -> Graph:
    """A ring or a line both ways of 2 to ``most`` ranks plus a few links, some in a group; capacities 1 and 2."""
    n = draw(st.integers(2, most))
    graph = Graph(n)
    width = st.integers(1, 2)
    if draw(st.booleans()) or n == 2:
        for r in range(n - 1):
            graph.both(r, r + 1, draw(width))
    else:
        for r in range(n):
            graph.link(r, (r + 1) % n, draw(width))
    for _ in range(draw(st.integers(0, 2))):
        a = draw(st.integers(0, n - 1))
        b = draw(st.integers(0, n - 2))
        graph.link(a, b + (b >= a), draw(width))
    if draw(st.booleans()):
        arcs = draw(st.sets(st.integers(0, len(graph.arcs) - 1), min_size=2, max_size=3))
        graph.groups.append(Resource("bus", tuple(sorted(arcs)), draw(width)))
    return graph


@st.composite
def clusters(draw: st.DrawFn, most_servers: int = 4, most_gpus: int = 4) -> Graph:
    """Servers of different sizes, NICs and speeds; possibly one-way links, missing links and a shared bus."""
    sizes = draw(st.lists(st.integers(1, most_gpus), min_size=2, max_size=most_servers))
    count = len(sizes)
    graph = servers(
        sizes,
        draw(st.lists(st.integers(1, 4), min_size=count, max_size=count)),
        draw(st.sampled_from([1, 3, 7, 9])),
        draw(st.lists(st.sampled_from([1, 2, 3]), min_size=count, max_size=count)),
    )
    if draw(st.booleans()) and graph.ranks > 2:  # a one-way shortcut
        a = draw(st.integers(0, graph.ranks - 2))
        graph.link(a, a + 1, draw(st.integers(1, 5)))
    for _ in range(draw(st.integers(0, 3))):  # links that failed, one direction each
        a = draw(st.integers(0, len(graph.arcs) - 1))
        out = [x for x in graph.arcs if x.src == graph.arcs[a].src]
        into = [x for x in graph.arcs if x.dst == graph.arcs[a].dst]
        if len(out) > 2 and len(into) > 2:
            del graph.arcs[a]
    if draw(st.booleans()):
        arcs = draw(st.sets(st.integers(0, len(graph.arcs) - 1), min_size=2, max_size=4))
        if len(arcs) > 1:
            graph.groups.append(Resource("bus", tuple(sorted(arcs)), draw(st.integers(1, 3))))
    return graph


COPYING: list[CollectiveName] = ["allgather", "broadcast", "gather", "scatter", "alltoall"]


@st.composite
def copying_problems(draw: st.DrawFn) -> Problem:
    """A copying collective on a graph small enough to be solved whole."""
    name = draw(st.sampled_from(COPYING))
    graph = draw(tiny_graphs(most=3 if name == "alltoall" else 4))
    chunks = draw(st.integers(1, 2)) if graph.ranks == 2 or name == "broadcast" else 1
    return problem(graph, name, chunks, exclusive=name in ("broadcast", "allgather") and draw(st.booleans()))
