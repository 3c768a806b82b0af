"""A reader of a tool's output reads what it is given or refuses it with a code: no traceback, no hang."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import pytest
from importers.test_printed_trees import box, printed
from importers.tool_outputs import (
    ASTRA,
    HWLOC,
    IB_FABRIC,
    NS3,
    SIMAI,
    SLURM_CONF,
    SLURM_SEVERAL,
    SLURM_YAML,
    TACCL_MATRICES,
    TACCL_NDV2,
    TOPOGRAPH,
    TOPOGRAPH_LISTS,
    amd_smi,
    mutated,
    random_table,
    rocm_smi,
)
from support.topology_files import mutated as mutated_file
from support.topology_files import pcie_only, random_edges, random_system, switched

from hetesynth.errors import HetesynthError
from hetesynth.topology.import_topology import ImportTopologyRequest, import_topology
from hetesynth.topology.importers.reading import ReadOptions, Source, read_as

OPTIONS = ReadOptions(nic_rate=Fraction(50 * 10**9))


def random_amd(rng: random.Random) -> str:
    size = rng.choice((1, 2, 4))
    counts = [[0 if i == j else rng.choice((0, 1, 2, 4)) for j in range(size)] for i in range(size)]
    symmetric = [[counts[min(i, j)][max(i, j)] for j in range(size)] for i in range(size)]
    if rng.random() < 0.5:
        return json.dumps(amd_smi(symmetric), indent=1)
    weights = [[0 if i == j else rng.choice((15, 30, 40)) for j in range(size)] for i in range(size)]
    return rocm_smi([[weights[min(i, j)][max(i, j)] for j in range(size)] for i in range(size)], [0] * size)


SOURCES: dict[str, tuple[str, Callable[[random.Random], str]]] = {
    "nvidia-smi": ("H100", random_table),
    "nccl-log": ("H100", lambda rng: printed(box(["370.8"] * rng.choice((2, 8))), rng.choice(("2.18", "2.30")))),
    "amd-smi": ("MI300X", random_amd),
    "slurm": ("", lambda rng: SLURM_CONF),
    "slurm-yaml": ("", lambda rng: rng.choice((SLURM_YAML, SLURM_SEVERAL))),
    "ibnetdiscover": ("", lambda rng: IB_FABRIC),
    "hwloc": ("", lambda rng: HWLOC),
    "astra-sim": ("", lambda rng: ASTRA),
    "ns3": ("", lambda rng: rng.choice((NS3, SIMAI))),
    "taccl": ("", lambda rng: rng.choice((TACCL_NDV2, TACCL_MATRICES))),
    "topograph": ("", lambda rng: rng.choice((TOPOGRAPH, TOPOGRAPH_LISTS))),
}


def fuzz(name: str, count: int, seed: int) -> tuple[int, int]:
    """(how many were read, how many refused) of ``count`` inputs; half of them mutated."""
    model, source = SOURCES[name]
    options = ReadOptions(nic_rate=OPTIONS.nic_rate, model=model)
    rng = random.Random(seed)
    outcomes = [0, 0]
    for number in range(count):
        text = source(rng)
        if number % 4:
            text = mutated(text, rng)
        try:
            read_as(name, [Source("fuzz", text.encode("utf-8", "surrogatepass"))], options)
            outcomes[0] += 1
        except HetesynthError as error:
            assert error.code in ("HS732", "HS733", "HS741") and error.message and error.help, text
            outcomes[1] += 1
    return outcomes[0], outcomes[1]


@pytest.mark.parametrize("name", SOURCES)
@pytest.mark.parametrize("count", [200, pytest.param(20_000, marks=pytest.mark.slow)])
def test_no_input_breaks_a_reader(name: str, count: int) -> None:
    read, refused = fuzz(name, count, 1)
    assert read > count // 30 and refused > count // 30, "the inputs are all of one kind"


def nccl(rng: random.Random) -> bytes:
    return random_system(rng) if rng.random() < 0.5 else mutated_file(rng, rng.choice([switched(), pcie_only()]))


def edges(rng: random.Random) -> bytes:
    data = random_edges(rng)
    return mutated_file(rng, data) if rng.random() < 0.2 else data


@pytest.mark.parametrize(("make", "name"), [(nccl, "a.xml"), (edges, "a.json")])
@pytest.mark.parametrize("count", [150, pytest.param(20_000, marks=pytest.mark.slow)])
def test_every_file_is_imported_or_refused(
    make: Callable[[random.Random], bytes], name: str, count: int, tmp_path: Path
) -> None:
    """With the writer behind the reader."""
    imported = 0
    for seed in range(count):
        (tmp_path / name).write_bytes(make(random.Random(seed)))
        try:
            imported += import_topology(ImportTopologyRequest((str(tmp_path / name),))).topology.ranks > 0
        except HetesynthError as error:
            assert error.help and "bug" not in error.help, (seed, error.message)
    assert count // 20 < imported < count - count // 20
