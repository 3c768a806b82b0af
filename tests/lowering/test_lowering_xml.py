"""The bytes of MSCCL XML: golden files for tiny programs, and the rules of the hand-written readers."""

from __future__ import annotations

import re
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
STEP = ["s", "type", "srcbuf", "srcoff", "dstbuf", "dstoff", "cnt", "depid", "deps", "hasdep"]
ALGO = ["name", "proto", "nchannels", "nchunksperloop", "ngpus", "coll", "inplace", "outofplace"]
ALGO += ["minBytes", "maxBytes"]


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


@pytest.mark.parametrize(
    ("graph", "name"), [("h4p8", "allreduce"), ("dgx1", "alltoall"), ("ring8", "scatter"), ("star5", "reduce")]
)
def test_lexical_rules(graph: str, name: str) -> None:
    """One element a line, double quotes, single spaces, decimals, every attribute, at most 16 of them."""
    text = write_msccl_xml(program(graph, name, chunks=2)).decode("ascii")
    lines = text.splitlines()
    assert text.endswith("</algo>\n") and "\t" not in text and "\r" not in text and "'" not in text
    for line in lines:
        assert re.fullmatch(r' *<[a-z]+( [A-Za-z_]+="[A-Za-z0-9_.-]+")+/?>| *</[a-z]+>', line), line
        values = re.findall(r'"([^"]*)"', line)
        assert len(values) <= 16
        assert all(re.fullmatch(r"0|-1|[1-9][0-9]*|[A-Za-z].*", value) for value in values), line
    steps = [line for line in lines if line.lstrip().startswith("<step")]
    assert steps and all(re.findall(r' ([A-Za-z]+)="', line) == STEP for line in steps)
    found = re.findall(r' ([A-Za-z]+)="', lines[0])
    assert found == ALGO + (["root"] if name in ("scatter", "reduce") else [])
    channels = {int(c) for c in re.findall(r'chan="(\d+)"', text)}
    assert f'nchannels="{max(channels) + 1}"' in lines[0]


@pytest.mark.parametrize("name", ["", "a b", 'a"b', "a&amp;", "é", "x" * 64, "a\n", "<a>", "a=b", "a/b"])
def test_names_the_readers_could_misread(name: str) -> None:
    with pytest.raises(HetesynthError) as caught:
        write_msccl_xml(replace(program("pair", "allgather"), name=name))
    assert caught.value.code == "HS506" and caught.value.exit_code == 2
    assert caught.value.render().isprintable() or "\n  help" in caught.value.render()
