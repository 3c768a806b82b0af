"""hwloc's XML as its versions write it: types of devices, links to CPUs, what AMD's two libraries tell of xGMI."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from hetesynth.errors import HetesynthError
from hetesynth.topology.importers.gpu_models import cpu_rate
from hetesynth.topology.importers.hwloc import read_hwloc
from hetesynth.topology.importers.machine import Machine
from hetesynth.topology.importers.reading import ReadOptions, Source

GIGA = 10**9


def matrix(name: str, objects: Sequence[str], values: Sequence[Sequence[int]]) -> str:
    """As hwloc cuts it: ten words a line."""
    words = [str(value) for row in values for value in row]
    lines = [words[i : i + 10] for i in range(0, len(words), 10)]
    cut = "".join(f'<u64values length="1">{" ".join(line)} </u64values>' for line in lines)
    types = {word.partition(":")[0] for word in objects}
    if len(types) > 1:
        head = f'<distances2hetero nbobjs="{len(objects)}" kind="25" name="{name}">'
        return f'{head}<indexes length="1">{" ".join(objects)} </indexes>{cut}</distances2hetero>'
    bare = " ".join(word.partition(":")[2] for word in objects)
    head = f'<distances2 type="OSDev" nbobjs="{len(objects)}" kind="25" name="{name}" indexing="gp">'
    return f'{head}<indexes length="1">{bare} </indexes>{cut}</distances2>'


def server(pci: str, gpus: int, osdev: str, matrices: str, version: str = "2.0", nics: str = "") -> Machine:
    devices = "".join(
        f'<object type="PCIDev" gp_index="{10 + i}" pci_busid="0000:{i + 1:02x}:00.0" pci_type="0302 [{pci}] '
        f'[0000:0000] a1 00" pci_link_speed="31.5">'
        f'<object type="OSDev" gp_index="{100 + i}" name="{osdev}{i}"/></object>'
        for i in range(gpus)
    )
    text = (
        f'<?xml version="1.0"?><!DOCTYPE topology SYSTEM "hwloc2.dtd"><topology version="{version}">'
        f'<object type="Machine" gp_index="1"><info name="Architecture" value="ppc64le"/>'
        f'<object type="Package" gp_index="3"><object type="Bridge" bridge_type="0-1">{devices}{nics}</object>'
        f"</object></object>{matrices}</topology>"
    )
    (machine,) = read_hwloc(Source("x", text.encode()), ReadOptions()).machines
    return machine


def links(machine: Machine) -> dict[tuple[int, int], int]:
    return {(link.a, link.b): link.count for link in machine.links}


@pytest.mark.parametrize(
    ("version", "ethernet", "infiniband"), [("2.0", "2", "3"), ("3.0", "16", "48"), ("3.0", "16", "32")]
)
def test_types_of_devices_are_those_of_the_version(version: str, ethernet: str, infiniband: str) -> None:
    """In format 3 they are bits; there 3 is storage and memory, no NIC."""
    nic = (
        '<object type="PCIDev" gp_index="60" pci_busid="0000:09:00.0"'
        ' pci_type="0207 [15b3:1021] [0000:0000] 00 00">'
        f'<object type="OSDev" name="ib0" osdev_type="{ethernet}"/>'
        f'<object type="OSDev" name="mlx5_0" osdev_type="{infiniband}"/>'
        f'<object type="OSDev" name="disk" osdev_type="{"0" if version == "2.0" else "3"}"/></object>'
    )
    assert [nic.name for nic in server("10de:2330", 1, "nvml", "", version, nic).nics] == ["mlx5_0"]


def test_links_to_cpus_are_no_switch_and_old_links_carry_20_gb() -> None:
    """Two P100 of a POWER server: two links to each other and two to the CPU."""
    rows = [[1000000, 40000, 40000], [40000, 1000000, 40000], [40000, 40000, 1000000]]
    machine = server(
        "10de:15f9", 2, "nvml", matrix("NVLinkBandwidth", ["OSDev:100", "OSDev:101", "Package:3"], rows)
    )
    assert machine.ports == () and links(machine) == {(0, 1): 2}
    assert machine.links[0].rate == 20 * GIGA and {gpu.model for gpu in machine.gpus} == {"P100"}
    assert cpu_rate("", "ppc64le", 0) == 32 * GIGA


def test_xgmi_is_refused() -> None:
    """What hwloc tells of it depends on the library that it was built with."""
    rows = [[1000000, 100000], [100000, 1000000]]
    with pytest.raises(HetesynthError) as caught:
        server("1002:74a1", 2, "rsmi", matrix("XGMIBandwidth", ["OSDev:100", "OSDev:101"], rows))
    assert caught.value.code == "HS733" and "amd-smi" in caught.value.help
