"""Rounding: as many chunks as asked for, known optima, nothing below what is proved, moves that help."""

from __future__ import annotations

import warnings
from collections import Counter

import networkx as nx
import numpy as np
import pytest
from support.packings import expansion, worst

from hetesynth.model.collective import CollectiveName
from hetesynth.search.packing.rounding import whole


@pytest.mark.parametrize("name", ["allgather", "broadcast", "allreduce"])
@pytest.mark.parametrize("chunks", [1, 5])
def test_every_root_has_its_chunks(name: CollectiveName, chunks: int) -> None:
    fractional = expansion("h20_4p8", name)
    packed = whole(fractional, chunks)
    roots = [carrier.root for carrier in packed.carriers]
    assert roots == sorted(roots)
    if name == "allreduce":
        assert len(roots) == chunks
    else:
        assert Counter(roots) == dict.fromkeys(range(12) if name == "allgather" else [0], chunks)


@pytest.mark.parametrize("cluster", ["fig10", "h20_4p8", "v100_fail_one4"])
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


@pytest.mark.parametrize(
    ("cluster", "chunks", "most"), [("h20_4p8", 4, 1.002), ("v100_4p8", 1, 1.001), ("dgx1", 5, 1.05)]
)
def test_what_the_optimum_divides_is_rounded_with_little_loss(cluster: str, chunks: int, most: float) -> None:
    """Chunks move, and on DGX-1 trees that avoid what is full turn 6.5 chunks on a resource into 6."""
    fractional = expansion(cluster, "allgather")
    assert whole(fractional, chunks).seconds <= most * fractional.packing.seconds


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


def test_a_chunk_that_is_far_too_large_for_a_resource_is_no_overflow() -> None:
    """One chunk for all of an allreduce: some tree puts many times its share on a NIC."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        packed = whole(expansion("h20_4p8", "allreduce"), 1)
    assert len(packed.carriers) == 1
