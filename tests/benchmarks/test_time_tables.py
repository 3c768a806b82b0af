"""The time tables: generated clusters are what they say, goals are judged, misses are told with their reason."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import time_clusters
from benchmarks.time_page import HEAD, time_page, time_table
from benchmarks.time_tables import CASES, SpeedRow, TimeRow, time_rows
from hetesynth.topology.language import load_topology

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SAID = {
    "program_us": 10.0, "predicted_us": 9.0, "bound_us": 8.0, "chunks": 2, "time_bound_proof": "a cut",
    "choice": {"candidate": "ring, c=2"},
}  # fmt: skip


@pytest.mark.parametrize(
    ("name", "ranks", "links"), [("mesh_4x5", 20, 62), ("torus_4x4", 16, 64), ("mesh_3x3_hetero", 9, 24)]
)
def test_generated_clusters(tmp_path: Path, name: str, ranks: int, links: int) -> None:
    path = tmp_path / "topo.dsl"
    path.write_text(time_clusters.source(name, EXAMPLES) or "")
    topology = load_topology(path)
    assert (topology.ranks, len(topology.links)) == (ranks, links)
    assert {link.bandwidth / 2**30 for link in topology.links} == ({50, 75} if "hetero" in name else {50})
    assert time_clusters.source("mesh_2x9", EXAMPLES) is None and time_clusters.source("h20", EXAMPLES) is None


def test_goals_are_judged() -> None:
    case = next(c for c in CASES if c.unit == "us" and not c.equal)
    row = TimeRow(replace(case, goal=10.0), 1.0, SAID)
    assert row.met and not replace(row, case=replace(case, goal=9.9)).met
    assert not replace(row, case=replace(case, goal=11.0, equal=True)).met
    share = replace(row, case=replace(case, goal=80.0, unit="%"))
    assert share.met and not replace(share, case=replace(share.case, goal=81.0)).met
    assert not TimeRow(case, 1.0, {}, "failed").met
    assert replace(row, case=replace(case, goal=9.0, equal=True)).met  # by the schedule


def test_the_page_says_what_was_missed_and_why() -> None:
    case = next(c for c in CASES if c.unit == "us" and not c.equal)
    rows = [TimeRow(replace(case, goal=goal), 40.0, SAID) for goal in (10.0, 9.0, 7.0)]
    rows.append(TimeRow(case, 1.0, {}, "no end"))
    speeds = [SpeedRow("torus", "allgather", 50_000, 2.0, 3.0), SpeedRow("torus", "allreduce", error="no end")]
    page = time_page(rows, speeds)
    assert "| 1 | 4 |" in page and "simulated" in page and page.count("no end") == 2
    assert "out of reach, the bound allows 8 us" in page and "10 us; asked 9 us, the bound allows 8 us" in page
    assert "torus allgather: 50,000 transfers in 2.00 s, 4.00 s for 100,000, 3.0 s" in page
    head, *lines = csv.reader(time_table(rows).splitlines())
    assert head == HEAD and [line[7] for line in lines] == ["80.0 %"] * 3 + ["-"]
    assert lines[3][5] == "no end" and [line[10] for line in lines[:3]] == ["ring, c=2"] * 3


def test_a_ring_value_is_exact() -> None:
    (row,) = time_rows(EXAMPLES, ["SCALE-CCL: two_dc_50km"])
    assert row.met, (row.error, row.said.get("predicted_us"))
