"""Bounds for latency and rate together: by hand, against schedules of random trees, and the judge's refusals."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Sequence
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


@pytest.mark.parametrize(("size", "seconds"), [(1, F(11, 8)), (4, F(13, 6)), (8, F(8, 3)), (16, F(4))])
def test_an_allreduce_in_one_round_moves_more(size: int, seconds: Fraction) -> None:
    """Four GPUs on a switch, each at 8 bytes a second and 1 s away. All to all, three buffers enter each GPU; in
    two rounds one and a half. Six moves are owed for each byte. 16 can be paid by 2 s, as what is first and last
    pays half, and 48 more by 3 s."""
    bounds = time_bounds(switched(4, 8, 1), "allreduce")
    assert tightest(bounds, size).seconds(size) == seconds


def test_servers_of_an_allreduce_have_links_before_and_after() -> None:
    """Three servers of two: half the NICs are a link away from the rank that is followed, on both sides."""
    topology = three_servers(random.Random(5))
    bound = next(b for b in time_bounds(topology, "allreduce") if b.kind == "volume" and b.supply)
    assert isinstance(bound.witness, PartCrossings) and bound.witness.ends
    wrong = replace(bound, witness=replace(bound.witness, ends=bound.witness.ends[::-1]))
    assert "in another part" in refusal(topology, "allreduce", None, wrong)
    early = tuple((time, rate * F(99, 100)) for time, rate in bound.supply)
    assert "said to be less" in refusal(topology, "allreduce", None, replace(bound, supply=early))
    late = tuple((time + F(1, 100), rate) for time, rate in bound.supply)
    assert "said to be less" in refusal(topology, "allreduce", None, replace(bound, supply=late))


def refusal(topology: Topology, name: CollectiveName, root: int | None, bound: TimeBound) -> str:
    return "; ".join(v.message for v in time_bound_violations(topology, name, root, bound))


SHORTCUT = wired(4, (0, 1, 9, 1), (1, 3, 2, 2), (0, 2, 9, 1), (2, 3, 4, 10))
INTO_3 = DelayedPrices((0, 1, 0, 1), (), (EnteredSet((3,), 1, 3),))


def shown(witness: DelayedPrices, *supply: tuple[int, int], backwards: bool = False) -> TimeBound:
    curve = tuple((F(time), F(rate)) for time, rate in supply)
    return TimeBound("delays", F(0), F(0), "", witness, backwards, supply=curve)


@pytest.mark.parametrize(
    ("witness", "supply", "message"),
    [
        (INTO_3, ((3, 2), (11, 4)), ""),
        (INTO_3, ((3, 2), (11, 5)), ""),
        (INTO_3, ((3, 2), (12, 4)), "said to be less"),
        (INTO_3, ((3, 2), (11, 3)), "said to be less"),
        (INTO_3, ((11, 4), (3, 2)), "not in order of time"),
        (INTO_3, ((1, 0), (3, 2), (11, 4)), "or negative"),
        (replace(INTO_3, wires=(0, 1, 0, 0)), ((3, 2),), "owe more than it costs"),
        (replace(INTO_3, wires=(0, 1, 0)), ((3, 2),), "not those of this topology"),
        (replace(INTO_3, wires=(0, 1, -1, 1)), ((3, 2),), "no whole number, or negative"),
        (replace(INTO_3, sets=(EnteredSet((3,), 2, 3),)), ((3, 2),), "owe more than it costs"),
        (replace(INTO_3, sets=(EnteredSet((3,), 0, 3),)), ((3, 2),), "owes nothing"),
        (replace(INTO_3, sets=(EnteredSet((3, 3), 1, 3),)), ((3, 2),), "a rank twice"),
        (replace(INTO_3, sets=(EnteredSet((), 1, 3),)), ((3, 2),), "empty"),
        (replace(INTO_3, sets=(EnteredSet((0, 1, 2, 3), 1, 3),)), ((3, 2),), "has all ranks"),
        (replace(INTO_3, sets=(EnteredSet((3,), 1, 2),)), ((3, 2),), "an end outside"),
        (replace(INTO_3, sets=(EnteredSet((3,), 1, None),)), ((3, 2),), "an end outside"),
        (replace(INTO_3, sets=(EnteredSet((0, 3), 1, 3),)), ((3, 2),), "nothing is said to be owed"),
        (replace(INTO_3, nearest=F(4)), ((3, 2),), "nothing is said to be owed"),
        (replace(INTO_3, sets=()), ((3, 2),), "nothing is said to be owed"),
    ],
)
def test_the_judge_of_delays(witness: DelayedPrices, supply: tuple[tuple[int, int], ...], message: str) -> None:
    found = refusal(SHORTCUT, "broadcast", 0, shown(witness, *supply))
    assert message in found if message else not found


def test_a_collective_is_looked_at_its_own_way_round() -> None:
    for name in COLLECTIVE_NAMES:
        turned = name in ("allgather", "broadcast", "gather", "alltoall")
        root = 0 if name in ROOTED else None
        found = refusal(SHORTCUT, name, root, shown(INTO_3, (3, 2), (11, 4), backwards=turned))
        assert ("this way round" in found) == (name != "allreduce")


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
        arrived[link.dst] = (
            trial.send(i, arrived[link.src], size) if tree else trial.times(i, arrived[link.src], size)[2]
        )
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


def copied(
    topology: Topology, name: CollectiveName, root: int, size: int, pieces: int, rng: random.Random
) -> float:
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
    n, at = topology.ranks, Reservations(topology, False)
    between = defaultdict(list)
    for i, link in enumerate(topology.links):
        between[link.src, link.dst].append(i)
    direct = all(between[pair] for pair in itertools.permutations(range(n), 2))
    each, alone = size / pieces / n, rng.choice((0.0, 0.5, 1.0))
    direct_servers = topology.name == "three"
    waits: list[tuple[int, list[int]]] = []  # link and the tasks before
    for root in [*range(n)] * pieces:
        if direct and rng.random() < alone:
            waits += [(rng.choice(between[pair]), []) for pair in itertools.permutations(range(n), 2)]
            continue
        if direct_servers and rng.random() < alone:
            by_servers(between, topology, waits, rng)
            continue
        parent = tree(topology.reversed(), root, rng)
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
    return max(ended.values())


def by_servers(
    between: dict[tuple[int, int], list[int]],
    topology: Topology,
    waits: list[tuple[int, list[int]]],
    rng: random.Random,
) -> None:
    """Sums within servers of two, one of whose ranks each sends them to the others and passes on what it gets."""
    with_nic = {u for (u, v), links in between.items() if links and v != u ^ 1}
    leaders = [rng.choice(sorted(with_nic & {u, u + 1})) for u in range(0, topology.ranks, 2)]
    first = {}
    for u in leaders:
        waits.append((between[u ^ 1, u][0], []))
        first[u] = len(waits) - 1
    into = defaultdict(list)
    for u, v in itertools.permutations(leaders, 2):
        waits.append((between[u, v][0], [first[u]]))
        into[v].append(len(waits) - 1)
    waits += [(between[u, u ^ 1][0], [*into[u], first[u]]) for u in leaders]


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
    kind = rng.randrange(4)
    if kind == 3:
        return three_servers(rng)
    if kind == 0:
        return full(rng.randint(2, 5), rng.randint(1, 9), rng.randint(0, 4))
    if kind == 1:
        return switched(rng.randint(3, 5), rng.randint(1, 9), rng.randint(0, 4))
    n = rng.choice((4, 6))
    half = n // 2
    fast, near = rng.randint(3, 20), rng.randint(0, 3)
    wires = [(u, v, fast, near) for u, v in itertools.permutations(range(n), 2) if u // half == v // half]
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


def three_servers(rng: random.Random) -> Topology:
    """Of two GPUs each, of which some have a NIC on one fabric, and all or some send over it themselves."""
    wires = [Wire(u, u ^ 1, "wire", F(rng.randint(5, 20)), 1, F(rng.randint(0, 2))) for u in range(6)]
    links = [Link.over(w.src, w.dst, [i], wires) for i, w in enumerate(wires)]
    owners = [u for u in range(6) if u % 2 == 0 or rng.random() < 0.6]
    rate, alpha, port = rng.randint(1, 6), rng.randint(1, 4), dict[int, int]()
    for u in owners:
        port[u] = len(wires)
        wires += [Wire(u, 6, "nic", F(rate), 1, F(alpha)), Wire(6, u, "nic", F(rate))]
    for u, v in itertools.permutations(owners, 2):
        if u // 2 != v // 2:
            links.append(Link.over(u, v, [port[u], port[v] + 1], wires))
    vertices = (*(Vertex(f"g{u}", "gpu", f"s{u // 2}") for u in range(6)), Vertex("x", "fabric"))
    return Topology("three", vertices, 6, tuple(wires), tuple(links))


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32), name=st.sampled_from(sorted(COLLECTIVE_NAMES)))
def test_no_schedule_is_quicker(seed: int, name: CollectiveName) -> None:
    """Of trees that are chosen for early arrivals, in one piece or many, none undercuts any bound."""
    rng = random.Random(seed)
    topology = any_cluster(rng)
    root = rng.randrange(topology.ranks) if name in ROOTED else None
    bounds = of_scope(time_bounds(topology, name, root), "all")
    for bound in bounds:
        assert not time_bound_violations(topology, name, root, bound)
    for size in (2, 16, 128):
        for pieces in (1, 4):
            if name == "allreduce":
                seconds = summed(topology, size, pieces, rng)
            else:
                seconds = copied(topology, name, root or 0, size, pieces, rng)
            for bound in bounds:
                assert float(bound.seconds(size)) <= seconds * (1 + 1e-9), (bound.kind, bound.proof)
