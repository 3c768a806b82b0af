"""rocm-smi and amd-smi: weights and bandwidths decide, hops do not; what they do not tell is asked for."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
from importers.tool_outputs import amd_smi, rocm_smi

from hetesynth.errors import HetesynthError
from hetesynth.topology.importers.amd_smi import read_amd_smi
from hetesynth.topology.importers.machine import Machine
from hetesynth.topology.importers.reading import ReadOptions, Source, format_of

GIGA = 10**9
PAIRS = [[0, 4, 2, 0], [4, 0, 0, 1], [2, 0, 0, 4], [0, 1, 4, 0]]


def machine(text: str, model: str = "MI300X", nic_rate: Fraction | None = None) -> Machine:
    source = Source("topo", text.encode())
    assert format_of(source) == "amd-smi"
    return read_amd_smi(source, ReadOptions(nic_rate=nic_rate, model=model)).machines[0]


def counts(it: Machine) -> dict[tuple[int, int], int]:
    return {(link.a, link.b): link.count for link in it.links}


def test_bandwidths_give_the_number_of_links() -> None:
    it = machine(json.dumps(amd_smi(PAIRS)), "MI250X")
    assert counts(it) == {(0, 1): 4, (0, 2): 2, (1, 3): 1, (2, 3): 4}
    assert {link.rate for link in it.links} == {Fraction(50 * GIGA)} and it.gpus[3].place.bus == "0000:03:00.0"
    assert len(it.cpus) == 1, "pairs two hops apart meet over PCIe"


def test_the_older_layout_says_the_same() -> None:
    newer = amd_smi(PAIRS)
    older = []
    for entry in newer:
        links = entry["links"]
        assert isinstance(links, list)
        columns = {"weight": "weight", "hops": "num_hops", "link_type": "link_type", "numa_bandwidth": "bandwidth"}
        tables = {old: {f"gpu_{link['gpu']}": link[new] for link in links} for old, new in columns.items()}
        older.append({"gpu": entry["gpu"], "bdf": entry["bdf"], **tables})
    assert machine(json.dumps(older), "MI250X") == machine(json.dumps(newer), "MI250X")


def test_pcie_boxes_meet_at_their_cpus() -> None:
    it = machine(rocm_smi([[0, 40], [40, 0]], [0, 1]), nic_rate=Fraction(25 * GIGA))
    assert it.links == () and [gpu.place.parent for gpu in it.gpus] == ["cpu0", "cpu1"]
    assert [nic.place.parent for nic in it.nics] == ["cpu0", "cpu1"] and it.between == 16 * GIGA


@pytest.mark.parametrize(
    ("text", "model", "code", "words"),
    [
        (json.dumps(amd_smi(PAIRS)), "", "HS733", "--model"),
        (json.dumps(amd_smi(PAIRS)), "H100", "HS733", "--model"),
        (rocm_smi([[0, 15], [15, 0]], [0, 0]), "MI250X", "HS733", "amd-smi topology --json"),
        (json.dumps(amd_smi(PAIRS)).replace("50000-200000", "50000-199999"), "MI250X", "HS732", "whole"),
        (rocm_smi([[0, 15], [30, 0]], [0, 0]), "MI300X", "HS732", "whole"),
        (
            rocm_smi([[0, 15], [15, 0]], [0, 0]).replace("Weight between", "Color between"),
            "MI300X",
            "HS732",
            "whole",
        ),
        (json.dumps(amd_smi(PAIRS)[:1] + amd_smi(PAIRS)[:1]), "MI300X", "HS732", "one server"),
        (json.dumps(amd_smi(PAIRS)[:1]) + "]", "MI300X", "HS732", "whole"),
    ],
)
def test_what_cannot_be_told_is_refused_with_a_way_out(text: str, model: str, code: str, words: str) -> None:
    with pytest.raises(HetesynthError) as caught:
        read_amd_smi(Source("topo", text.encode()), ReadOptions(model=model))
    assert caught.value.code == code and words in caught.value.help
