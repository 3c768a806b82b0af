"""docs/reality.md is what the command makes, and what it says of the errors stays true."""

from __future__ import annotations

from pathlib import Path
from statistics import median

import pytest
from benchmarks import reality
from benchmarks.reality import Series

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def series() -> list[Series]:
    read = reality.all_series()
    for one in read:
        assert one.machine.ranks > 1  # read here, once
    return read


def test_the_bands_are_what_the_runs_give(series: list[Series]) -> None:
    """If not: PYTHONPATH=tests python tests/benchmarks/reality.py."""
    assert (ROOT / "hetesynth" / "library" / "bands.csv").read_text("utf-8") == reality.bands(series)


def test_bands_hold_runs_that_they_were_not_made_of(series: list[Series]) -> None:
    for inside, every in reality.held_out(series).values():
        assert every > 100 and inside >= 0.75 * every


@pytest.mark.slow
def test_the_page_is_what_is_made_today(series: list[Series]) -> None:
    """If not: PYTHONPATH=tests python tests/benchmarks/reality.py."""
    assert (ROOT / "docs" / "reality.md").read_text(encoding="utf-8") == reality.page(series)
    assert (ROOT / "docs" / "data" / "reality.csv").read_text(encoding="utf-8") == reality.table(series)


def test_large_sizes_are_as_expected(series: list[Series]) -> None:
    errors = [error for one in series if (error := one.large_error) is not None]
    assert len(errors) >= 45
    assert median(errors) <= 0.04
    assert sum(error <= 0.15 for error in errors) >= 0.9 * len(errors)


def test_a_series_that_is_further_off_has_its_reason(series: list[Series]) -> None:
    far = {one.name for one in series if (one.large_error or 0.0) > 0.15}
    assert far == set(reality.REASONS)


def test_what_is_stored_is_used(series: list[Series]) -> None:
    """Each point is of a series that is compared, each of these has a machine and a source; others say why not."""
    assert {one.name for one in series} == set(reality.stored_points())
    for row in reality.stored_rows():
        assert row["source"] and bool(row["machine"]) != bool(row["left_out"])
    machines = {path.stem for path in reality.MACHINES.glob("*.dsl")} - {"nodes"}
    assert {one.row["machine"] for one in series} <= machines
