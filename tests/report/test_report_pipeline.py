"""What a report says, held against what it is about; and the options that write it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from support.reports import EXAMPLES, made, report

from hetesynth.cli.main import run
from hetesynth.engine.page.report import chunks_moved, report_of_file, report_of_synthesis
from hetesynth.engine.predictors import CostOptions
from hetesynth.engine.synth import synthesize
from hetesynth.errors import HetesynthError
from hetesynth.judge.msccl.reader import read_program
from hetesynth.model.collective import COLLECTIVE_NAMES, ROOTED, CollectiveName
from hetesynth.model.runtime_costs import NCCL_TABLES
from hetesynth.report.contents import Report

TOPOLOGY = str(EXAMPLES / "h20_4p8" / "topo.dsl")


def curve(found: Report, role: str) -> list[tuple[float, ...]]:
    return [c.seconds for c in found.curves if c.role == role]


def test_no_curve_is_below_the_bound_and_the_size_is_that_of_the_chunks() -> None:
    found = report("h20_4p8")
    (bound,) = curve(found, "bound")
    for seconds in (*curve(found, "schedule"), *curve(found, "program"), *curve(found, "baseline")):
        assert all(s >= b * (1 - 1e-9) for s, b in zip(seconds, bound, strict=True))
    assert found.size == 12 * 16_000_000 and found.run is not None and found.program is not None
    at = found.sizes.index(found.size)
    assert curve(found, "schedule") == []  # whose times are not those of what is written
    assert curve(found, "program")[0][at] == found.program.timeline.makespan
    assert not curve(found, "baseline")  # without the costs of a runtime there is none to compare with
    priced = report_of_synthesis(synthesize(replace(made("h20_4p8").request, runtime=NCCL_TABLES)))
    assert [c.name for c in priced.curves if c.role == "baseline"] == ["NCCL, expected"]


def test_the_certificate_says_what_was_proved() -> None:
    found, solved = report("h20_4p8"), made("h20_4p8").solution
    said = " ".join(found.certificate)
    assert f"takes {solved.certificate.steps} steps" in said and solved.bound.proof in said
    assert ("proven optimal" in said) == solved.certificate.proven_optimal and "rechecked" in said
    gap = made("h20_4p8", "allgather", "ring").solution.certificate.gap
    said = " ".join(report("h20_4p8", "allgather", "ring").certificate)
    assert gap > 0 and f"at most {gap} step" in said and "proven optimal" not in said


@pytest.mark.parametrize("name", [name for name in COLLECTIVE_NAMES if name != "allgather"])
def test_every_collective_has_a_report(name: CollectiveName) -> None:
    wanted = replace(made("ring8").request, collective=name, root=1 if name in ROOTED else None, strategy="greedy")
    found = report_of_synthesis(synthesize(wanted))
    assert found.run is not None and found.program is not None
    assert all(bool(x.chunks) == (x.operation not in ("cpy", "re", "nop")) for x in found.program.steps)


def test_a_program_is_reported_with_the_steps_it_implies(tmp_path: Path) -> None:
    path = tmp_path / "p.xml"
    path.write_bytes(made("h20_4p8").files[".xml"])
    found = report_of_file(path, Path(TOPOLOGY), (1_000_000, 192_000_000, 10**9), CostOptions())
    assert found.run is not None and found.program is not None
    assert found.size == 192_000_000 and not curve(found, "schedule")
    assert len(found.run.schedule.transfers) == len(made("h20_4p8").solution.schedule.transfers)
    assert found.program.timeline.makespan == report("h20_4p8").program.timeline.makespan  # type: ignore[union-attr]
    program = read_program(path.read_bytes(), "p.xml").program
    assert program is not None and any(chunks_moved(program).values())
    assert not any(chunks_moved(replace(program, chunks_per_loop=13)).values())  # it cannot be followed


def test_synth_and_simulate_write_pages_traces_and_pictures(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page, trace, picture, stem = (tmp_path / name for name in ("r.html", "t.json", "r.svg", "x"))
    topology = str(EXAMPLES / "fig10" / "topo.dsl")
    arguments = ["synth", topology, "--coll", "allgather", "--strategy", "greedy", "-o", str(stem), "--json"]
    assert run([*arguments, "--report", str(page), "--trace", str(trace)]) == 0
    assert {str(page), str(trace)} <= set(json.loads(capsys.readouterr().out)["outputs"])
    assert page.read_bytes().startswith(b"<!doctype html>") and json.loads(trace.read_text())["traceEvents"]
    first = page.read_bytes()
    assert run([*arguments, "--report", str(page)]) == 0
    assert page.read_bytes() == first
    simulated = ["simulate", f"{stem}.schedule.json", topology, "--size", "1MB", "--report", str(picture)]
    assert run(simulated) == 0
    ElementTree.fromstring(picture.read_text())


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--report", "none/r.html"], "HS571"),
        (["--trace", "."], "HS571"),
        (["--report", "a", "--trace", "./a"], "HS570"),
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


def test_what_is_too_large_is_refused_or_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    solved = made("h20_4p8")
    monkeypatch.setattr("hetesynth.engine.page.report.MAX_TRANSFERS", 131)
    with pytest.raises(HetesynthError, match="132, at most 131"):
        report_of_synthesis(solved)
