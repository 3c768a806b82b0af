"""What a report says, held against what it is about; and the options that write it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from support.reports import EXAMPLES, made, report

from hetesynth import api
from hetesynth.cli.main import run
from hetesynth.engine.page.report import baseline_curves, report_of_file, report_of_synthesis
from hetesynth.engine.page.report_blocks import chunks_moved
from hetesynth.engine.predictors import CostOptions
from hetesynth.engine.synth import synthesize
from hetesynth.errors import HetesynthError
from hetesynth.judge.msccl.reader import read_program
from hetesynth.model.collective import COLLECTIVE_NAMES, ROOTED, CollectiveName
from hetesynth.report.contents import Report
from hetesynth.search.collectives import collective

TOPOLOGY = str(EXAMPLES / "h20_4p8" / "topo.dsl")


def curve(found: Report, role: str) -> list[tuple[float, ...]]:
    return [c.seconds for c in found.curves if c.role == role]


def test_no_curve_is_below_the_bound() -> None:
    found = report("h20_4p8")
    (bound,) = curve(found, "bound")
    for seconds in (*curve(found, "schedule"), *curve(found, "program"), *curve(found, "baseline")):
        assert all(s >= b * (1 - 1e-9) for s, b in zip(seconds, bound, strict=True))


def test_the_size_is_that_of_the_chunks_and_is_on_the_curves() -> None:
    found = report("h20_4p8")
    assert found.size == 12 * 16_000_000 and found.size in found.sizes
    assert found.run is not None and found.program is not None
    at = found.sizes.index(found.size)
    assert curve(found, "schedule")[0][at] == found.run.timeline.makespan
    assert curve(found, "program")[0][at] == found.program.timeline.makespan


def test_baselines_that_apply_have_curves_and_others_are_explained() -> None:
    found = report("h20_4p8")
    names = {name for c in found.curves if c.role == "baseline" for name in c.name.split(" = ")}
    assert {"NCCL's rings, program", "double-tree", "sph", "all-pairs"} <= names
    assert "doubling" not in names and any("doubling" in note for note in found.notes)


def test_the_certificate_says_what_was_proved() -> None:
    found, solved = report("h20_4p8"), made("h20_4p8").solution
    said = " ".join(found.certificate)
    assert f"takes {solved.certificate.steps} steps" in said and solved.bound.proof in said
    assert ("proven optimal" in said) == solved.certificate.proven_optimal
    assert "rechecked" in said and "not measured" in said and "No schedule, however fine its chunks" in said


def test_a_gap_is_not_called_optimal() -> None:
    found = report("h20_4p8", "allgather", "ring")
    gap = made("h20_4p8", "allgather", "ring").solution.certificate.gap
    said = " ".join(found.certificate)
    assert gap > 0 and f"at most {gap} steps from optimal" in said and "proven optimal" not in said


LONG = ("allreduce", "alltoall")
OTHERS = [
    pytest.param(name, marks=pytest.mark.slow if name in LONG else ())
    for name in COLLECTIVE_NAMES
    if name != "allgather"
]


@pytest.mark.parametrize("name", OTHERS)
def test_every_collective_has_a_report(name: CollectiveName) -> None:
    wanted = replace(
        made("h20_4p8").request, collective=name, root=1 if name in ROOTED else None, strategy="all-pairs"
    )
    found = report_of_synthesis(synthesize(wanted))
    shown = found.program
    assert found.run is not None and shown is not None
    assert all(bool(x.chunks) == (x.operation not in ("copy", "reduce", "nop")) for x in shown.steps)


def test_a_program_is_reported_with_the_steps_it_implies(tmp_path: Path) -> None:
    path = tmp_path / "p.xml"
    path.write_bytes(made("h20_4p8").files[".xml"])
    found = report_of_file(path, Path(TOPOLOGY), (1_000_000, 192_000_000, 10**9), CostOptions())
    assert found.run is not None and found.program is not None
    assert found.size == 192_000_000
    assert not curve(found, "schedule") and not any(name.startswith("Schedule") for name, _ in found.facts)
    assert len(found.run.schedule.transfers) == len(made("h20_4p8").solution.schedule.transfers)
    assert found.program.timeline.makespan == report("h20_4p8").program.timeline.makespan  # type: ignore[union-attr]


def test_a_program_that_cannot_be_followed_has_no_chunks() -> None:
    program = read_program(made("h20_4p8").files[".xml"], "p.xml").program
    assert program is not None and any(chunks_moved(program).values())
    assert not any(chunks_moved(replace(program, chunks_per_loop=13)).values())


def test_synth_writes_the_page_and_the_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, trace = tmp_path / "r.html", tmp_path / "t.json"
    arguments = [
        "synth",
        TOPOLOGY,
        "--coll",
        "allgather",
        "--strategy",
        "greedy",
        "-o",
        str(tmp_path / "x"),
        "--json",
    ]
    assert run([*arguments, "--report", str(page), "--trace", str(trace)]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert {str(page), str(trace)} <= set(printed["outputs"])
    assert page.read_bytes().startswith(b"<!doctype html>") and json.loads(trace.read_text())["traceEvents"]
    first = page.read_bytes()
    assert run([*arguments, "--report", str(page)]) == 0
    assert page.read_bytes() == first


def test_simulate_writes_a_page_and_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    schedule = tmp_path / "s.json"
    schedule.write_bytes(made("h20_4p8").files[".schedule.json"])
    for name in ("r.html", "r.svg"):
        assert run(["simulate", str(schedule), TOPOLOGY, "--size", "1MB", "--report", str(tmp_path / name)]) == 0
        assert str(tmp_path / name) in capsys.readouterr().out
    ElementTree.fromstring((tmp_path / "r.svg").read_text())


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--report", "none/r.html"], "HS571"),
        (["--trace", "."], "HS571"),
        (["--report", "a", "--trace", "a"], "HS570"),
    ],
)
def test_names_that_cannot_be_written_are_refused_before_the_work(
    options: list[str],
    code: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["synth", TOPOLOGY, "--coll", "allgather", *options]) == 2
    assert code in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_too_many_transfers_are_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hetesynth.engine.page.report.MAX_TRANSFERS", 131)
    with pytest.raises(HetesynthError, match="132, at most 131"):
        report_of_synthesis(made("h20_4p8"))


def test_baselines_of_large_problems_have_fewer_chunks_or_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def patched(most: int) -> CostOptions:
        monkeypatch.setattr("hetesynth.engine.page.report.MAX_BASELINE_MOVES", most)
        return CostOptions()

    problem, topology = made("h20_4p8").problem, made("h20_4p8").topology
    curves, notes = baseline_curves(topology, problem, (1000,), patched(131))
    assert [c.name for c in curves] == ["NCCL's rings, program"] and "left out" in notes[0]
    finer = replace(problem, collective=collective("allgather", 12, 2))
    curves, notes = baseline_curves(topology, finer, (1000,), patched(132))
    assert curves and notes[0] == "Baselines have 1 chunk per rank."
    _, notes = baseline_curves(topology, problem, (1000,), patched(10_000))
    assert notes[0] == "Baselines have 4 chunks per rank."  # as many channels


def test_the_same_file_by_two_names_is_refused(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    with pytest.raises(HetesynthError, match="same file"):
        api.check_places(None, (), tmp_path / "r", tmp_path / "sub" / ".." / "r")
