"""``synth --strategy cegis`` as a user sees it: what it begins with, its log, its lines in the report."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hetesynth.cli.main import run
from hetesynth.search.greedy import greedy
from hetesynth.search.smt.cegis import Checkpoints

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
Captured = pytest.CaptureFixture[str]


def topology(example: str) -> str:
    return str(EXAMPLES / example / "topo.dsl")


def cegis(example: str, collective: str, *options: str) -> list[str]:
    return ["synth", topology(example), "--coll", collective, "--strategy", "cegis", "--schedule-only", *options]


def lines(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def summary(capsys: Captured, arguments: list[str]) -> dict[str, Any]:
    code = run([*arguments, "--json"])
    shown = capsys.readouterr()
    assert code == 0, shown.err
    result: dict[str, Any] = json.loads(shown.out)
    return result


@pytest.fixture
def schedule(tmp_path: Path, capsys: Captured) -> Path:
    """A schedule of h20_4p8 that keeps every law."""
    assert run(cegis("h20_4p8", "allgather", "-o", str(tmp_path / "first"))) == 0
    capsys.readouterr()
    return tmp_path / "first.schedule.json"


def edited(schedule: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """``schedule`` with a change, as a user makes one with an editor."""
    document = json.loads(schedule.read_text())
    change(document)
    path = schedule.with_name("edited.json")
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize(("first", "actions"), [("greedy", {"seed"}), ("flood", {"seed"}), ("nothing", set())])
def test_each_named_candidate_leads_to_the_bound(
    first: str, actions: set[str], tmp_path: Path, capsys: Captured
) -> None:
    log = tmp_path / "cegis.jsonl"
    options = ("--from", first, "--log", str(log), "-o", str(tmp_path / "x"))
    result = summary(capsys, cegis("h20_4p8", "allgather", *options))
    assert result["steps"] == result["lower_bound"] == 3
    entries = lines(log)
    assert {e["action"] for e in entries} & {"seed"} == actions
    assert entries[0]["number"] > 0


def test_where_cegis_does_not_run_nothing_is_reported_and_the_log_is_empty(
    tmp_path: Path, capsys: Captured
) -> None:
    log = tmp_path / "cegis.jsonl"
    log.write_text("of an earlier run\n")
    arguments = ["synth", topology("h20_4p8"), "--coll", "allgather", "--strategy", "greedy", "--schedule-only"]
    assert run([*arguments, "--log", str(log), "-o", str(tmp_path / "x")]) == 0
    shown = capsys.readouterr()
    assert "iteration" not in shown.out
    assert "is empty: CEGIS did not run" in shown.err and log.read_bytes() == b""
    assert summary(capsys, [*arguments, "-o", str(tmp_path / "x")])["cegis"] is None


# -- a file


def everything_at_once(document: dict[str, Any]) -> None:
    document["transfers"] = [[0, 1, *row[2:]] for row in document["transfers"]]


def a_chunk_that_is_not(document: dict[str, Any]) -> None:
    document["transfers"][5][2] = 9999


def a_transfer_that_outlasts_the_bound(document: dict[str, Any]) -> None:
    document["makespan"] = 9
    document["transfers"][5][1] = 9


@pytest.mark.parametrize("change", [everything_at_once, a_chunk_that_is_not, a_transfer_that_outlasts_the_bound])
def test_a_file_that_breaks_laws_is_repaired(
    change: Callable[[dict[str, Any]], None], schedule: Path, tmp_path: Path, capsys: Captured
) -> None:
    log = tmp_path / "cegis.jsonl"
    path = edited(schedule, change)
    arguments = cegis("h20_4p8", "allgather", "--from", str(path), "--log", str(log), "-o", str(tmp_path / "x"))
    result = summary(capsys, arguments)
    assert result["steps"] == result["lower_bound"] == 3
    seed = lines(log)[0]
    assert seed["action"] == "seed" and seed["number"] > 0 and seed["checkpoint"] is not None
    simulated = ["simulate", str(tmp_path / "x.schedule.json"), topology("h20_4p8"), "--size", "1MB"]
    assert run(simulated) == 0, "its judge refuses schedules that break laws"


@pytest.mark.parametrize(
    ("example", "collective", "options", "words"),
    [
        ("fig10", "allgather", (), "ranks 12, here 6"),
        ("h20_4p8", "reducescatter", (), "collective allgather, here reducescatter"),
        ("h20_4p8", "allreduce", (), "two phases"),
    ],
)
def test_a_file_of_another_problem_is_refused(
    example: str,
    collective: str,
    options: tuple[str, ...],
    words: str,
    schedule: Path,
    tmp_path: Path,
    capsys: Captured,
) -> None:
    arguments = cegis(example, collective, *options, "--from", str(schedule), "-o", str(tmp_path / "x"))
    assert run(arguments) == 2
    shown = capsys.readouterr().err
    assert "error[HS625]" in shown and words in shown
    assert not list(tmp_path.glob("x*"))


def test_other_strategies_begin_with_no_candidate(tmp_path: Path, capsys: Captured) -> None:
    arguments = ["synth", topology("ring8"), "--coll", "allgather", "--strategy", "greedy", "--from", "flood"]
    assert run([*arguments, "-o", str(tmp_path / "x")]) == 2
    shown = capsys.readouterr().err
    assert "error[HS624]" in shown and "--strategy cegis" in shown and not list(tmp_path.iterdir())


# -- nothing is lost


def nothing(*arguments: object, **options: object) -> None:
    """In the place of a search that finds nothing."""


def test_the_log_is_written_after_ctrl_c(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Checkpoints, "_attempt", interrupted)
    log = tmp_path / "cegis.jsonl"
    arguments = cegis("h20_4p8", "allgather", "--log", str(log), "-o", str(tmp_path / "x"))
    said = summary(capsys, arguments)
    assert said["cut_short"] and said["cegis"]["iterations"] == 1
    assert [e["action"] for e in lines(log)] == ["seed"]
    log.unlink()
    (tmp_path / "x.schedule.json").unlink()
    monkeypatch.setattr(greedy, "improve", nothing)
    assert run(arguments) == 3
    assert "interrupted before there was anything to keep" in capsys.readouterr().err
    assert [e["action"] for e in lines(log)] == ["seed"] and not list(tmp_path.glob("x*"))


def test_a_failure_before_cegis_leaves_the_older_log(tmp_path: Path, capsys: Captured) -> None:
    log = tmp_path / "cegis.jsonl"
    log.write_text("older\n")
    assert run(cegis("h20_4p8", "allgather", "--from", "none.json", "--log", str(log))) == 2
    assert log.read_text() == "older\n"


def test_the_log_has_a_place_of_its_own(tmp_path: Path, capsys: Captured) -> None:
    stem = str(tmp_path / "x")
    for log, options, code in (
        (tmp_path / "none" / "a.jsonl", (), "HS571"),
        (tmp_path / "x.schedule.json", (), "HS570"),
        (tmp_path / "t.json", ("--trace", str(tmp_path / "t.json")), "HS570"),
    ):
        assert run(cegis("h20_4p8", "allgather", "--log", str(log), "-o", stem, *options)) == 2
        assert f"error[{code}]" in capsys.readouterr().err
    assert run(cegis("h20_4p8", "allgather", "--log", str(tmp_path / "a.xml"), "-o", stem)) == 2
    assert not list(tmp_path.iterdir())


def test_compositions_of_pods_have_neither(tmp_path: Path, capsys: Captured) -> None:
    arguments = ["synth", topology("h20_4p8"), "--coll", "allgather", "--strategy", "composition"]
    for option in (("--log", str(tmp_path / "a.jsonl")), ("--from", "flood")):
        assert run([*arguments, "-o", str(tmp_path / "x"), *option]) == 2
        assert "strategy composition" in capsys.readouterr().err and not list(tmp_path.iterdir())
