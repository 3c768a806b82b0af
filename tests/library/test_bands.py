"""Which machines published runs are of, and what is said of all others."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.generated_clusters import generated_cluster

from hetesynth.library.bands import band_of
from hetesynth.library.machine import machine_of
from hetesynth.model.collective import CollectiveName
from hetesynth.model.topology import Topology
from hetesynth.topology.language import load_topology, parse_topology
from hetesynth.topology.language.overridden import overridden

EXAMPLES = Path(__file__).parents[2] / "examples"
MIXED, NOT_SUCH = "unchecked on mixed servers", "unchecked on such machines"


def unchecked(topology: Topology, collective: CollectiveName = "allreduce", size: int = 1 << 30) -> str:
    machine = machine_of(topology)
    assert machine is not None
    band = band_of(machine, collective, size)
    assert band.low <= 1 <= band.high and (band.points > 0) is (band.unchecked == "")
    return band.unchecked


def switched(model: str, gpus: int = 8) -> Topology:
    switch = f"switch s {{ ports gpu[0-{gpus - 1}]; kind nvlink; bandwidth 450 GB/s; latency 1 us }}"
    return parse_topology(f'node n {{ gpus {gpus}; model "{model}"; {switch} }} cluster c {{ instance a = n }}')


@pytest.mark.parametrize("name", ["a100x8", "h100x8", "h200x8", "b200x8", "h100x8_2", "mi325x8_4", "h200x5_of_8"])
def test_machines_of_the_published_runs_are_checked(name: str) -> None:
    assert unchecked(load_topology(EXAMPLES / "measured" / f"{name}.dsl")) == ""


@pytest.mark.parametrize("model", ["H20", "H800", "A40", "RTX 2080 Ti", ""])
def test_other_models_are_not(model: str) -> None:
    assert unchecked(switched(model)) == NOT_SUCH


def test_nvl72_and_mixed_servers_are_not() -> None:
    assert unchecked(load_topology(EXAMPLES / "measured" / "gb200_nvl72.dsl")) == NOT_SUCH
    assert unchecked(load_topology(EXAMPLES / "h20_4p8" / "topo.dsl")) == MIXED


def test_sizes_and_collectives_without_runs_are_not() -> None:
    """B300 x8 has no run below 64 MiB, and no H100 a broadcast."""
    b300, h100 = (load_topology(EXAMPLES / "measured" / f"{name}.dsl") for name in ("b300x8", "h100x8"))
    assert unchecked(b300) == ""
    assert unchecked(b300, size=1 << 16) == "unchecked at such sizes"
    assert unchecked(h100, "broadcast") == "unchecked for broadcast"


def test_slow_parts_and_shared_limits_are_not() -> None:
    file = EXAMPLES / "measured" / "h100x8_2.dsl"
    slow = overridden(file, (), [f"a{n}.nic0=100Gbps" for n in (0, 1)])
    assert unchecked(load_topology(file)) == ""
    assert unchecked(load_topology(slow)) == "unchecked on this fabric"
    for seed in (145, 162, 164):  # with a stated limit; H100, B200, H20
        assert unchecked(parse_topology(generated_cluster(seed).text)) == "unchecked on this fabric"


def test_a_band_is_wider_where_nothing_was_measured() -> None:
    known = machine_of(load_topology(EXAMPLES / "measured" / "h100x8.dsl"))
    other = machine_of(switched("H20"))
    assert known is not None and other is not None
    of_known, of_other = (band_of(machine, "allreduce", 1 << 30) for machine in (known, other))
    assert of_other.high / of_other.low > of_known.high / of_known.low
