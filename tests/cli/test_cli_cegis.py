"""``synth --strategy cegis`` as a user sees it: what it begins with, its log, its lines in the report."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hetesynth.cli.main import run
from hetesynth.search.greedy import greedy
from hetesynth.search.search import Search
from hetesynth.search.smt.cegis import Checkpoints

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FIELDS = {
    "steps", "action", "checkpoint", "counterexamples", "number", "laws", "sends", "answer", "units", "seconds",
    "phase",
}  # fmt: skip
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
    assert (entries[0]["number"] > 0) and all(set(e) - {"snapshot"} == FIELDS for e in entries)


def test_the_default_is_the_one_pass_greedy(tmp_path: Path, capsys: Captured) -> None:
    logs = [tmp_path / "default.jsonl", tmp_path / "greedy.jsonl", tmp_path / "flood.jsonl"]
    for log, options in zip(logs, ([], ["--from", "greedy"], ["--from", "flood"]), strict=True):
        asked = cegis("ring8", "allgather", "--chunks", "2", "--log", str(log), "-o", str(tmp_path / "x"))
        summary(capsys, [*asked, *options])
    first, second, flood = ([{**e, "seconds": 0} for e in lines(log)] for log in logs)
    assert first == second
    assert first != flood and flood[0]["number"] > first[0]["number"]


def test_the_log_sums_up_to_the_json_and_the_report(tmp_path: Path, capsys: Captured) -> None:
    log = tmp_path / "cegis.jsonl"
    arguments = cegis("h20_4p8", "allreduce", "--log", str(log), "-o", str(tmp_path / "x"))
    said = summary(capsys, arguments)["cegis"]
    entries = lines(log)
    wrong = [e for e in entries if e["number"]]
    calls = [e for e in entries if e["answer"] in ("sat", "unsat", "unknown")]
    assert said["iterations"] == len(entries) and said["counterexamples"] == sum(e["number"] for e in entries)
    assert said["calls"] == len(calls) > 0 and said["units"] == sum(e["units"] for e in entries) > 0
    assert said["first"]["counterexample"] == wrong[0]["counterexamples"][0]
    assert said["first"]["checkpoint"] == wrong[0]["checkpoint"]
    assert said["largest_model"] == max(e["sends"] for e in entries) and said["laws"] > 0
    assert {e["phase"] for e in entries} == {"reduce-scatter", "allgather"}
    assert run(arguments) == 0
    shown = capsys.readouterr().out
    assert f"{len(entries)} iterations, {said['counterexamples']} counterexamples" in shown
    assert said["first"]["counterexample"] in shown


def test_where_cegis_does_not_run_nothing_is_reported_and_the_log_is_empty(
    tmp_path: Path, capsys: Captured
) -> None:
    log = tmp_path / "cegis.jsonl"
    log.write_text("of an earlier run\n")
    arguments = ["synth", topology("h20_4p8"), "--coll", "allgather", "--strategy", "greedy", "--schedule-only"]
    assert run([*arguments, "--log", str(log), "-o", str(tmp_path / "x")]) == 0
    shown = capsys.readouterr()
    assert "iteration" not in shown.out
    assert "is empty: CEGIS did not run (strategy greedy)" in shown.err and log.read_bytes() == b""
    assert summary(capsys, [*arguments, "-o", str(tmp_path / "x")])["cegis"] is None


def test_the_log_changes_no_other_byte(tmp_path: Path, capsys: Captured) -> None:
    arguments = ["synth", topology("h20_4p8"), "--coll", "allgather", "--strategy", "cegis", "--from", "flood"]
    for name, options in (("a", []), ("b", ["--log", str(tmp_path / "cegis.jsonl")])):
        assert (
            run([*arguments, *options, "-o", str(tmp_path / name), "--report", str(tmp_path / f"{name}.html")])
            == 0
        )
    for suffix in (".xml", ".inplace.xml", ".schedule.json", ".html"):
        assert (tmp_path / f"a{suffix}").read_bytes() == (tmp_path / f"b{suffix}").read_bytes()
    assert lines(tmp_path / "cegis.jsonl")


# -- a file


def test_a_valid_file_has_no_counterexample(schedule: Path, tmp_path: Path, capsys: Captured) -> None:
    arguments = cegis("h20_4p8", "allgather", "--from", str(schedule), "-o", str(tmp_path / "x"))
    said = summary(capsys, arguments)["cegis"]
    assert said["counterexamples"] == 0 and said["first"] is None


def test_a_valid_file_of_a_reduction_is_turned_around(tmp_path: Path, capsys: Captured) -> None:
    first = cegis("h20_4p8", "reducescatter", "-o", str(tmp_path / "first"))
    assert summary(capsys, first)["cegis"]["counterexamples"] > 0
    again = cegis("h20_4p8", "reducescatter", "--from", str(tmp_path / "first.schedule.json"))
    said = summary(capsys, [*again, "-o", str(tmp_path / "x")])
    assert said["cegis"]["counterexamples"] == 0 and said["steps"] == said["lower_bound"]


def everything_at_once(document: dict[str, Any]) -> None:
    document["transfers"] = [[0, 1, *row[2:]] for row in document["transfers"]]


def nothing_after_the_first_step(document: dict[str, Any]) -> None:
    document["transfers"] = [row for row in document["transfers"] if row[0] == 0]


def a_delivery_twice(document: dict[str, Any]) -> None:
    document["transfers"].append([2, 3, *document["transfers"][0][2:]])


def a_chunk_that_is_not(document: dict[str, Any]) -> None:
    document["transfers"][5][2] = 9999


def a_transfer_that_outlasts_the_bound(document: dict[str, Any]) -> None:
    document["makespan"] = 9
    document["transfers"][5][1] = 9


@pytest.mark.parametrize(
    "change",
    [
        everything_at_once, nothing_after_the_first_step, a_delivery_twice, a_chunk_that_is_not,
        a_transfer_that_outlasts_the_bound,
    ],
)  # fmt: skip
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
        ("h20_4p8", "allgather", ("--chunks", "2"), "chunks per rank 1, here 2"),
        ("h20_4p8", "reducescatter", (), "collective allgather, here reducescatter"),
        ("h20_4p8", "allreduce", (), "two phases"),
    ],
)
def test_a_file_of_another_problem_is_refused(
    example: str, collective: str, options: tuple[str, ...], words: str,
    schedule: Path, tmp_path: Path, capsys: Captured,
) -> None:  # fmt: skip
    arguments = cegis(example, collective, *options, "--from", str(schedule), "-o", str(tmp_path / "x"))
    assert run(arguments) == 2
    shown = capsys.readouterr().err
    assert "error[HS625]" in shown and words in shown
    assert not list(tmp_path.glob("x*"))


def test_links_go_by_their_index(schedule: Path, tmp_path: Path, capsys: Captured) -> None:
    def exchanged(document: dict[str, Any]) -> None:
        link = document["links"][0]
        link[1], link[2] = link[2], link[1]

    def beyond(document: dict[str, Any]) -> None:
        document["links"].append([5000, 0, 1])

    for change, words in ((exchanged, "joins ranks 1 and 0, here 0 and 1"), (beyond, "link 5000")):
        path = edited(schedule, change)
        assert run(cegis("h20_4p8", "allgather", "--from", str(path), "-o", str(tmp_path / "x"))) == 2
        shown = capsys.readouterr().err
        assert "error[HS625]" in shown and words in shown


def test_what_is_no_schedule_is_refused(tmp_path: Path, capsys: Captured) -> None:
    text = tmp_path / "text.json"
    text.write_text("{}")
    for path, code in ((text, "HS520"), (tmp_path / "none.json", "HS540"), (tmp_path, "HS540")):
        assert run(cegis("h20_4p8", "allgather", "--from", str(path), "-o", str(tmp_path / "x"))) == 2
        assert f"error[{code}]" in capsys.readouterr().err


@pytest.mark.parametrize("strategy", ["auto", "greedy", "monolithic"])
def test_other_strategies_begin_with_no_candidate(strategy: str, tmp_path: Path, capsys: Captured) -> None:
    arguments = ["synth", topology("ring8"), "--coll", "allgather", "--strategy", strategy, "--from", "flood"]
    assert run([*arguments, "-o", str(tmp_path / "x")]) == 2
    shown = capsys.readouterr().err
    assert "error[HS624]" in shown and "--strategy cegis" in shown and not list(tmp_path.iterdir())


def test_all_roots_take_no_file_but_a_name(schedule: Path, tmp_path: Path, capsys: Captured) -> None:
    log = tmp_path / "cegis.jsonl"
    arguments = cegis("fig10", "broadcast", "--root", "all", "-o", str(tmp_path / "x"), "--log", str(log))
    assert run([*arguments, "--from", str(schedule)]) == 2
    assert "one root" in capsys.readouterr().err
    roots = summary(capsys, [*arguments, "--from", "flood"])["roots"]
    entries = lines(log)
    assert {e["phase"] for e in entries} == {f"root {r}" for r in range(6)}
    assert sum(root["cegis"]["iterations"] for root in roots) == len(entries)


def test_a_size_has_the_candidates_in_the_log(tmp_path: Path, capsys: Captured) -> None:
    log = tmp_path / "cegis.jsonl"
    options = ("--size", "1MB", "--chunks", "1", "--from", "flood", "--log", str(log), "-o", str(tmp_path / "x"))
    said = summary(capsys, cegis("fig10", "allgather", *options))["cegis"]
    entries = lines(log)
    assert said["iterations"] == len(entries) > 0
    assert all(e["phase"].startswith("cegis, c=1") for e in entries)


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


def test_the_log_is_written_where_nothing_is_found(
    tmp_path: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Checkpoints, "_attempt", nothing)
    monkeypatch.setattr(greedy, "improve", nothing)
    monkeypatch.setattr("hetesynth.search.smt.cegis.size", lambda *arguments: 10**9)
    monkeypatch.setattr(Search, "out_of_time", lambda search: bool(search.trace.entries))
    log = tmp_path / "cegis.jsonl"
    assert run(cegis("h20_4p8", "allgather", "--log", str(log), "-o", str(tmp_path / "x"))) == 3
    assert "error[HS602]" in capsys.readouterr().err
    assert [e["action"] for e in lines(log)] == ["seed"]


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
