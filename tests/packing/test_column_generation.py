"""Packings: known optima, with and without symmetry, the same again; automorphisms are automorphisms."""

from __future__ import annotations

import math
from itertools import count, pairwise
from pathlib import Path

import numpy as np
import pytest

from hetesynth.frontend import load_topology
from hetesynth.model import deadline
from hetesynth.model.collective import COLLECTIVE_NAMES, ROOTED, CollectiveName
from hetesynth.model.deadline import ClockDecisions, Deadline, no_deadline
from hetesynth.model.topology import Topology
from hetesynth.packing.column_generation import PACKING, FractionalPacking, pack
from hetesynth.packing.network import Network
from hetesynth.packing.structures import demands
from hetesynth.packing.symmetry import Symmetry, symmetry, trivial
from hetesynth.policy import DEFAULT

EXAMPLES = Path(__file__).parents[2] / "examples"
POLICY = DEFAULT.packing


def example(name: str) -> Topology:
    return load_topology(EXAMPLES / name / "topo.dsl")


def packed(
    topology: Topology, name: CollectiveName, *, alike: bool = True, deadline: Deadline | None = None
) -> FractionalPacking:  # fmt: skip
    network = Network.of(topology)
    root = 0 if name in ROOTED else None
    group = group_of(topology, root) if alike else trivial(network)
    return pack(network, demands(network, name, root, group, POLICY), group, POLICY, deadline or no_deadline())


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
        ticks = count()  # the first is that of the deadline itself
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
        assert packing.bound == pytest.approx(asked.offer(packing.prices, all_roots=True).least)
        seconds.append(packing.seconds)
    assert all(later <= earlier * (1 + 1e-9) for earlier, later in pairwise(seconds))


def test_an_optimum_before_the_deadline_is_not_cut_short() -> None:
    record = ClockDecisions()
    packing = packed(example("h20_4p8"), "allgather", deadline=Deadline(math.inf, record))
    assert not packing.cut_short and not record and packing.gap <= POLICY.gap


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
