"""Pages in docs/ follow from their tables, and figures come out again."""

from __future__ import annotations

import csv
import json
import shutil
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from benchmarks import __main__ as main
from benchmarks import clusters, ranges, stale_figures
from benchmarks.cases import Case, Goal, all_cases
from benchmarks.heteccl import measuring, scores
from benchmarks.heteccl.cases import CompositionCase, SynthesisCase
from benchmarks.heteccl.cases import all_cases as heteccl_cases
from benchmarks.heteccl.run import Entry
from benchmarks.heteccl.run import measured as heteccl_measured
from benchmarks.run import Process, measure, measured, run
from benchmarks.run import Row as StepsRow
from benchmarks.time_tables import time_rows
from hetesynth.topology.language import load_topology

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
TINY = Case("paper", "h20_4x3", 12, "allgather", 1, Goal(20, 0), 60)
DOCS = ROOT / "docs"
KNOWN = ranges.rows_of(ranges.TABLE)


def test_one_real_case_and_one_that_cannot_be_read(tmp_path: Path) -> None:
    row = measure(TINY, EXAMPLES / "h20_4x3" / "topo.dsl", tmp_path)
    assert (row.status, row.steps, row.bound, row.misses) == ("ok", 3, 3, ())
    assert row.first is not None and row.work is not None and row.total is not None
    assert 0 < row.first <= row.work < row.total
    row = measure(TINY, tmp_path / "none.dsl", tmp_path)
    assert row.status == "failed" and "exit code 2: error[HS" in row.error
    assert run([sys.executable, "-c", "import time; time.sleep(60)"], {}, timeout=0.3).hung


def test_every_case_has_its_cluster_and_its_row_and_equal_commands_run_once(tmp_path: Path) -> None:
    asked: list[Case] = []

    def pretend(case: Case, topology: Path, directory: Path) -> StepsRow:
        asked.append(case)
        return StepsRow(case, "ok", steps=3, bound=3, total=1.0, work=0.5, megabytes=10.0)

    report = measured(all_cases(), EXAMPLES, whole=True, measure=pretend, warm_up=())
    assert [row.case for row in report.rows] == all_cases()
    assert len({case.command for case in asked}) == len(asked) < len(all_cases())
    for name, ranks in {case.cluster: case.ranks for case in all_cases() if case.ranks <= 32}.items():
        topology = load_topology(clusters.topology(name, EXAMPLES, tmp_path))
        assert (topology.name, topology.ranks) == (name, ranks)


def test_a_selection_without_cases_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["steps", "--only", "no such case"]) == 2
    assert main.run(["steps", "-o", str(tmp_path / "no" / "page.md")]) == 2
    shown = capsys.readouterr().err
    assert "no case has such a name" in shown and "cannot write" in shown


@pytest.mark.parametrize(
    ("goal", "bound", "most"), [(Goal(1, 1), 7, 8), (Goal(1, 1, 2), 100, 102), (Goal(1), 7, None)]
)
def test_goals_in_steps(goal: Goal, bound: int, most: int | None) -> None:
    assert goal.allowed(bound) == most
    row = StepsRow(Case("paper", "c", 8, "allgather", 1, goal, 1), "ok", steps=(most or bound) + 1, bound=bound)
    assert row.misses == (() if most is None else ("steps",))


def test_a_ring_value_of_the_time_tables_is_exact() -> None:
    (row,) = time_rows(EXAMPLES, ["SCALE-CCL: two_dc_50km"])
    assert row.met, (row.error, row.said.get("predicted_us"))


# -- stale figures


def test_every_page_has_figures_to_remake() -> None:
    pages = [figure.page.name for figure in stale_figures.figures()]
    counts = {"ranges.csv": 600, "repairs.csv": 62, "benchmarks_time.csv": 31, "benchmarks.csv": 169}
    assert {name: pages.count(name) for name in counts} == counts
    figures = ("s_6_7", "_8", "_13", "_15", "_16", "_17")
    assert {*pages} - counts.keys() == {f"figure{number}.csv" for number in figures}


