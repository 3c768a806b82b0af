"""The price bound of trees and paths: buses that no cut sees, sound on tiny problems, and not to be raised."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.certificates import recheck
from support.graphs import problem, servers
from support.optimum import copying_optimum
from support.random_graphs import tiny_graphs
from support.verdicts import certificate_violations

from hetesynth.model.bound import LowerBound, PriceWitness
from hetesynth.model.problem import Problem
from hetesynth.policy import DEFAULT
from hetesynth.search.bounds.packing import price_bound
from hetesynth.search.chunking import chunk
from hetesynth.search.collectives import collective
from hetesynth.topology.language import load_topology

SERVER = """node s{gpus} {{
  gpus {gpus}
  bus pcie {{ members gpu[0-{last}]; bandwidth {rate} GB/s; latency 1 us }}
  nic nic0 {{ bandwidth 16 GB/s }}
  attach gpu[0-{last}] -> nic0
}}
"""
CLUSTER = """cluster buses {
  chunk 16 MB
  instance a = s3
  instance b = s5
  fabric ib { join *.nic*; latency 1.3 us }
}
"""


def bound_of(instance: Problem) -> LowerBound | None:
    return price_bound(instance, DEFAULT.packing)


def buses(tmp_path: object, rate: int, chunks: int) -> Problem:
    path = tmp_path / "topo.dsl"  # type: ignore[operator]
    path.write_text("".join(SERVER.format(gpus=g, last=g - 1, rate=rate) for g in (3, 5)) + CLUSTER)
    chunking = chunk(load_topology(path))
    return chunking.problem(collective("allgather", chunking.topology.ranks, chunks))


@pytest.mark.parametrize(("rate", "a_step", "chunks"), [(32, 3, 3), (64, 5, 1)])
def test_a_bus_is_paid_once_for_every_delivery(tmp_path: object, rate: int, a_step: int, chunks: int) -> None:
    """35 deliveries to five GPUs at three a step, two by the bus and one by the NIC; or of twice as fast a bus."""
    instance = buses(tmp_path, rate, chunks)
    bound = bound_of(instance)
    assert bound is not None and bound.steps == math.ceil(35 * chunks / a_step)
    recheck(instance, bound)
    assert not certificate_violations(instance, bound)


def test_no_more_is_accepted_than_trees_pay() -> None:
    instance = problem(servers([2, 3], [1, 1], 2, [1, 1]), "allgather", 2)
    bound = bound_of(instance)
    assert bound is not None and isinstance(bound.witness, PriceWitness)
    assert not certificate_violations(instance, bound)
    more = bound.witness.paid + bound.witness.earned
    raised = replace(bound, steps=bound.steps + 1, witness=replace(bound.witness, paid=more))
    assert certificate_violations(instance, raised)
    with pytest.raises(AssertionError):
        recheck(instance, raised)


@settings(max_examples=12, deadline=None)
@given(
    tiny_graphs(most=3),
    st.sampled_from(["allgather", "broadcast", "alltoall", "gather", "scatter"]),
    st.integers(1, 2),
)
def test_no_schedule_is_shorter(graph: object, name: str, chunks: int) -> None:
    instance = problem(graph, name, chunks)  # type: ignore[arg-type]
    bound = bound_of(instance)
    if bound is not None:
        optimum = copying_optimum(instance)
        assert optimum is None or bound.steps <= optimum
        assert not certificate_violations(instance, bound)
