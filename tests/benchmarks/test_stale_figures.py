"""The figures of docs/ are those that the code gives: one that is not is found and mended."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from benchmarks import programs_page, stale_figures
from benchmarks.stale_figures import DOCS, figures


def test_every_page_has_figures_to_remake() -> None:
    found = [figure.page.name for figure in figures()]
    assert {name: found.count(name) for name in {*found}} == {
        "programs.csv": len(programs_page.rows_of(DOCS / programs_page.CELLS)), "benchmarks_time.csv": 31,
        "benchmarks.csv": 169,
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "row", "was", "wrong"),
    [
        ("programs.csv", "fig10 broadcast 64KB", r"(64KB),[0-9.]+", r"\1,1"),
        ("benchmarks_time.csv", "SCALE-CCL: two_dc_100km", r"14,251.4 us", "14,251.5 us"),
        ("benchmarks.csv", "h20_4p8 allgather c=1", r",12,", ",13,"),
    ],
)
def test_a_figure_that_is_not_of_today_is_found_and_mended(
    page: str, row: str, was: str, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    docs = tmp_path / "docs"
    shutil.copytree(DOCS, docs)
    shutil.copy(DOCS.parent / "README.md", tmp_path)
    figure = next(one for one in figures(docs) if one.page.name == page and row in one.name)
    lines = figure.page.read_text(encoding="utf-8").splitlines()
    good = lines[figure.line]
    lines[figure.line] = re.sub(was, wrong, good, count=1)
    assert lines[figure.line] != good
    figure.page.write_text("\n".join([*lines, ""]), encoding="utf-8")
    monkeypatch.setattr(
        sys, "argv", ["stale_figures", "--only", f"{page} {figure.name}", "--mend", "--docs", str(docs)]
    )
    assert stale_figures.main() == 1
    assert figure.page.read_text(encoding="utf-8").splitlines()[figure.line] == good
    assert (docs / programs_page.PAGE).read_bytes() == (DOCS / programs_page.PAGE).read_bytes()
    assert stale_figures.main() == 0
