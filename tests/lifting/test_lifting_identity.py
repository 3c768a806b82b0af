"""XML -> program -> XML is the identity on our own files, for every target that reads XML."""

from __future__ import annotations

import pytest
from support.lowering_cases import GRAPHS, case

from hetesynth.errors import HetesynthError
from hetesynth.judge.msccl.reader import read_program
from hetesynth.model.collective import COLLECTIVE_NAMES, CollectiveName
from hetesynth.model.target import TARGETS, Target
from hetesynth.programs.layout import in_place_supported
from hetesynth.programs.msccl.lower import LoweringOptions, lower
from hetesynth.programs.msccl.xml_writer import write_msccl_xml

XML = [t for t in TARGETS.values() if not t.format.plan]
SMALL = tuple(g for g in GRAPHS if g not in ("dgx1", "h4p8", "ring8"))


def written(graph: str, name: CollectiveName, target: Target, in_place: bool, **sizes: int) -> bytes:
    problem, schedule = case(graph, name, 2)
    options = LoweringOptions("x", in_place=in_place, target=target, **sizes)
    return write_msccl_xml(lower(problem, schedule, options), target)


@pytest.mark.parametrize("target", XML, ids=lambda t: t.name)
@pytest.mark.parametrize("name", COLLECTIVE_NAMES)
def test_what_is_read_is_written_again(name: CollectiveName, target: Target) -> None:
    checked = 0
    for graph in SMALL:
        for in_place in (False, True)[: 1 + in_place_supported(name)]:
            try:
                data = written(graph, name, target, in_place)
            except HetesynthError as error:  # a graph too large for the target
                assert error.code in ("HS501", "HS502", "HS503", "HS504")
                continue
            program = read_program(data, "x.xml").program
            assert program is not None and write_msccl_xml(program, target) == data
            checked += 1
    assert checked >= len(SMALL)
