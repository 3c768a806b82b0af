"""Tables of nvidia-smi against what they say by hand, and real files against a count of their cells."""

from __future__ import annotations

import os
import re
from fractions import Fraction
from pathlib import Path

import pytest
from importers.tool_outputs import listed, nvlink_s, topo_m

from hetesynth.errors import HetesynthError
from hetesynth.topology.import_topology import ImportedTopology, ImportTopologyRequest, import_topology
from hetesynth.topology.importers.machine import Machine
from hetesynth.topology.importers.nvidia_smi import read_nvidia_smi
from hetesynth.topology.importers.reading import ReadOptions, Source

ROOT = Path(__file__).resolve().parents[2]
REAL = Path(os.environ.get("HETESYNTH_CONFORMANCE", ROOT.parent / "shared" / "data")) / "smi"
NIC = Fraction(50 * 10**9)
GIGA = 10**9


def machines(*texts: str, model: str = "", calibration: str = "spec") -> tuple[Machine, ...]:
    options = ReadOptions(calibration, NIC, model)  # type: ignore[arg-type]
    return read_nvidia_smi([Source(f"{i}.txt", text.encode()) for i, text in enumerate(texts)], options).machines


def doubts(machine: Machine) -> list[str]:
    return [remark.text for remark in machine.remarks if remark.kind == "suspicious"]


def switched(links: int, pix: dict[str, str]) -> str:
    """Eight GPUs on NVSwitches, with the NICs of ``pix`` next to the GPUs that it names."""
    nics = list(dict.fromkeys(pix.values()))

    def cell(one: str, other: str) -> str:
        if one[:3] == other[:3] == "GPU":
            return f"NV{links}"
        return "PIX" if pix.get(one) == other or pix.get(other) == one else "SYS"

    return topo_m(8, nics, cell, ["0"] * 4 + ["1"] * 4)


CUT_SHORT = re.sub(r"^(GPU7|NIC0) .*\n", "", switched(18, {"GPU7": "NIC0"}), flags=re.MULTILINE)


def test_equal_numbers_past_what_a_gpu_has_are_of_a_switch() -> None:
    (machine,) = machines(switched(18, {f"GPU{i}": f"NIC{i}" for i in range(8)}), model="H100")
    assert [machine.links_of(i) for i in range(8)] == [18] * 8 and machine.links == ()
    assert {port.rate for port in machine.ports} == {Fraction(25 * GIGA)}
    assert [nic.gpus for nic in machine.nics] == [(i,) for i in range(8)]


def test_four_gpus_with_all_their_links_to_each_other_are_a_mesh() -> None:
    """HGX A100 with four GPUs: three peers with four of twelve links each."""
    (machine,) = machines(topo_m(4, [], lambda a, b: "NV4"), model="A100")
    assert machine.ports == () and {(link.a, link.b): link.count for link in machine.links} == {
        (a, b): 4 for a in range(4) for b in range(a + 1, 4)
    }
    (machine,) = machines(topo_m(4, [], lambda a, b: "NV6"), model="V100")
    assert len(machine.ports) == 4, "eighteen links are more than a V100 has"


def test_the_same_table_in_every_spelling_is_the_same_machine() -> None:
    nics = ["mlx5_0", "mlx5_1"]

    def cell(one: str, other: str) -> str:
        return "NV18" if one[:3] == other[:3] == "GPU" else "PIX" if one[-1] == other[-1] else "SYS"

    plain = topo_m(2, nics, cell, ["0", "1"])
    spellings = [
        topo_m(2, nics, cell, ["0", "1"], tabs=True),
        topo_m(2, nics, cell, ["0", "1"], tabs=True, color=True),
        plain.replace("\n", "\r\n"),
        "prose before it\n```\n" + plain.replace("    ", "  ") + "```\n",
        plain.replace("mlx5_0", "NIC0").replace("mlx5_1", "NIC1")
        + "\nNIC Legend:\n\n  NIC0: mlx5_0\n  NIC1: mlx5_1\n",
    ]
    expected = machines(plain, model="H100")
    for spelling in spellings:
        assert machines(spelling, model="H100") == expected, spelling


def test_inactive_links_make_a_port_narrower() -> None:
    table = switched(18, {})
    states = nvlink_s(8, "NVIDIA H20", 18, "26.562", [(5, 7), (5, 9)])
    for texts in ((table, states), (table + states,), (table, listed(8, "NVIDIA H20"), states)):
        (machine,) = machines(*texts)
        assert [machine.links_of(i) for i in range(8)] == [18, 18, 18, 18, 18, 16, 18, 18]
        assert any("GPU5 has 16 active NVLinks" in text for text in doubts(machine))
        assert {gpu.model for gpu in machine.gpus} == {"H20"}


