"""Running cases: one real tiny case, the order and the interruption with a measure that measures nothing."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmarks import __main__ as main
from benchmarks.cases import Case, Goal, all_cases, chosen
from benchmarks.measure import Row, measure, run
from benchmarks.run import Runner
from hetesynth.errors import HetesynthError

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TINY = Case("paper", "h20_4x3", 12, "allgather", 1, Goal(20, 0), 60)


class Pretend:
    """Measures nothing, remembers what it was asked, and is interrupted at the case of that number."""

    def __init__(self, interrupted: int | None = None) -> None:
        self.asked: list[Case] = []
        self.interrupted = interrupted

    def __call__(self, case: Case, topology: Path, directory: Path) -> Row:
        assert topology.is_file() and directory.is_dir()
        if len(self.asked) == self.interrupted:
            raise KeyboardInterrupt
        self.asked.append(case)
        return Row(case, "ok", steps=3, bound=3, total=1.0, work=0.5, megabytes=10.0)


def test_one_real_case(tmp_path: Path) -> None:
    made = measure(TINY, EXAMPLES / "h20_4x3" / "topo.dsl", tmp_path)
    assert made.status == "ok", made.error
    assert (made.steps, made.bound, made.misses) == (3, 3, ())
    assert made.first is not None and made.work is not None and made.total is not None
    assert 0 < made.first <= made.work < made.total
    assert made.cpu is None or 0.1 < made.cpu < 60
    assert made.megabytes is None or 20 < made.megabytes < 4000
    assert any(path.suffix == ".xml" for path in tmp_path.iterdir())


def test_a_case_that_cannot_be_read_is_a_failed_row(tmp_path: Path) -> None:
    made = measure(TINY, tmp_path / "none.dsl", tmp_path)
    assert made.status == "failed" and "exit code 2: error[HS" in made.error


def test_a_command_that_hangs_is_killed() -> None:
    made = run([sys.executable, "-c", "import time; time.sleep(60)"], {}, timeout=0.3)
    assert made.hung and made.seconds < 10


def test_peak_memory_is_that_of_the_child() -> None:
    small = run([sys.executable, "-c", "pass"], {}, timeout=30)
    large = run([sys.executable, "-c", "x = bytearray(300_000_000)"], {}, timeout=30)
    if small.megabytes is None or large.megabytes is None:
        pytest.skip("this system does not tell")
    # a child counts from what its parent held when it forked, so the test process may add to the small one
    assert 290 < large.megabytes < 400 + small.megabytes


def test_every_case_has_its_row_and_equal_commands_run_once() -> None:
    pretend = Pretend()
    made = Runner(EXAMPLES, measure=pretend, warm_up=())(all_cases(), whole=True)
    assert [row.case for row in made.rows] == all_cases()
    assert made.complete
    commands = [case.command for case in pretend.asked]
    assert len(commands) == len(set(commands)) < len(all_cases())


def test_an_interrupted_run_keeps_its_rows() -> None:
    cases = all_cases()[:5]
    made = Runner(EXAMPLES, measure=Pretend(interrupted=2), warm_up=())(cases, whole=True)
    assert [row.status for row in made.rows] == ["ok", "ok", "not run", "not run", "not run"]
    assert not made.complete


def test_nothing_starts_after_the_deadline() -> None:
    made = Runner(EXAMPLES, measure=Pretend(), warm_up=(), deadline=-1.0)(all_cases()[:2], whole=False)
    assert [row.error for row in made.rows] == ["no time left", "no time left"]


def test_the_deadline_counts_computing_not_waiting() -> None:
    """On a loaded machine every case takes long and is measured all the same."""

    def loaded(case: Case, topology: Path, directory: Path) -> Row:
        return Row(case, "ok", steps=3, bound=3, total=1000.0, cpu=1.0)

    cases = all_cases()[:4]
    assert Runner(EXAMPLES, measure=loaded, warm_up=(), deadline=100.0)(cases, whole=False).complete
    assert not Runner(EXAMPLES, measure=loaded, warm_up=(), deadline=0.5)(cases, whole=False).complete


def test_a_missing_example_ends_the_run_before_it_begins(tmp_path: Path) -> None:
    with pytest.raises(HetesynthError) as caught:
        Runner(tmp_path, measure=Pretend(), warm_up=())([TINY], whole=False)
    assert caught.value.code == "HS901" and "no example" in caught.value.message


def faked(monkeypatch: pytest.MonkeyPatch, pretend: Pretend) -> None:
    def runner(examples: Path, **options: object) -> Runner:
        return Runner(examples, measure=pretend, warm_up=())

    monkeypatch.setattr("benchmarks.run.Runner", runner)


def test_a_selection_is_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    faked(monkeypatch, Pretend())
    assert main.run(["steps", "--only", "h20_4p8"]) == 0
    shown = capsys.readouterr()
    assert shown.out.startswith("# Benchmarks") and "selection" in shown.out and shown.err == ""


def test_json_is_one_object(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    faked(monkeypatch, Pretend())
    assert main.run(["steps", "--quick", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert len(rows) == len(chosen(quick=True, patterns=()))


def test_an_interrupted_run_writes_a_page_marked_incomplete(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    faked(monkeypatch, Pretend(interrupted=3))
    page = tmp_path / "page.md"
    assert main.run(["steps", "-o", str(page)]) == 3
    table = (tmp_path / "data" / "benchmarks.csv").read_text()
    assert "Incomplete" in page.read_text() and table.count("not run: interrupted") == len(all_cases()) - 3
    assert capsys.readouterr().out == f"wrote {page}\n"


def test_what_cannot_be_chosen_or_written_is_said_before_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["steps", "--only", "no such case"]) == 2
    assert main.run(["steps", "-o", str(tmp_path / "no" / "page.md")]) == 2
    shown = capsys.readouterr().err
    assert "no case has such a name" in shown and "cannot write" in shown


@pytest.mark.bench
def test_the_quick_run_ends_within_two_minutes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["steps", "--quick", "--json"]) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["complete"] and made["seconds"] < 120
