"""Bounds for latency and rate together: by hand, against schedules of random trees, and the judge's refusals."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hetesynth.judge.bounds.time_bounds import time_bound_violations
from hetesynth.model.bound import DelayedPrices, EnteredSet, PartCrossings, TimeBound, of_scope, tightest
from hetesynth.model.collective import COLLECTIVE_NAMES, ROOTED, CollectiveName
from hetesynth.model.topology import Link, SharedGroup, Topology, Vertex, Wire
from hetesynth.search.bounds.throughput import time_bounds

F = Fraction


def wired(n: int, *wires: tuple[int, int, int, int], servers: Sequence[str] = ()) -> Topology:
    """GPUs joined by wires: from, to, bytes per second, seconds."""
    made = tuple(Wire(u, v, "wire", F(rate), 1, F(alpha)) for u, v, rate, alpha in wires)
    links = tuple(Link.over(w.src, w.dst, [i], made) for i, w in enumerate(made))
    return Topology("w", tuple(Vertex(f"g{i}", "gpu", (servers or "s" * n)[i]) for i in range(n)), n, made, links)


def full(n: int, rate: int, alpha: int) -> Topology:
    return wired(n, *((u, v, rate, alpha) for u, v in itertools.permutations(range(n), 2)))


def switched(n: int, rate: int, alpha: int) -> Topology:
    """GPUs on one switch, of which each sends and takes in at ``rate``."""
    wires = [Wire(g, n, "port", F(rate), 1, F(alpha)) for g in range(n)]
    wires += [Wire(n, g, "port", F(rate)) for g in range(n)]
    links = tuple(Link.over(u, v, [u, n + v], wires) for u, v in itertools.permutations(range(n), 2))
    vertices = (*(Vertex(f"g{i}", "gpu", "s") for i in range(n)), Vertex("x", "switch", "s"))
    return Topology("switched", vertices, n, tuple(wires), links)


def test_links_of_a_cut_fill_one_after_the_other() -> None:
    """A broadcast from 0 enters 3 over 1 from 3 s on and over 2 from 11 s on; 2 takes in more than 3."""
    topology = wired(4, (0, 1, 9, 1), (1, 3, 2, 2), (0, 2, 9, 1), (2, 3, 4, 10))
    bounds = time_bounds(topology, "gather", 3) + time_bounds(topology, "broadcast", 0)
    assert not any(time_bound_violations(topology, "broadcast", 0, b) for b in bounds[-3:])
    assert tightest(time_bounds(topology, "broadcast", 0), 10).seconds(10) == 3 + 5
    assert tightest(time_bounds(topology, "broadcast", 0), 46).seconds(46) == 11 + F(46 - 2 * 8, 2 + 4)


def test_what_is_far_away_does_not_fill_the_link_early() -> None:
    """Of an allgather along a line two thirds enter rank 2 over one wire, half of that from 2 s on."""
    line = wired(3, (0, 1, 1, 1), (1, 2, 1, 1), (2, 1, 1, 1), (1, 0, 1, 1))
    assert tightest(time_bounds(line, "allgather"), 3).seconds(3) == 3
    assert tightest(time_bounds(line, "allgather"), 1).seconds(1) == 2 + F(1, 3)
    assert tightest(time_bounds(line, "allgather"), 30).seconds(30) == 1 + 20


@pytest.mark.parametrize(
    ("size", "seconds"), [(1, 1 + F(3, 8)), (2, 1 + F(3, 4)), (4, 2 + F(1, 3)), (8, 1 + F(3, 2) * 2)]
)
def test_an_allreduce_in_one_round_moves_more(size: int, seconds: Fraction) -> None:
    """Four GPUs on a switch of 8 bytes a second, 1 s away: all to all in one round, n - 1 buffers into each, or
    2 (n - 1) / n of them in two; below three seconds there is a price between."""
    assert tightest(time_bounds(switched(4, 8, 1), "allreduce"), size).seconds(size) >= min(
        seconds, 1 + F(3, 2) * size / 8
    )


# -- schedules


@dataclass
class Reservations:
    """Wires and groups of a topology, each busy until some time."""

    topology: Topology
    after: bool
    busy: dict[object, float] = field(default_factory=lambda: defaultdict(float))

    def __post_init__(self) -> None:
        self.members = [set(group.links) for group in self.topology.groups]

    def resources(self, i: int) -> list[object]:
        return [*self.topology.links[i].wires, *(("group", g) for g, m in enumerate(self.members) if i in m)]

    def times(self, i: int, ready: float, size: float) -> tuple[float, float, float]:
        """When link ``i`` is busy with ``size`` bytes that are there at ``ready``, and when they have arrived."""
        link, topology = self.topology.links[i], self.topology
        rates = [link.bandwidth * link.lanes]
        rates += [g.bandwidth * g.lanes for g, m in zip(topology.groups, self.members, strict=True) if i in m]
        alpha = float(link.latency)
        begin = max(ready + (0 if self.after else alpha), *(self.busy[r] for r in self.resources(i)))
        end = begin + size / float(min(rates))
        return begin, end, end + (alpha if self.after else 0)

    def send(self, i: int, ready: float, size: float) -> float:
        _, end, arrived = self.times(i, ready, size)
        for r in self.resources(i):
            self.busy[r] = end
        return arrived


def spread(at: Reservations, source: int, goals: set[int], size: float, rng: random.Random, ready: float) -> float:
    """When ``size`` bytes of ``source`` are at ``goals``, along links by which they are at the next rank early."""
    arrived, last, before = {source: ready}, ready, dict[int, int]()
    tree = len(goals) > 1
    trial = at if tree else Reservations(at.topology, at.after, at.busy.copy())
    while not goals <= arrived.keys():
        options = [i for i, x in enumerate(at.topology.links) if x.src in arrived and x.dst not in arrived]
        ranked = sorted(options, key=lambda i: trial.times(i, arrived[at.topology.links[i].src], size)[2])
        i = ranked[0] if rng.random() < 0.9 else rng.choice(ranked)
        link = at.topology.links[i]
        arrived[link.dst] = trial.send(i, arrived[link.src], size) if tree else trial.times(i, arrived[link.src], size)[2]
        before[link.dst] = i
        last = max(last, arrived[link.dst])
    if not tree:
        path, rank = [], next(iter(goals))
        while rank != source:
            path.append(before[rank])
            rank = at.topology.links[before[rank]].src
        last = ready
        for i in reversed(path):
            last = at.send(i, last, size)
    return last


def copied(topology: Topology, name: CollectiveName, root: int, size: int, pieces: int, rng: random.Random) -> float:
    """Seconds of a schedule of random trees or paths."""
    turned = name in ("reducescatter", "reduce", "scatter")
    at = Reservations(topology.reversed() if turned else topology, turned)
    ranks = set(range(topology.ranks))
    each = size / pieces / (1 if name in ("broadcast", "reduce") else topology.ranks)
    match name:
        case "broadcast" | "reduce":
            jobs = [(root, ranks - {root})]
        case "allgather" | "reducescatter":
            jobs = [(r, ranks - {r}) for r in ranks]
        case "gather" | "scatter":
            jobs = [(r, {root}) for r in ranks - {root}]
        case _:
            jobs = [(r, {t}) for r in ranks for t in ranks - {r}]
    jobs = jobs * pieces
    if rng.random() < 0.5:
        rng.shuffle(jobs)
    return max(spread(at, source, goals, each, rng, 0.0) for source, goals in jobs)


def summed(topology: Topology, size: int, pieces: int, rng: random.Random) -> float:
    """Seconds of an allreduce: in-trees and out-trees of random roots, and some pieces sent by all to all."""
    n, at, tasks = topology.ranks, Reservations(topology, False), []
    between = defaultdict(list)
    for i, link in enumerate(topology.links):
        between[link.src, link.dst].append(i)
    direct = all(between[pair] for pair in itertools.permutations(range(n), 2))
    each, alone = size / pieces / n, rng.choice((0.0, 0.5, 1.0)) if direct else 0.0
    waits: list[tuple[int, list[int]]] = []  # link and the tasks before
    for root in [*range(n)] * pieces:
        if rng.random() < alone:
            waits += [(rng.choice(between[pair]), []) for pair in itertools.permutations(range(n), 2)]
            continue
        parent = {v: i for v, i in tree(topology.reversed(), root, rng).items()}
        into: dict[int, list[int]] = defaultdict(list)
        order = list(parent)
        for v in reversed(order):
            waits.append((parent[v], list(into[v])))
            into[topology.links[parent[v]].dst].append(len(waits) - 1)
        have = {root: list(into[root])}
        for v, i in tree(topology, root, rng).items():
            waits.append((i, have[topology.links[i].src]))
            have[v] = [len(waits) - 1]
    ended: dict[int, float] = {}
    left = list(range(len(waits)))
    while left:
        ready = [k for k in left if all(b in ended for b in waits[k][1])]
        starts = {k: max((ended[b] for b in waits[k][1]), default=0.0) for k in ready}
        k = min(ready, key=lambda k: (at.times(waits[k][0], starts[k], each)[0], rng.random()))
        ended[k] = at.send(waits[k][0], starts[k], each)
        left.remove(k)
    del tasks
    return max(ended.values())


def tree(topology: Topology, root: int, rng: random.Random) -> dict[int, int]:
    """A random tree from ``root``: by rank the link that reaches it, in an order that it grows in."""
    reached, parent = {root}, dict[int, int]()
    while len(reached) < topology.ranks:
        options = [i for i, x in enumerate(topology.links) if x.src in reached and x.dst not in reached]
        near = [i for i in options if topology.links[i].src == root]
        i = rng.choice(near if near and rng.random() < 0.5 else options)
        parent[topology.links[i].dst] = i
        reached.add(topology.links[i].dst)
    return parent


def any_cluster(rng: random.Random) -> Topology:
    """Servers of GPUs on a switch each or in a mesh, NICs with or without a stated limit, a ring of slow wires."""
    kind = rng.randrange(3)
    if kind == 0:
        return full(rng.randint(2, 5), rng.randint(1, 9), rng.randint(0, 4))
    if kind == 1:
        return switched(rng.randint(3, 5), rng.randint(1, 9), rng.randint(0, 4))
    n = rng.choice((4, 6))
    half = n // 2
    fast, near = rng.randint(3, 20), rng.randint(0, 3)
    wires = [
        (u, v, fast, near) for u, v in itertools.permutations(range(n), 2) if u // half == v // half
    ]
    inside = len(wires)
    for u in range(half):
        if u == 0 or rng.random() < 0.7:
            rate, far = rng.randint(1, 6), rng.randint(1, 9)
            wires += [(u, half + u, rate, far), (half + u, u, rate, far)]
    topology = wired(n, *wires, servers="a" * half + "b" * half)
    if rng.random() < 0.5:
        outside = tuple(range(inside, len(wires)))
        topology = replace(topology, groups=(SharedGroup("nic", "shared", F(rng.randint(1, 4)), outside),))
    return topology


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32), name=st.sampled_from(sorted(COLLECTIVE_NAMES)))
def test_no_schedule_is_quicker(seed: int, name: CollectiveName) -> None:
    """Of trees that are chosen for early arrivals, in one piece or many, none undercuts any bound."""
    rng = random.Random(seed)
    topology = any_cluster(rng)
    root = rng.randrange(topology.ranks) if name in ROOTED else None
    bounds = of_scope(time_bounds(topology, name, root), "all")
    for bound in bounds:
        assert not time_bound_violations(topology, name, root, bound)
    for size in (1, 8, 64, 512):
        for pieces in (1, 2, 7):
            if name == "allreduce":
                seconds = summed(topology, size, pieces, rng)
            else:
                seconds = copied(topology, name, root or 0, size, pieces, rng)
            for bound in bounds:
                assert float(bound.seconds(size)) <= seconds * (1 + 1e-9), (bound.kind, bound.proof)
