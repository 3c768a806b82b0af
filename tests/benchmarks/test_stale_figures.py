"""The figures of docs/ that are made of other figures there agree with them, and one that changed is found."""

from __future__ import annotations

import re
import shutil
import statistics
import sys
from pathlib import Path

import pytest
from benchmarks import stale_figures
from benchmarks.stale_figures import CLUSTER_PAGES, DOCS, columns_of, figures, shares


@pytest.mark.parametrize("name", CLUSTER_PAGES)
def test_a_summary_is_of_the_rows_below_it(name: str) -> None:
    page, compared = DOCS / name, 0
    of_rows = shares(page)
    for row in map(columns_of, page.read_text(encoding="utf-8").splitlines()):
        values = [share for share, _ in of_rows.get((row[0], row[1]), [])] if len(row) == 10 else []
        if values:
            compared += 1
            assert len(values) == int(row[2])
            assert statistics.median(values) == pytest.approx(float(row[3]), abs=0.1001), row
            assert min(values) == pytest.approx(float(row[5].split(" ")[0]), abs=0.0501), row
    assert compared >= 6


def test_the_readme_says_what_the_pages_say() -> None:
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8").splitlines()
    of_rows = shares(DOCS / "benchmarks_clusters.md")
    at = next(i for i, line in enumerate(readme) if line.startswith("| | AllGather"))
    names = [name.lower() for name in columns_of(readme[at].replace("| |", "| - |", 1))[1:]]
    for line, of in ((readme[at + 2], statistics.median), (readme[at + 3], min)):
        shown = [float(cell) for cell in columns_of(line)[1:]]
        assert shown == pytest.approx(
            [of(share for share, _ in of_rows["1 GB", name]) for name in names], abs=0.1001
        )


def test_every_page_has_figures_to_remake() -> None:
    found = [figure.page.name for figure in figures()]
    assert {name: found.count(name) for name in {*found}} == {
        "benchmarks_clusters.md": 320, "benchmarks_examples.md": 350, "benchmarks_runtime_costs.md": 160,
        "benchmarks_thread_blocks.md": 160, "benchmarks_time.md": 31, "benchmarks.md": 169,
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "row", "was", "wrong"),
    [
        ("benchmarks_clusters.md", "gen023_2x4_pcie alltoall 16 MB", r"[0-9,.]+ us", "1 us"),
        ("benchmarks_time.md", "SCALE-CCL: two_dc_100km", r"14,251.4 us", "14,251.5 us"),
        ("benchmarks.md", "h20_4p8 allgather c=1", r"\| 12 \| 1 \| 3 \|", "| 12 | 1 | 4 |"),
    ],
)
def test_a_figure_that_is_not_of_today_is_found_and_mended(
    page: str, row: str, was: str, wrong: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(DOCS, tmp_path / "docs")
    figure = next(one for one in figures(tmp_path / "docs") if one.page.name == page and row in one.name)
    lines = figure.page.read_text(encoding="utf-8").splitlines()
    good = lines[figure.line]
    lines[figure.line] = good.replace(
        " | ".join(figure.shown), re.sub(was, wrong, " | ".join(figure.shown), count=1)
    )
    figure.page.write_text("\n".join([*lines, ""]), encoding="utf-8")
    monkeypatch.setattr(stale_figures, "figures", lambda: figures(tmp_path / "docs"))
    monkeypatch.setattr(sys, "argv", ["stale_figures", "--only", f"{page} {figure.name}", "--mend"])
    assert stale_figures.main() == 1
    assert figure.page.read_text(encoding="utf-8").splitlines()[figure.line] == good
    assert stale_figures.main() == 0
