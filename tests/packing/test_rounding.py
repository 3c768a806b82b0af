"""Rounding: as many chunks as asked for, known optima, nothing below what is proved, moves that help."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import replace

import networkx as nx
import numpy as np
import pytest
from support.packings import POLICY, expansion, worst

from hetesynth.model.collective import CollectiveName
from hetesynth.search.packing.rounding import whole


@pytest.mark.parametrize("name", ["allgather", "broadcast", "allreduce"])
@pytest.mark.parametrize("chunks", [1, 2, 5, 12])
def test_every_root_has_its_chunks(name: CollectiveName, chunks: int) -> None:
    fractional = expansion("h20_4p8", name)
    packed = whole(fractional, chunks)
    roots = [carrier.root for carrier in packed.carriers]
    assert roots == sorted(roots)
    if name == "allreduce":
        assert len(roots) == chunks
    else:
        assert Counter(roots) == dict.fromkeys(range(12) if name == "allgather" else [0], chunks)


@pytest.mark.parametrize("cluster", ["fig10", "h20_4p8", "v100_fail_one4", "v100_4p8_sharednic", "mi250_x1"])
@pytest.mark.parametrize("name", ["allgather", "broadcast", "allreduce"])
def test_nothing_is_below_what_is_proved(cluster: str, name: CollectiveName) -> None:
    fractional = expansion(cluster, name)
    for chunks in (1, 4, 7):
        packed = whole(fractional, chunks)
        assert packed.least == fractional.packing.bound
        assert packed.seconds >= packed.least * (1 - 1e-9)
        assert packed.seconds == pytest.approx(worst(fractional, packed))


@pytest.mark.parametrize(("chunks", "on_a_link"), [(1, 4), (2, 7), (4, 14)])
def test_a_ring_in_whole_chunks(chunks: int, on_a_link: int) -> None:
    """8 trees of 7 links for each chunk of a rank, on 16 links: 3.5 on each, so 4 of one chunk."""
    packed = whole(expansion("ring8", "allgather"), chunks)
    assert packed.chunks_on.max() == pytest.approx(on_a_link)
    assert packed.seconds == pytest.approx(on_a_link / (8 * chunks * 25e9))


def test_what_the_optimum_divides_is_rounded_without_loss() -> None:
    """3333.3 us for 1 GB."""
    packed = whole(expansion("h20_4p8", "allgather"), 4)
    assert packed.seconds * 1e15 == pytest.approx(3333.3, rel=2 * POLICY.gap)


@pytest.mark.parametrize("name", ["allgather", "allreduce"])
def test_candidates_span_and_stay_images_included(name: CollectiveName) -> None:
    fractional = expansion("v100_4p8", name)
    network, candidates = fractional.network, fractional.candidates
    assert len({c.key for c in candidates.carriers}) == len(candidates.carriers)
    for carrier, load in zip(candidates.carriers, candidates.loads, strict=True):
        edges = [(int(network.src[i]), int(network.dst[i])) for i in carrier.outward]
        back = [(int(network.dst[i]), int(network.src[i])) for i in carrier.inward]
        for tree in (nx.DiGraph(edges), nx.DiGraph(back))[: 2 if name == "allreduce" else 1]:
            assert nx.is_arborescence(tree) and len(tree) == network.ranks and tree.in_degree(carrier.root) == 0
        assert (load == fractional.loads(carrier.outward) + fractional.loads(carrier.inward)).all()
    shares = np.bincount(candidates.group, candidates.shares)
    if name == "allgather":
        assert shares == pytest.approx(np.ones(network.ranks))


@pytest.mark.parametrize("cluster", ["v100_4p8", "h20_4x2p8", "v100_fail_one8"])
def test_moving_chunks_helps(cluster: str) -> None:
    """A chunk of each rank fits exactly, once chunks have moved."""
    still = replace(POLICY, rounding_sweeps=0, rounding_repricings=0)
    fractional = expansion(cluster, "allgather")
    moved, left = (whole(replace(fractional, policy=policy), 1).seconds for policy in (POLICY, still))
    assert moved == pytest.approx(fractional.packing.seconds, rel=POLICY.gap) and left > 1.2 * moved


def test_new_trees_help() -> None:
    """Those that avoid what is full: 6.5 chunks on a resource of DGX-1 become 6."""
    fractional = expansion("dgx1", "allgather")
    repriced = whole(fractional, 5).seconds
    assert whole(replace(fractional, policy=replace(POLICY, rounding_repricings=0)), 5).seconds > 1.08 * repriced
    assert repriced < 1.05 * fractional.packing.seconds


def test_a_chunk_that_is_far_too_large_for_a_resource_is_no_overflow() -> None:
    """One chunk for all of an allreduce: some tree puts many times its share on a NIC."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        packed = whole(expansion("h20_4p8", "allreduce"), 1)
    assert len(packed.carriers) == 1


def test_the_same_trees_again() -> None:
    one, other = (whole(expansion("v100_fail_one4", "allreduce"), 9) for _ in range(2))
    assert [c.key for c in one.carriers] == [c.key for c in other.carriers]
    assert one.chunks_on.tobytes() == other.chunks_on.tobytes()
