"""Every file of a cell says where it comes from, and every reader takes it as before."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from hetesynth.deploy.cache import CellResult
from hetesynth.deploy.compute import compute
from hetesynth.deploy.folder.cells import of_record, program_file
from hetesynth.deploy.job import job, pickled
from hetesynth.deploy.manifest.values import Cell, CellOptions
from hetesynth.judge.msccl.reader import read_program
from hetesynth.judge.mscclpp.reader import read_plan_json
from hetesynth.model.size_range import SizeRange
from hetesynth.model.target import target
from hetesynth.topology.language import load_topology

RING8 = Path(__file__).parents[2] / "examples" / "ring8" / "topo.dsl"
RANGE = SizeRange(1_000_000, 16_000_000, "1MB..16MB")


@cache
def built(runtime: str, collective="broadcast") -> CellResult:
    """A cell of ring8, made by the quickest strategy."""
    options = CellOptions(strategy="greedy", seed=7, effort=0.5, single_root=True)
    cell = Cell("ring8", collective, 1, runtime, options)
    return compute(job(cell, *pickled(load_topology(RING8))))


@pytest.mark.parametrize("runtime", ["rccl-6", "msccl", "mscclpp"])
def test_every_file_names_key_options_and_versions(runtime: str) -> None:
    result = built(runtime)
    assert len(result.files) == 3
    for name, data in result.files.items():
        text = data.decode()
        assert result.key in text, name
        assert result.record["topology_sha256"] in text
        assert '"seed": 7' in text and '"effort": 0.5' in text and '"z3-solver"' in text


@pytest.mark.parametrize("runtime", ["rccl-6", "msccl", "mscclpp"])
def test_the_record_says_what_runtimes_select_by(runtime: str) -> None:
    result = built(runtime)
    assert [row["in_place"] for row in result.record["programs"]] == [False, True]
    for row in result.record["programs"]:
        stated = of_record(row)
        assert stated == program_file(stated.name, result.files[stated.name], target(runtime), 0)
        data = result.files[stated.name]
        if runtime == "mscclpp":
            plan = read_plan_json(data)
            assert (stated.title, stated.min_bytes) == (plan.name, plan.min_bytes)
            assert (stated.in_place, stated.out_of_place) == (plan.in_place, not plan.in_place)
            assert all(stated.input_chunks % gpu.input_chunks == 0 for gpu in plan.gpus)
        else:
            program = read_program(data, stated.name).program
            assert program is not None
            assert (stated.channels, stated.chunks) == (program.channels, program.chunks_per_loop)
            assert stated.max_bytes == 0 and program.max_bytes == target(runtime).open_max_bytes
