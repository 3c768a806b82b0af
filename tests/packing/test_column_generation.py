"""Packings: known optima, with and without symmetry, the same again; automorphisms are automorphisms."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import count, pairwise
from pathlib import Path

import numpy as np
import pytest
from benchmarks.generated_clusters import generated_cluster

from hetesynth.model import deadline
from hetesynth.model.collective import COLLECTIVE_NAMES, ROOTED, CollectiveName
from hetesynth.model.deadline import ClockDecisions, Deadline, no_deadline
from hetesynth.model.topology import Topology
from hetesynth.policy import DEFAULT
from hetesynth.policy.packing import PackingPolicy
from hetesynth.search.packing.column_generation import PACKING, FractionalPacking, Master, pack
from hetesynth.search.packing.network import Network
from hetesynth.search.packing.structures import Copying, Offer, demands
from hetesynth.search.packing.symmetry import Symmetry, symmetry, trivial
from hetesynth.topology.language import load_topology, parse_topology

EXAMPLES = Path(__file__).parents[2] / "examples"
POLICY = DEFAULT.packing
EXACT = replace(POLICY, gap=1e-11, most_rounds=10_000)
IN_TURNS = replace(EXACT, ranks_together=0, ranks_of_a_turn=2)


def example(name: str) -> Topology:
    return load_topology(EXAMPLES / name / "topo.dsl")


def packed(
    topology: Topology, name: CollectiveName, *, alike: bool = True, deadline: Deadline | None = None,
    policy: PackingPolicy = POLICY,
) -> FractionalPacking:  # fmt: skip
    network = Network.of(topology)
    root = 0 if name in ROOTED else None
    group = group_of(topology, root) if alike else trivial(network)
    return pack(network, demands(network, name, root, group, policy), group, policy, deadline or no_deadline())


def group_of(topology: Topology, root: int | None = None) -> Symmetry:
    return symmetry(Network.of(topology), topology.servers, POLICY.largest_group * topology.ranks, root)


@pytest.mark.parametrize(
    ("cluster", "name", "microseconds"),
    [
        ("h20_4p8", "allgather", 3333.3), ("h20_4p8", "allreduce", 5000.0), ("mi250_x1", "allgather", 2916.7),
        ("mi250_x1", "allreduce", 5833.3), ("v100_4x2p8x2", "allgather", 26041.7),
        ("dgx2_x2", "allreduce", 14761.9),
    ],
)  # fmt: skip
def test_known_optima_of_a_gigabyte(cluster: str, name: CollectiveName, microseconds: float) -> None:
    packing = packed(example(cluster), name)
    assert packing.bound * 1e15 == pytest.approx(microseconds, rel=1e-3)
    assert packing.seconds * 1e15 == pytest.approx(microseconds, rel=1e-3) and packing.gap <= POLICY.gap


@pytest.mark.parametrize("cluster", ["h20_4p8", "v100_fail_one4", "fig10"])
@pytest.mark.parametrize("name", COLLECTIVE_NAMES)
def test_symmetry_changes_no_optimum(cluster: str, name: CollectiveName) -> None:
    one, other = (packed(example(cluster), name, alike=alike) for alike in (True, False))
    assert one.seconds == pytest.approx(other.seconds, rel=2.1 * POLICY.gap)


@pytest.mark.parametrize("name", ["allgather", "allreduce", "alltoall"])
def test_the_same_again(name: CollectiveName) -> None:
    one, other = packed(example("v100_4p8"), name), packed(example("v100_4p8"), name)
    assert one.prices.tobytes() == other.prices.tobytes() and one.weights.tobytes() == other.weights.tobytes()
    assert [s.key for s in one.structures] == [s.key for s in other.structures]


@pytest.mark.parametrize("name", ["allgather", "allreduce", "alltoall"])
def test_the_fullest_resource_takes_the_seconds_of_the_packing(name: CollectiveName) -> None:
    """Without symmetry the loads of all structures are those of the packing; prices are of one unit."""
    topology = example("h20_4p8")
    network, packing = Network.of(topology), packed(topology, name, alike=False)
    assert seconds_of(packing, network) == pytest.approx(packing.seconds, rel=1e-6)
    assert packing.prices @ network.rate == pytest.approx(1.0) and (packing.prices >= 0).all()


def seconds_of(packing: FractionalPacking, network: Network) -> float:
    crossings = np.zeros(len(network.src))
    for structure, weight in zip(packing.structures, packing.weights, strict=True):
        crossings[structure.links] += weight * structure.crossings
    return float((network.loads(crossings) / network.rate).max())


@pytest.mark.parametrize("name", ["allgather", "allreduce", "broadcast", "alltoall", "scatter"])
@pytest.mark.parametrize("cluster", ["v100_fail_one4", "h20_4p8"])
def test_a_deadline_leaves_a_packing_and_a_bound(
    cluster: str, name: CollectiveName, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deadline comes when it is asked for the first time, the second, ...; the optimum has no deadline."""
    topology = example(cluster)
    network, optimum = Network.of(topology), packed(topology, name, alike=False)
    group = trivial(network)
    asked = demands(network, name, 0 if name in ROOTED else None, group, POLICY)
    seconds = []
    for asks in (1, 2, 5, 11):
        ticks = count(1)
        monkeypatch.setattr(deadline, "source", lambda ticks=ticks: float(next(ticks)))
        record = ClockDecisions()
        packing = packed(topology, name, alike=False, deadline=Deadline(asks, record))
        assert packing.cut_short and record.places == {PACKING: 1} and packing.rounds == asks
        assert packing.bound <= optimum.seconds * (1 + 1e-9) and optimum.bound <= packing.seconds * (1 + 1e-9)
        assert seconds_of(packing, network) == pytest.approx(packing.seconds, rel=1e-6)
        rows = np.bincount([s.row for s in packing.structures], packing.weights)
        if name == "allreduce":
            assert rows.sum() == pytest.approx(2.0)
        else:
            assert rows.sum() == pytest.approx(1.0 if name == "broadcast" else sum(asked.amounts))
        assert packing.bound == pytest.approx(asked.offer(packing.prices, None).least)
        seconds.append(packing.seconds)
    assert all(later <= earlier * (1 + 1e-9) for earlier, later in pairwise(seconds))