def test_pcie_boxes_get_their_tree() -> None:
    near = {
        frozenset(("GPU0", "GPU1")): "PIX",
        frozenset(("GPU2", "GPU3")): "PXB",
        frozenset(("GPU2", "NIC0")): "PIX",
    }

    def cell(one: str, other: str) -> str:
        if {one, other} & {"GPU2", "GPU3", "NIC0"} and {one, other} & {"GPU0", "GPU1"}:
            return "SYS"
        return near.get(frozenset((one, other)), "PXB")

    (machine,) = machines(topo_m(4, ["NIC0"], cell), model="L40S")
    below = [gpu.place.parent for gpu in machine.gpus]
    bridges = {bridge.name: bridge.place.parent for bridge in machine.bridges}
    assert len(machine.cpus) == 2 and below[0] == below[1] and bridges[below[0]] == "cpu0"
    assert machine.nics[0].place.parent == below[2] and bridges[below[2]] == below[3]
    assert machine.between == 10 * GIGA, "of Intel's CPUs from Skylake on, beside an L40S"


@pytest.mark.parametrize(
    ("text", "model", "code", "words"),
    [
        (switched(18, {}), "", "HS733", "--model"),
        (listed(8, "NVIDIA H20"), "", "HS733", "nvidia-smi topo -m"),
        (topo_m(2, [], lambda a, b: "OK"), "L4", "HS733", "nvidia-smi topo -m"),
        ("nothing of the kind", "H20", "HS733", "nvidia-smi topo -m"),
        (CUT_SHORT, "H20", "HS732", "whole"),
        (topo_m(2, [], lambda a, b: "NV2" if a == "GPU0" else "NV4"), "V100", "HS732", "whole"),
        (topo_m(2, [], lambda a, b: "PIX" if a == "GPU0" else "SYS"), "L4", "HS732", "whole"),
        (switched(18, {}) + listed(9, "NVIDIA H20"), "", "HS732", "one server"),
        ("\x00" * 21_000, "", "HS741", "output"),
    ],
)  # fmt: skip
def test_what_cannot_be_told_is_refused_with_a_way_out(text: str, model: str, code: str, words: str) -> None:
    with pytest.raises(HetesynthError) as caught:
        machines(text, model=model)
    assert caught.value.code == code and words in caught.value.help


def imported(*names: str, model: str) -> ImportedTopology:
    files = tuple(str(REAL / name) for name in names)
    if not all(Path(file).is_file() for file in files):
        pytest.skip(f"no such files in {REAL}")
    options = ReadOptions(nic_rate=NIC, model=model)
    return import_topology(ImportTopologyRequest(files, "nvidia-smi", None, options))


@pytest.mark.parametrize(
    ("name", "model", "servers"),
    [
        ("nvsmi__2gpu_variants.txt", "RTX 3090", 2),
        ("nvsmi__dgx1_v100_mlx5_cols.txt", "V100", 1),
        ("nvsmi__gb200_4gpu_8nic.txt", "GB200", 1),
        ("nvsmi__k80_legacy_SOC_legend.txt", "K80", 1),
        ("nvsmi__a100_h100_compact_spacing.txt", "H100", 2),
    ],
)
def test_real_tables_become_clusters_with_their_counts(name: str, model: str, servers: int) -> None:
    """The cells are counted here by another way of reading: words of lines that begin with a device's name."""
    read = imported(name, model=model)
    text = (REAL / name).read_text()
    rows = [
        line.split() for line in text.splitlines() if re.match(r"\s*(GPU\d+)\s+(X|NV\d+|P..|SYS|NODE)\s", line)
    ]
    gpus = max(int(row[0][3:]) for row in rows) + 1
    assert len(rows) == gpus * servers
    sums = [sum(int(cell[2:]) for cell in row[1 : gpus + 1] if cell.startswith("NV")) for row in rows]
    whole = [max(int(cell[2:]) if cell.startswith("NV") else 0 for cell in row[1 : gpus + 1]) for row in rows]
    links = [machine.links_of(i) for machine in read.machines for i in range(len(machine.gpus))]
    assert links in (sums, whole) and read.topology.ranks == gpus * servers
    assert links == (whole if any(machine.ports for machine in read.machines) else sums)
