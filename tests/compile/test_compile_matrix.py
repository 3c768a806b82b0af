"""The whole compiler on real topology files: every collective, both judges, in place and out of place."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hetesynth.engine.request import Request
from hetesynth.engine.synth import synthesize
from hetesynth.errors import HetesynthError, InternalError
from hetesynth.judge.msccl.judge import profile_violations, program_violations
from hetesynth.judge.msccl.reader import read_program
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.collective import COLLECTIVE_NAMES, CollectiveName
from hetesynth.model.problem import Budget
from hetesynth.programs.layout import in_place_supported

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
CLUSTERS = ("h20_4p8", "fig10", "dgx1", "ring8")


def request(cluster: str, name: CollectiveName, chunks: int = 1) -> Request:
    topology = EXAMPLES / cluster / "topo.dsl"
    return Request(topology, name, chunks=chunks, strategy="greedy", budget=Budget(effort=1.0))


@pytest.mark.parametrize("name", COLLECTIVE_NAMES)
@pytest.mark.parametrize("cluster", CLUSTERS)
def test_every_collective_becomes_programs_that_both_judges_pass(cluster: str, name: CollectiveName) -> None:
    made = synthesize(request(cluster, name))
    assert schedule_violations(made.problem, made.solution.schedule) == []
    assert set(made.programs) == ({".xml", ".inplace.xml"} if in_place_supported(name) else {".xml"})
    links = {(arc.src, arc.dst) for arc in made.problem.arcs}
    for suffix, data in made.files.items():
        if not suffix.endswith(".xml"):
            continue
        read = read_program(data, f"x{suffix}")
        assert read.program is not None
        assert read.program.in_place == (suffix == ".inplace.xml") != read.program.out_of_place
        assert program_violations(read, links=links) == []
        assert profile_violations(read) == []


@pytest.mark.parametrize("name", ["reducescatter", "reduce", "allreduce"])
def test_exclusion_in_the_program_only_never_takes_more_steps(name: CollectiveName) -> None:
    """Eq. 8 as a law of the schedule, or only as an order of the program: the second is no longer."""
    wanted = request("h20_4p8", name)
    strict = synthesize(replace(wanted, exclusion="step"))
    loose = synthesize(replace(wanted, exclusion="program"))
    assert loose.solution.schedule.makespan <= strict.solution.schedule.makespan
    assert strict.problem.exclusive_reduction and not loose.problem.exclusive_reduction


def test_a_wrong_program_is_our_bug_and_nothing_is_returned(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the emitter writes is read back and executed: a byte changed on the way is found."""
    from hetesynth.programs.msccl import xml_writer as msccl_xml

    write = msccl_xml.write_msccl_xml

    def wrong(program: object, target: object) -> bytes:
        data: bytes = write(program, target)  # type: ignore[arg-type]
        return data.replace(b'dstoff="3"', b'dstoff="2"', 1)

    monkeypatch.setattr(msccl_xml, "write_msccl_xml", wrong)
    with pytest.raises(InternalError, match="does not verify"):
        synthesize(request("h20_4p8", "allgather"))


def test_one_gpu_has_nothing_to_communicate(tmp_path: Path) -> None:
    topology = tmp_path / "one.dsl"
    topology.write_text("node n {\n  gpus 1\n}\ncluster one {\n  instance a = n\n}\n")
    with pytest.raises(HetesynthError) as caught:
        synthesize(Request(topology, "allgather"))
    assert caught.value.exit_code == 2
