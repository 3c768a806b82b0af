"""examples/README.md lists every example, no other, with the GPUs and servers that the topology has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hetesynth.topology.language import load_topology

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ROW = re.compile(r"\| \[(\w+)\]\((\S+)\) \| ([^|]+) \| (\d+) \| (\d+) \| ([^|]+) \|")
LINES = [line for line in (EXAMPLES / "README.md").read_text().splitlines() if line.startswith("| [")]
ROWS = [match.groups() for match in map(ROW.fullmatch, LINES) if match]


def test_every_example_has_one_row() -> None:
    assert len(ROWS) == len(LINES)
    no_cluster = {"ci", "measured"}  # a repository; many clusters
    folders = {path.name for path in EXAMPLES.iterdir() if path.is_dir()} - no_cluster
    assert sorted(row[0] for row in ROWS) == sorted(folders)


@pytest.mark.parametrize(
    ("name", "link", "source", "gpus", "servers", "shows"), ROWS, ids=[row[0] for row in ROWS]
)
def test_the_row_says_what_the_file_holds(
    name: str, link: str, source: str, gpus: str, servers: str, shows: str
) -> None:
    path = EXAMPLES / link
    assert link == f"{name}/topo.dsl" and path.is_file()
    topology = load_topology(path)
    assert (int(gpus), int(servers)) == (topology.ranks, len(set(topology.servers)))
    comment = path.read_text().split("\n\n")[0]
    for paper in ("HeteCCL", "TE-CCL", "ForestColl", "TACOS", "SCALE-CCL", "SCCL (PPoPP 2021)"):
        assert paper not in source or paper in comment