@pytest.mark.slow
def test_a_figure_that_is_not_of_today_is_found_and_mended(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = next(
        f for f in stale_figures.figures(docs) if f.page.name == "benchmarks.csv" and "h20_4p8 allgather" in f.name
    )
    lines = figure.page.read_text(encoding="utf-8").splitlines()
    good, lines[figure.line] = lines[figure.line], lines[figure.line].replace(",12,", ",13,", 1)
    figure.page.write_text("\n".join([*lines, ""]), encoding="utf-8")
    only = f"benchmarks.csv {figure.name}"
    monkeypatch.setattr(sys, "argv", ["stale_figures", "--only", only, "--mend", "--docs", str(docs)])
    assert stale_figures.main() == 1
    assert figure.page.read_text(encoding="utf-8").splitlines()[figure.line] == good
    assert stale_figures.main() == 0


# -- programs of the default command


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    """A copy of docs/."""
    shutil.copytree(DOCS, tmp_path / "docs")
    return tmp_path / "docs"


def test_the_table_of_the_readme_follows_from_the_rows() -> None:
    text, compared = (ROOT / "README.md").read_text(encoding="utf-8"), 0
    assert f"{ranges.FIRST}\n{ranges.readme(KNOWN)}\n{ranges.LAST}" in text
    for name, heading in ranges.COLLECTIVES.items():  # worked out here without the code of the table
        (line,) = (line for line in text.splitlines() if line.startswith(f"| {heading} | "))
        for size, shown in zip(ranges.SIZES, line.strip("|").split("|")[1:], strict=True):
            rows = [row for row in KNOWN if (row["collective"], row["size"]) == (name, size)]
            assert len(rows) == 30
            factor, share = (
                statistics.median(float(row[column]) for row in rows if row[column])
                for column in ("factor", "percent")
            )
            assert shown.strip() == f"{factor:.1f} x, {share:.0f} %"
            compared += 1
    assert compared == 20


def test_a_measured_file_and_a_refused_one(tmp_path: Path) -> None:
    files = ranges.files(tmp_path)
    row = ranges.row("fig10", files["fig10"], "alltoall", "64KB")
    assert tuple(row) == ranges.COLUMNS and row["program_us"] and row["library"]
    (tmp_path / "no.dsl").write_text("cluster c { instance a = nothing }")
    assert "nothing" in ranges.row("no", tmp_path / "no.dsl", "alltoall", "64KB")["verdict"]


# -- the paper of HeteCCL


def test_a_run_tells_what_fails() -> None:
    some = [case for case in heteccl_cases() if isinstance(case, CompositionCase)]
    ends = iter([(0, json.dumps({"ranks": 4}), ""), (1, "", "first\nHS601: there is no schedule")])

    def process(command: Sequence[str], environment: dict[str, str], patience: float) -> Process:
        code, output, errors = next(ends)
        return Process(code, 2.0, 1.0, 50.0, output, errors, hung=False)

    first, second = heteccl_measured(some, EXAMPLES, process)
    assert first.said == {"ranks": 4} and second.error == "HS601: there is no schedule"


def table(name: str) -> list[list[str]]:
    with (DOCS / "data" / "hetecclpaper" / f"{name}.csv").open(newline="") as stream:
        return list(csv.reader(stream))


def test_the_page_is_that_of_this_code(tmp_path: Path) -> None:
    """The number of cases, claims and figures is that of the code."""
    text = (DOCS / "hetecclpaper.md").read_text()
    every = scores.scores({})
    assert f"of the {len(every)} numbers that the paper states" in text and "Incomplete" not in text
    assert not any(score.met for score in every) and "not measured" not in text
    assert all(clusters.topology(case.cluster, EXAMPLES, tmp_path).is_file() for case in heteccl_cases())


def test_a_row_of_the_page_comes_out_again(tmp_path: Path) -> None:
    case = SynthesisCase("flood", "h20_4x3", "allgather", 1, "cegis", "flood")
    figures = measuring.synthesis(case, clusters.topology(case.cluster, EXAMPLES, tmp_path))
    (row,) = [row for row in table("flood") if row[0] == "h20_4x3"]
    counts = (str(figures[name]) for name in ("iterations", "counterexamples", "calls"))
    assert [row[3], *row[5:]] == [f"{figures['steps']} / {figures['bound']}", *counts]


def test_claims_are_judged_number_by_number() -> None:
    """Every rival takes a ratio of our time, which is twice the limit."""
    claim = next(c for c in scores.CLAIMS if c.figure == "6" and c.rival == "NCCL")
    for ratio, verdicts in ((2.5, ["yes", "yes"]), (1.5, ["yes", "no"]), (1.2, ["no", "no: beyond the limit"])):
        entries = {}
        for case in scores.cases_of(claim):
            row = {"ours": 2.0, "limit": 1.0, "NCCL": 2.0 * ratio}
            entries[case.name] = Entry(case.name, 1.0, 1.0, {"rows": [row]})
        assert [score.verdict for score in scores.claim_scores(claim, entries)] == verdicts
