"""The table of the default command's programs: its page and README's part follow from the rows, which follow from
each other, and a run goes on where it was."""

from __future__ import annotations

import csv
import shutil
import statistics
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from benchmarks import programs_page
from benchmarks.programs_page import COLLECTIVES, DOCS, SIZES, Row, cells, names, rows_of
from benchmarks.tables import wrapped
from hetesynth.cli import main as command_line
from hetesynth.topology.language import load_topology

KNOWN = rows_of(DOCS / programs_page.CELLS)
ROWS = list(KNOWN.values())


def numbers(rows: Iterable[Row], column: str) -> list[float]:
    return [float(row[column]) for row in rows if row[column]]


def columns_of(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.fixture
def docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of docs/ beside one of README.md, which the page is written into."""
    shutil.copytree(DOCS, tmp_path / "docs")
    shutil.copy(DOCS.parent / "README.md", tmp_path)
    monkeypatch.setattr(programs_page, "DOCS", tmp_path / "docs")
    return tmp_path / "docs"


def test_the_clusters_are_thirty_of_3_to_32_gpus(tmp_path: Path) -> None:
    files = programs_page.files(tmp_path)
    assert len(files) == 30 and list(files) == names()
    ranks = {name: load_topology(file).ranks for name, file in files.items()}
    assert min(ranks.values()) >= 3 and max(ranks.values()) <= 32
    assert {row["cluster"]: int(row["gpus"]) for row in ROWS}.items() <= ranks.items()


def test_the_page_and_the_readme_follow_from_the_rows(docs: Path) -> None:
    programs_page.publish(docs)
    assert (docs / programs_page.PAGE).read_text() == (DOCS / programs_page.PAGE).read_text()
    assert (docs / programs_page.README).read_text() == (DOCS / programs_page.README).read_text()
    missing = len(cells(names())) - len(ROWS)
    page = (DOCS / programs_page.PAGE).read_text()
    assert ("**Incomplete**" in page) == (missing > 0)


def test_the_summary_is_of_the_rows() -> None:
    lines = (DOCS / programs_page.PAGE).read_text(encoding="utf-8").splitlines()
    compared = 0
    for size, title in SIZES.items():
        for name, heading in COLLECTIVES.items():
            rows = [row for row in ROWS if (row["collective"], row["size"]) == (name, size)]
            line = next(columns_of(line) for line in lines if line.startswith(f"| {title} | {heading} |"))
            assert int(line[2]) == len(rows)
            for at, column in enumerate(("percent", "plan_percent", "factor", "plan_factor")):
                if values := numbers(rows, column):
                    compared += 1
                    shown = [float(cell) for cell in line[3 + 2 * at : 5 + 2 * at]]
                    assert shown == pytest.approx([statistics.median(values), min(values)], abs=0.0501)
    assert compared >= 15


def test_the_readme_has_the_figures_of_the_rows() -> None:
    part = (DOCS / programs_page.README).read_text(encoding="utf-8").partition(programs_page.FIRST)[2]
    lines, compared = part.partition(programs_page.LAST)[0].splitlines(), 0
    for name, heading in COLLECTIVES.items():
        line = next(columns_of(line) for line in lines if line.startswith(f"| {heading} |"))
        asked = [(size, column) for size in SIZES for column in ("percent", "plan_percent")]
        for cell, (size, column) in zip(line[1:], asked, strict=True):
            rows = [row for row in ROWS if (row["collective"], row["size"]) == (name, size)]
            if values := numbers(rows, column):
                compared += 1
                shown = [float(number) for number in cell.split(",")]
                assert shown == pytest.approx([statistics.median(values), min(values)], abs=0.0501)
    assert compared >= 15
    slower = sum(factor < 0.99 for factor in numbers(ROWS, "factor"))
    words = " ".join(" ".join(lines).split())
    assert f"{slower} of {len(numbers(ROWS, 'factor'))} XML programs are slower by more than 1 %" in words


def test_the_rows_agree_with_themselves_and_with_the_times_before() -> None:
    before = rows_of(DOCS / programs_page.BEFORE)
    assert list(before) == cells(names())
    for cell, row in KNOWN.items():
        assert row["library_before_us"] == before[cell]["library_before_us"]
        assert bool(row["program_us"]) != bool(row["no_program"]) and bool(row["plan_us"]) != bool(row["no_plan"])
        assert bool(row["library_us"]) != bool(row["no_library"])
        for seconds, percent, factor in (
            ("program_us", "percent", "factor"),
            ("plan_us", "plan_percent", "plan_factor"),
        ):
            if row[seconds]:
                share = 100 * float(row["limit_us"]) / float(row[seconds])
                assert float(row[percent]) == pytest.approx(share, abs=0.02) and share <= 100.02
            if row[factor]:
                times = float(row["library_us"]) / float(row[seconds])
                assert float(row[factor]) == pytest.approx(times, abs=2e-3)


def test_a_measured_cell_is_what_the_command_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = programs_page.files(tmp_path)["fig10"]
    row = programs_page.measured(("fig10", "alltoall", "64KB"), file, "25")
    assert [*row] == programs_page.COLUMNS
    for words, time in (([], "program_us"), (["--target", "mscclpp"], "plan_us")):
        asked = ["synth", str(file), "--coll", "alltoall", "--size", "64KB", *words]
        assert command_line.run([*asked, "-o", str(tmp_path / "x")]) == 0
        assert f" {float(row[time]):.4g} us for 64 KB" in capsys.readouterr().out.splitlines()[0]
    assert row["library"].startswith("NCCL (sends, ") and row["checked"] == "False"
    assert row["all-pairs_us"] and row["direct_us"] and not row["ring_us"]


def test_a_refusal_is_told_and_a_failure_ends_the_run(tmp_path: Path) -> None:
    file = programs_page.files(tmp_path)["ring8"]
    said = programs_page.synth(file, "alltoall", "64KB", "--strategy", "all-pairs")
    assert said["error"].startswith("HS610: ") and "\n" not in said["error"]
    with pytest.raises(RuntimeError, match="no-such-option"):
        programs_page.synth(file, "alltoall", "64KB", "--no-such-option")


def row(**values: str) -> Row:
    return (
        dict.fromkeys(programs_page.COLUMNS, "")
        | {"cluster": "c", "collective": "allgather", "size": "1GB"}
        | values
    )


def test_what_is_slower_by_more_than_one_percent_is_named() -> None:
    rows = [row(factor="0.991"), row(factor="0.989", cluster="d"), row(factor=""), row(factor="0.5", size="64KB")]
    assert programs_page.slower(rows, "factor") == ["c allgather 64 KB (0.50 x)", "d allgather 1 GB (0.99 x)"]
    runs = [
        row(library_us="102", ring_us="100"), row(library_us="100.5", ring_us="100"), row(ring_us="100"),
        row(library_us="150", **{"double-tree_us": "100"}),
        row(library_us="150", collective="allreduce", **{"double-tree_us": "100"}),
    ]  # fmt: skip
    named = programs_page.quicker_strategies(runs)
    assert named == ["c allreduce 1 GB double-tree (1.50 x)", "c allgather 1 GB ring (1.02 x)"]


def test_a_run_measures_what_is_missing_alone(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone, *kept = KNOWN
    programs_page.write(docs / programs_page.CELLS, programs_page.COLUMNS, (KNOWN[cell] for cell in kept))
    asked = []

    def one_by_one(function: Callable[[Any], Row], items: list[Any], number: int, *, share: int) -> Iterable[Row]:
        asked.extend(item[0] for item in items)
        return [KNOWN[item[0]] for item in items]

    monkeypatch.setattr(programs_page, "side_by_side", one_by_one)
    programs_page.main(["--only", "nowhere"])
    assert not asked and f"{len(kept)} of {len(cells(names()))} cells" in (docs / programs_page.PAGE).read_text()
    programs_page.main(["--only", gone[0]])
    assert asked == [gone]
    with (docs / programs_page.CELLS).open(newline="") as stream:
        assert list(csv.DictReader(stream)) == ROWS


def test_paragraphs_are_wrapped_and_no_number_leaves_its_percent_sign() -> None:
    text = wrapped(f"{'word ' * 22}by 1 % at most\n\n- {'item ' * 40}\n\n| {'cell ' * 40}|")
    paragraph, rest = text.split("\n\n", 1)
    assert all(len(line) <= 115 for line in paragraph.splitlines()) and "1 %" in paragraph
    assert rest == f"- {'item ' * 40}\n\n| {'cell ' * 40}|\n"
