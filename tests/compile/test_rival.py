"""What results are held against: the library's own choice, or its rings simulated, whichever is quicker."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from benchmarks.generated_clusters import generated_cluster

from hetesynth.engine.predictors import CostOptions
from hetesynth.engine.ring_baseline import Baseline, ring_baseline, ring_limit
from hetesynth.engine.time_verdict import Rival, bounds_of, library_rival
from hetesynth.library.machine import library_of, machine_of
from hetesynth.library.times import chosen
from hetesynth.model.collective import ROOTED, CollectiveName
from hetesynth.model.runtime_costs import NCCL_TABLES
from hetesynth.model.topology import Topology
from hetesynth.topology.language import load_topology, parse_topology

EXAMPLES = Path(__file__).parents[2] / "examples"
OPTIONS = CostOptions(runtime=NCCL_TABLES)


@cache
def topology(name: str) -> Topology:
    measured = EXAMPLES / "measured" / f"{name}.dsl"
    return load_topology(measured if measured.exists() else EXAMPLES / name / "topo.dsl")


def limit(name: str, coll: CollectiveName, size: int) -> float:
    return bounds_of(topology(name), coll, 0 if coll in ROOTED else None, OPTIONS).seconds(size)


def rival(name: str, coll: CollectiveName, size: int) -> Rival:
    root = 0 if coll in ROOTED else None
    found = library_rival(topology(name), coll, root, size, OPTIONS, limit(name, coll, size))
    assert isinstance(found, Rival), found
    return found


@pytest.mark.parametrize("size", [64 << 10, 1 << 30])
@pytest.mark.parametrize("coll", ["allreduce", "allgather", "alltoall", "broadcast"])
@pytest.mark.parametrize("name", ["h20_4p8", "h100x8"])
def test_it_is_no_slower_than_the_simulated_program(name: str, coll: CollectiveName, size: int) -> None:
    found, root = rival(name, coll, size), 0 if coll in ROOTED else None
    simulated = ring_baseline(topology(name), coll, root, size, OPTIONS)
    machine = machine_of(topology(name))
    assert isinstance(simulated, Baseline) and machine is not None
    assert found.seconds <= simulated.seconds
    assert found.seconds <= max(limit(name, coll, size), chosen(machine, coll, size).expected)
    assert found.seconds >= limit(name, coll, size) or "NVLS" in found.how


@pytest.mark.parametrize(
    ("model", "library", "checked"),
    [
        ("NVIDIA H100 80GB HBM3", "NCCL", True),
        ("AMD Instinct MI300X", "RCCL", True),
        ("MI250", "RCCL", False),
        ("TPU v5p", None, False),
        ("Ascend 910B", None, False),
        ("gaudi3", None, False),
        ("", "NCCL", False),
    ],
)
def test_the_library_is_that_of_the_gpus(model: str, library: str | None, checked: bool) -> None:
    """Names as tools print them; what published runs do not have is not checked against them."""
    mesh = "mesh gpu[0-7] { bandwidth 50 GB/s; latency 1 us; kind xgmi }"
    switch = "switch s { ports gpu[0-7]; kind nvswitch; bandwidth 450 GB/s; latency 1 us }"
    stated = f'model "{model}"; ' if model else ""
    wires = mesh if "MI" in model else switch
    on = parse_topology(f"node n {{ gpus 8; {stated}{wires} }} cluster c {{ instance a = n }}")
    assert library_of(on) == library
    machine = machine_of(on)
    assert (machine is not None and machine.checked) == checked


def test_rings_of_ll_carry_its_flags() -> None:
    """A ring over PCIe: the formula does not see that all of it crosses one bus, with two bytes for each."""
    cluster = parse_topology(generated_cluster(522).text)
    found = library_rival(cluster, "reducescatter", None, 64_000, OPTIONS, 0.0)
    assert isinstance(found, Rival) and "LL" in found.how
    assert found.seconds >= 6.6e-6 + ring_limit(cluster, "reducescatter", 128_000, OPTIONS)
