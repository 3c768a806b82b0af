"""The bytes of MSCCL XML: golden files for tiny programs, and the rules of the hand-written readers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.lowering_cases import case

from hetesynth.errors import HetesynthError
from hetesynth.model.program import Program
from hetesynth.programs.msccl.lower import LoweringOptions, lower
from hetesynth.programs.msccl.xml_writer import write_msccl_xml

HERE = Path(__file__).parent / "golden"


def program(graph: str, name: str, in_place: bool = False, chunks: int = 1) -> Program:
    problem, schedule = case(graph, name, chunks)
    return lower(problem, schedule, LoweringOptions(f"{name}_{graph}", in_place))


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize(
    ("graph", "name"), [("pair", "allgather"), ("full3", "allreduce"), ("line3", "alltoall"), ("one", "allreduce")]
)
def test_golden(golden: Callable[[Path, bytes], None], graph: str, name: str, in_place: bool) -> None:
    where = "in_place" if in_place else "out_of_place"
    golden(HERE / f"{name}_{graph}_{where}.xml", write_msccl_xml(program(graph, name, in_place)))


@pytest.mark.parametrize("name", ["", "a b", 'a"b', "a&amp;", "é", "x" * 64, "a\n", "<a>", "a=b", "a/b"])
def test_names_the_readers_could_misread(name: str) -> None:
    with pytest.raises(HetesynthError) as caught:
        write_msccl_xml(replace(program("pair", "allgather"), name=name))
    assert caught.value.code == "HS506" and caught.value.exit_code == 2
    assert caught.value.render().isprintable() or "\n  help" in caught.value.render()
