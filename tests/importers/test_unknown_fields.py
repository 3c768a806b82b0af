"""Fields that no reader knows change nothing: releases of every tool add some."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from copy import deepcopy
from fractions import Fraction
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml
from importers import tool_outputs as outputs
from importers.test_printed_trees import box, printed
from support.topology_files import switched

from hetesynth.topology.import_topology import ImportTopologyRequest, import_topology
from hetesynth.topology.importers.reading import FORMAT_NAMES, ReadOptions, Source

NIC = Fraction(10**11, 8)
VALUES: tuple[Any, ...] = (-1, 0, None, "", "x", [1], {"a": "b"})
EDGES = {
    "name": "two",
    "nodes": [{"id": i, "type": "gpu", "server": 0} for i in range(2)],
    "links": [{"src": a, "dst": 1 - a, "GBps": 50} for a in range(2)],
    "groups": [{"name": "g", "GBps": 40, "edges": [[0, 1]]}],
}
PAIR = outputs.amd_smi([[0, 1], [1, 0]])
SIZES = [[0 if i == j else 15 for j in range(4)] for i in range(4)]
TABLE = outputs.topo_m(2, ["NIC0"], lambda a, b: "NV12" if a[0] == b[0] else "PIX", "01")
AMD = {"model": "MI300X", "nic_rate": NIC}
HOSTS = {"node_type": "h20x8", "uplink": NIC}


def with_fields(value: Any, added: Any, *, first: bool) -> Any:
    """The value with a field more in each of its objects, before the others or behind them."""
    if isinstance(value, list):
        return [with_fields(item, added, first=first) for item in value]
    if not isinstance(value, dict):
        return value
    own = {key: with_fields(item, added, first=first) for key, item in value.items()}
    new = {"field_to_come": deepcopy(added)}
    return new | own if first else own | new


def in_json(text: str) -> list[str]:
    value = json.loads(text)
    return [json.dumps(with_fields(value, each, first=first)) for each in VALUES for first in (False, True)]


def in_yaml(text: str) -> list[str]:
    value = yaml.safe_load(text)
    values = [with_fields(value, each, first=first) for each in VALUES for first in (False, True)]
    return [yaml.safe_dump(each, sort_keys=False) for each in values]


def in_xml(text: str) -> list[str]:
    """With attributes, and with elements before and behind the others."""
    changed = []
    for value in ("-1", "0", "", "x"):
        attributes, before, behind = (ElementTree.fromstring(text) for _ in range(3))
        for element in attributes.iter():
            element.set("attribute_to_come", value)
        for root, at in ((before, 0), (behind, 10**6)):
            for element in list(root.iter()):
                element.insert(at, ElementTree.Element("element_to_come", {"name": value}))
        changed += [ElementTree.tostring(root, "unicode") for root in (attributes, before, behind)]
    return changed


def behind_lines(*words: str, mark: str) -> Callable[[str], list[str]]:
    """With words at the end of each line that has ``mark``."""

    def changed(text: str) -> list[str]:
        lines = text.split("\n")
        return ["\n".join(line + word if mark in line else line for line in lines) for word in words]

    return changed


def tables(text: str) -> list[str]:
    """With a table that the reader does not know, in front and behind."""
    other = f"{'=' * 20} Coherence between two GPUs {'=' * 20}\n       GPU0  GPU1\nGPU0   C  NC\nGPU1   NC  C\n"
    return [f"{text}\n{other}", f"{other}\n{text}"]


def notes(text: str) -> list[str]:
    return [f"{text}\nSETTING TO COME: 1\n", f"Version to come: 1\n{text}"]


HWLOC = outputs.HWLOC.partition("?>")[2].replace('<!DOCTYPE topology SYSTEM "hwloc2.dtd">', "").strip()
READERS: dict[str, tuple[str, str, Callable[[str], list[str]], Mapping[str, Any]]] = {
    "NCCL": ("nccl", switched().decode(), in_xml, {}),
    "hwloc": ("hwloc", HWLOC, in_xml, {"nic_rate": NIC}),
    "amd-smi": ("amd-smi", json.dumps(PAIR), in_json, AMD),
    "amd-smi, an object": ("amd-smi", json.dumps({"topology": PAIR}), in_json, AMD),
    "rocm-smi": ("amd-smi", outputs.rocm_smi(SIZES, [0, 0, 1, 1]), tables, AMD),
    "nvidia-smi": ("nvidia-smi", TABLE + outputs.listed(2, "NVIDIA A100-SXM4-80GB"), notes, {"nic_rate": NIC}),
    "edge list": ("edges", json.dumps(EDGES), in_json, {}),
    "TACCL": ("taccl", outputs.TACCL_MATRICES, in_json, {}),
    "topology.conf": ("slurm", outputs.SLURM_CONF, behind_lines(" ToCome=1", ' Other="a b"', mark="Name="), HOSTS),
    "topology.yaml": ("slurm-yaml", outputs.SLURM_YAML, in_yaml, HOSTS),
    "topograph": ("topograph", outputs.TOPOGRAPH, in_yaml, HOSTS),
    "topograph before": ("topograph", outputs.TOPOGRAPH_LISTS, in_yaml, HOSTS),
    "ibnetdiscover": ("ibnetdiscover", outputs.IB_FABRIC, behind_lines(" width 4", " to=come", mark='"'), HOSTS),
    "NCCL's log": ("nccl-log", printed(box(["370.8"] * 8)), behind_lines(" (9)", mark="NVS"), {}),
    "ASTRA-sim": ("astra-sim", outputs.ASTRA, in_yaml, {}),
    "ns-3": ("ns3", outputs.SIMAI, lambda text: [f"{text}\n"], {}),  # numbers alone: there are no fields
}


def statements(format_name: str, text: str, options: Mapping[str, Any]) -> list[str]:
    """What is made of a file that is recognized, without comments."""
    source = Source("file", text.encode())
    result = import_topology(ImportTopologyRequest((), options=ReadOptions(**options), sources=((source, 1),)))
    assert result.formats == (format_name,)
    return [line for line in result.text.splitlines() if not line.lstrip().startswith("#")]


@pytest.mark.parametrize("reader", READERS)
def test_fields_to_come_change_nothing(reader: str) -> None:
    format_name, text, changes, options = READERS[reader]
    expected = statements(format_name, text, options)
    for changed in changes(text):
        assert changed != text
        assert statements(format_name, changed, options) == expected, changed[:300]


def test_every_reader_is_tried() -> None:
    assert {format_name for format_name, *_ in READERS.values()} == set(FORMAT_NAMES)
