"""An atlas of another collective is added to a folder, and nothing in it is replaced in silence."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.one_cell_project import Here

from hetesynth.cli.main import run
from hetesynth.deploy.atlas_destination import AtlasIdentity, combined
from hetesynth.deploy.build import build
from hetesynth.deploy.cache import Cache
from hetesynth.deploy.folder_index import read_index
from hetesynth.deploy.manifest.reader import read_manifest
from hetesynth.deploy.outcome import Watcher
from hetesynth.errors import HetesynthError

RING = "node ring {\n  gpus 3\n  link gpu[0-2] <-> gpu[1-2,0] { bandwidth 25 GB/s; latency 1 us }\n}\n"
TOPOLOGY = RING + "cluster tri { instance a = ring }\n"
MANIFEST = """
[[cluster]]
name = "tri"
topology = "tri.dsl"
collectives = ["allgather"]
targets = ["rccl-6"]
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tri.dsl").write_text(TOPOLOGY)
    return tmp_path


def atlas(collective: str, folder: str, *more: str) -> int:
    options = ["--sizes", "1KB,64KB", "--strategy", "greedy", "--chunks", "1", "--target", "rccl-6", *more]
    return run(["atlas", "tri.dsl", "--coll", collective, *options, "-o", folder])


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_collective_is_added_and_replaced(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert atlas("allgather", "a") == atlas("allreduce", "b") == 0
    single = contents(here / "a")
    assert json.loads(single["index.json"])["kind"] == "hetesynth atlas"
    assert atlas("allreduce", "a") == atlas("allgather", "b") == 0
    assert "beside allgather" in capsys.readouterr().out
    both = contents(here / "a")
    assert both == contents(here / "b"), "the same whatever came first"
    index = json.loads(both["index.json"])
    assert list(index["collectives"]) == ["allgather", "allreduce"]
    part = json.loads(single["index.json"])
    added = index["collectives"]["allgather"]
    assert {**part, "sha256": 0} == {**added, "sha256": 0}
    stated = {name: digest for part in index["collectives"].values() for name, digest in part["sha256"].items()}
    assert stated == {n: hashlib.sha256(d).hexdigest() for n, d in both.items() if n != "index.json"}
    assert {n for n in single if n.startswith(("rccl-6/", "schedules/"))} < set(both)
    (here / "a" / "notes.txt").write_text("mine")
    capsys.readouterr()
    assert atlas("allreduce", "a", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["beside"] == ["allgather"] and told["replaced"]
    assert contents(here / "a") == {**both, "notes.txt": b"mine"}
    assert run(["verify", "a", "--topo", "tri.dsl"]) == 0
    assert " wrong" not in capsys.readouterr().out
    assert run(["topo", "diff", "tri.dsl", "tri.dsl", "--schedules", "a"]) == 0


@pytest.mark.parametrize("case", ["rate", "target"])
def test_another_cluster_or_target_is_refused(case: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert atlas("allgather", "a") == 0
    before = contents(here / "a")
    (here / "tri.dsl").write_text(TOPOLOGY.replace("25 GB/s", "24 GB/s") if case == "rate" else TOPOLOGY)
    more = ["--target", "msccl-executor"] if case == "target" else []
    for collective in ("allreduce", "allgather"):
        assert atlas(collective, "a", *more) == 2
        assert "HS879" in (said := capsys.readouterr().err) and "--replace" in said
        assert contents(here / "a") == before
    assert atlas("allreduce", "a", *more, "--replace") == 0
    assert json.loads(contents(here / "a")["index.json"])["collective"] == "allreduce"


def test_single_losses_are_not_mixed_with_sizes(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def losses(collective: str, *more: str) -> int:
        stated = ["--losses", "link", "--n-minus-1", "--strategy", "greedy", "--target", "rccl-6"]
        return run(["atlas", "tri.dsl", "--coll", collective, *stated, "-o", "a", *more])

    assert atlas("allgather", "a") == 0
    assert losses("allgather") == 2
    assert "HS879" in capsys.readouterr().err
    assert losses("allgather", "--replace") == losses("allgather") == 0
    assert losses("allreduce") == atlas("allreduce", "a") == 2
    assert run(["verify", "a"]) == 0
    index = read_index(here / "a")
    assert index is not None and set(index.files) == set(contents(here / "a")) - {"index.json"}


def _built(here: Path) -> Any:
    return build(read_manifest(here / "hetesynth.toml"), Here(), Cache(here / "cache"), Watcher())


def test_an_atlas_in_a_folder_that_was_built(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (here / "hetesynth.toml").write_text(MANIFEST)
    assert _built(here).ok
    folder = here / "schedules" / "tri" / "rccl-6"
    built = contents(folder)
    assert atlas("allgather", str(folder)) == 2
    assert "by its manifest" in capsys.readouterr().err
    assert atlas("allreduce", str(folder), "--target", "msccl") == 2
    assert contents(folder) == built
    assert atlas("allreduce", str(folder)) == atlas("allreduce", str(folder)) == 0
    assert "the older allreduce is replaced" in capsys.readouterr().out
    added = contents(folder)
    assert {
        n: d for n, d in added.items() if n.startswith(("algorithms/allgather", "schedules/allgather"))
    }.items() <= built.items()
    rows = json.loads(added["index.json"])["cells"]
    assert [row.get("origin") for row in rows] == [None, "atlas"]
    assert rows[0]["record"].keys() == rows[1]["record"].keys()
    programs = {n: d for n, d in added.items() if n.startswith("algorithms/")}
    assert {f"algorithms/{p['name']}" for row in rows for p in row["record"]["programs"]} == programs.keys()
    channels = max(int(n) for d in programs.values() for n in re.findall(rb'nchannels="(\d+)"', d))
    assert f'NCCL_MIN_NCHANNELS="{channels}"' in added["environment.sh"].decode()
    assert all(b"provenance" in data for data in programs.values())
    assert run(["verify", str(folder), "--topo", "tri.dsl"]) == 0
    report = _built(here)
    assert report.ok and report.written == () and report.warnings == ()
    assert contents(folder) == added
    # another rate: the manifest's cell is made again, and the atlas is stale, and right
    (here / "tri.dsl").write_text(TOPOLOGY.replace("25 GB/s", "24 GB/s"))
    report = _built(here)
    assert [cell.status for cell in report.cells] == ["built"]
    assert len(report.warnings) == 1 and "stale, and right" in report.warnings[0]
    assert set(contents(folder)) == set(added)
    assert atlas("allreduce", str(folder)) == 0  # and is no longer stale
    assert _built(here).warnings == ()
    # the manifest has it now
    (here / "hetesynth.toml").write_text(MANIFEST.replace('"allgather"]', '"allgather", "allreduce"]'))
    report = _built(here)
    assert "left out" in report.warnings[0]
    assert not [name for name in contents(folder) if "atlas" in name]
    assert _built(here).warnings == ()


def test_an_atlas_that_is_wrong_on_the_new_topology_is_left_out(here: Path) -> None:
    (here / "hetesynth.toml").write_text(MANIFEST)
    _built(here)
    folder = here / "schedules" / "tri" / "rccl-6"
    assert atlas("allreduce", str(folder)) == 0
    cut = TOPOLOGY.replace("gpu[0-2] <-> gpu[1-2,0]", "gpu[0-1] <-> gpu[1-2]")
    (here / "tri.dsl").write_text(cut)
    report = _built(here)
    assert report.ok and "wrong on the topology" in report.warnings[0]
    assert not [name for name in contents(folder) if "atlas" in name]


IDENTITY = AtlasIdentity("tri", "1", ("rccl-6",), "allreduce")


def _index(collective: str, files: list[str], **more: Any) -> dict[str, Any]:
    return {
        "kind": "hetesynth atlas", "cluster": "tri", "topology_sha256": "1", "targets": ["rccl-6"],
        "collective": collective, "ranges": [{"files": files}], **more,
    }  # fmt: skip


def test_an_atlas_without_digests_is_added_to(tmp_path: Path) -> None:
    """As versions before wrote them; they did not say their topology, so only the same collective is replaced."""
    (tmp_path / "rccl-6").mkdir()
    (tmp_path / "rccl-6" / "x.xml").write_text("x")
    (tmp_path / "bandwidth.svg").write_text("old")
    new = _index("allreduce", ["rccl-6/y.xml"], sha256={"rccl-6/y.xml": "0" * 64, "bandwidth.svg": "1" * 64})
    files = {"index.json": json.dumps(new).encode(), "rccl-6/y.xml": b"y", "bandwidth.svg": b"new"}
    older = _index("allgather", ["rccl-6/x.xml"])
    (tmp_path / "index.json").write_text(json.dumps(older))
    merged = combined(tmp_path, IDENTITY, files)
    assert {n: d for n, d in merged.items() if n != "index.json"} == {
        "rccl-6/x.xml": b"x", "rccl-6/y.xml": b"y",
        "bandwidth-allgather.svg": b"old", "bandwidth-allreduce.svg": b"new",
    }  # fmt: skip
    del older["topology_sha256"]
    (tmp_path / "index.json").write_text(json.dumps(older))
    with pytest.raises(HetesynthError, match="another topology"):
        combined(tmp_path, IDENTITY, files)
    assert combined(tmp_path, replace(IDENTITY, collective="allgather"), files) == files
