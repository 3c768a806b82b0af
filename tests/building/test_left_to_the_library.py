"""Sizes for which a library is quicker: the folder has no file for them, which is said and is no fault."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.one_cell_project import Here
from support.small_projects import RING

from hetesynth.cli.main import run
from hetesynth.deploy.build import build, check
from hetesynth.deploy.cache import Cache
from hetesynth.deploy.manifest.reader import read_manifest
from hetesynth.deploy.outcome import Watcher

MANIFEST = """[defaults]
collectives = ["allreduce"]
sizes = ["1KB..16KB", "16KB..64KB"]
targets = ["torch"]
gates = { percent_of_limit = 99, factor_over_library = 1.0, proven = true }

[[cluster]]
topology = "three.dsl"
"""


def test_a_cell_without_a_file_is_built_current_and_right(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A table of rounds takes 20 us a round, which NCCL does not."""
    (tmp_path / "three.dsl").write_text(RING.format(name="three", gpus=3, last=2, rate=25))
    (tmp_path / "hetesynth.toml").write_text(MANIFEST)
    manifest, folder = read_manifest(tmp_path / "hetesynth.toml"), tmp_path / "schedules/three/torch"
    report = build(manifest, Here(), Cache(tmp_path / "cache"), Watcher())
    assert [(cell.status, cell.messages) for cell in report.cells] == [
        ("built", ("left to the library: 1 KB, 4 KB, 16 KB",)),
        ("built", ("left to the library: 16 KB, 64 KB",)),
    ]
    index = json.loads((folder / "index.json").read_text())
    for cell in index["cells"]:
        assert (cell["record"]["files"], cell["record"]["programs"], cell["record"]["steps"]) == ({}, [], 0)
        assert all(row["program"] is row["program_us"] is None for row in cell["record"]["sizes"])
        assert all(row["library_us"] > 0 for row in cell["record"]["sizes"])
    assert not (folder / "algorithms").exists()
    again = Here()
    assert build(manifest, again, Cache(tmp_path / "none"), Watcher()).ok and again.names == []
    assert check(manifest, 1, Watcher()).ok
    assert run(["install-hint", str(folder)]) == 0
    capsys.readouterr()
    # what was left without reason is no longer what a build would write
    record = index["cells"][0]["record"]
    record["sizes"][0]["library_us"] /= 2
    (folder / "index.json").write_text(json.dumps(index))
    assert [cell.status for cell in check(manifest, 1, Watcher()).cells] == ["invalid", "current"]