def test_an_optimum_before_the_deadline_is_not_cut_short() -> None:
    record = ClockDecisions()
    packing = packed(example("h20_4p8"), "allgather", deadline=Deadline(math.inf, record))
    assert not packing.cut_short and not record and packing.gap <= POLICY.gap


@pytest.mark.parametrize(
    "seed", [pytest.param(s, marks=[] if s < 6 else [pytest.mark.slow]) for s in range(40)]
)  # fmt: skip
@pytest.mark.parametrize("name", ["allgather", "allreduce", "broadcast"])
def test_ranks_in_turns_reach_the_same_optimum(seed: int, name: CollectiveName) -> None:
    topology = parse_topology(generated_cluster(seed).text)
    together, in_turns = packed(topology, name, policy=EXACT), packed(topology, name, policy=IN_TURNS)
    for one in (together, in_turns):
        assert one.bound == pytest.approx(one.seconds, rel=1e-9)
    assert in_turns.seconds == pytest.approx(together.seconds, rel=1e-9)


def test_in_turns_few_ranks_are_asked_at_one_price(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    plain = Copying.offer

    def offer(self: Copying, prices: np.ndarray, places: np.ndarray | None) -> Offer:
        asked.append(self.every_place.size if places is None else len(places))
        return plain(self, prices, places)

    monkeypatch.setattr(Copying, "offer", offer)
    packing = packed(example("h20_4p8"), "allgather", alike=False, policy=IN_TURNS)
    assert asked[:12] == [2] * 12 and packing.gap <= EXACT.gap
    assert {s.row for s in packing.structures} == set(range(12))


@pytest.mark.parametrize("name", ["allgather", "allreduce", "broadcast"])
@pytest.mark.parametrize("seconds_for_the_first", [0.0, 60.0])
def test_in_turns_a_deadline_leaves_a_packing_and_a_bound(
    name: CollectiveName, seconds_for_the_first: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With no time for a master program too: then what the sweeps offered is spread evenly."""
    topology = example("v100_fail_one4")
    network, optimum = Network.of(topology), packed(topology, name, alike=False)
    policy = replace(IN_TURNS, first_solution_seconds=seconds_for_the_first)
    asked = demands(network, name, 0 if name in ROOTED else None, trivial(network), policy)
    for ticks_left in (1, 4, 9):
        ticks = count(1)
        monkeypatch.setattr(deadline, "source", lambda ticks=ticks: float(next(ticks)))
        record = ClockDecisions()
        packing = packed(topology, name, alike=False, policy=policy, deadline=Deadline(ticks_left, record))
        assert packing.cut_short and record.places == {PACKING: 1}
        assert packing.bound <= optimum.seconds * (1 + 1e-9) and optimum.bound <= packing.seconds * (1 + 1e-9)
        assert seconds_of(packing, network) == pytest.approx(packing.seconds, rel=1e-6)
        rows = np.bincount([s.row for s in packing.structures], packing.weights)
        if name == "allreduce":
            half = network.ranks
            assert rows.sum() == pytest.approx(2.0) and rows[:half] == pytest.approx(rows[half:])
        else:
            assert rows == pytest.approx(asked.amounts)
        assert packing.bound == pytest.approx(asked.offer(packing.prices, None).least)


def test_a_master_program_without_time_says_so() -> None:
    master = Master(np.ones(40), np.ones(20), 0)
    random = np.random.default_rng(0)
    for column in range(400):
        master.add(column % 20, random.integers(0, 5, 40).astype(float))
    assert master.solve(0.0) is None
    solution = master.solve(math.inf)
    assert solution is not None and solution.weights.sum() == pytest.approx(20.0)


@pytest.mark.parametrize(
    ("cluster", "root"),
    [("h20_4p8", None), ("mi250_x1", None), ("torus_8x8", None), ("dgx2_x2", None), ("ndv2_x4", 0)],
)
def test_automorphisms_map_links_to_links_of_the_same_resources(cluster: str, root: int | None) -> None:
    topology = example(cluster)
    network, group = Network.of(topology), group_of(topology, root)
    pairs = sorted(zip(network.src.tolist(), network.dst.tolist(), strict=True))
    assert len(group.ranks) > 1
    resources = resources_by_pairs(network, np.arange(network.ranks))
    for ranks in group.ranks:
        moved = sorted(zip(ranks[network.src].tolist(), ranks[network.dst].tolist(), strict=True))
        assert moved == pairs and sorted(ranks) == list(range(network.ranks))
        assert resources_by_pairs(network, ranks) == resources
        assert root is None or ranks[root] == root
        assert (group.rank_orbit[ranks] == group.rank_orbit).all()


def resources_by_pairs(network: Network, ranks: np.ndarray) -> list[tuple[float, list[tuple[int, int]]]]:
    """Each resource as its rate and the pairs of ranks whose links draw from it, where ``ranks`` take them."""
    users: list[list[tuple[int, int]]] = [[] for _ in network.rates]
    for link, r in zip(network.link_of_use, network.uses, strict=True):
        users[r].append((int(ranks[network.src[link]]), int(ranks[network.dst[link]])))
    return sorted((float(rate), sorted(pairs)) for rate, pairs in zip(network.rates, users, strict=True))


def test_a_root_alone_in_its_server_has_symmetries_too() -> None:
    topology = example("ring8")
    alone = Topology(
        "alone",
        tuple(v if i else type(v)(v.name, "gpu", "other") for i, v in enumerate(topology.vertices)),
        topology.ranks, topology.wires, topology.links,
    )  # fmt: skip
    assert (group_of(alone, 0).ranks[:, 0] == 0).all()
