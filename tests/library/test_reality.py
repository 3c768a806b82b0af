"""docs/reality.md is what the command makes, and what it says of the errors stays true."""

from __future__ import annotations

import json
import os
from pathlib import Path
from statistics import median

import pytest
from benchmarks import reality
from benchmarks.reality import Series

from hetesynth.engine.rival import Rival, library_rival
from hetesynth.library.machine import machine_of
from hetesynth.library.times import chosen
from hetesynth.topology.language import load_topology

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("HETESYNTH_CONFORMANCE", ROOT.parent / "shared" / "data"))
PUBLISHED = DATA / "measured" / "measured.jsonl"


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
    for own, kinds, every in reality.held_out(series).values():
        assert every > 100 and min(own, kinds) >= 0.8 * every


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
    far = {one.name for one in series if any(abs(error) > 0.15 for error in one.printed_errors().values())}
    assert far == set(reality.REASONS)


@pytest.mark.parametrize("name", ["h100x8_2", "a100x8", "mi325x8_4", "p4d_2"])
def test_a_verdict_prints_what_was_compared(name: str, series: list[Series]) -> None:
    topology = load_topology(reality.MACHINES / f"{name}.dsl")
    for one in (one for one in series if one.row["machine"] == name):
        known = dict(one.points)
        for size, error in one.printed_errors().items():
            rival = library_rival(topology, one.row["collective"], size, 0.0)  # type: ignore[arg-type]
            assert isinstance(rival, Rival) and rival.seconds == pytest.approx((1 + error) * known[size])


@pytest.mark.skipif(not PUBLISHED.exists(), reason="the large collection of published runs is not here")
def test_all_published_runs_are_as_expected_or_left_out(series: list[Series]) -> None:
    """Of the whole collection, out of place."""
    compared, rows = {one.name: one for one in series}, {row["series"]: row for row in reality.stored_rows()}
    for line in PUBLISHED.read_text("utf-8").splitlines():
        run = json.loads(line)
        assert run["id"] in rows, run["id"]
        one = compared.get(run["id"])
        for size, microseconds, *_ in run["points"] if one else ():
            if one and microseconds and size in dict(one.points):
                assert dict(one.points)[size] == pytest.approx(microseconds * 1e-6)
            elif one and microseconds and size >= reality.LARGE:
                assert "left out" in one.row["source"], (run["id"], size)


def test_what_two_machines_take_for_8_gib() -> None:
    """Two nodes of H100: five published runs take 33.2 to 34.7 ms; of A100, one takes 85,820 us. The nodes of
    h20_4p8 launch 16 channels, never 64."""
    h100, a100 = (chosen(reality.machine_named(name), "allreduce", 8 << 30) for name in ("h100x8_2", "a100x8_2"))
    assert h100.label == "NVLSTree, 16 channels, Simple" and 0.0332 <= h100.expected <= 0.0347
    h20 = machine_of(load_topology(ROOT / "examples" / "h20_4p8" / "topo.dsl"))
    assert h20 and {chosen(h20, name, 1 << 30).channels for name in ("allreduce", "allgather", "broadcast")} == {
        16
    }
    assert a100.label == "ring, 16 channels, Simple" and a100.expected == pytest.approx(85_820e-6, rel=0.01)


def test_what_is_stored_is_used(series: list[Series]) -> None:
    """Each point is of a series that is compared, each of these has a machine and a source; others say why not."""
    assert {one.name for one in series} == set(reality.stored_points())
    for row in reality.stored_rows():
        assert row["source"] and bool(row["machine"]) != bool(row["left_out"])
    machines = {path.stem for path in reality.MACHINES.glob("*.dsl")} - {"nodes"}
    assert {one.row["machine"] for one in series} <= machines
