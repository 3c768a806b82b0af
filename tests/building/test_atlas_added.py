"""An atlas of another collective is added to a folder, and nothing in it is replaced in silence."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from hetesynth.cli.main import run
from hetesynth.files.folder_index import read_index

RING = "node ring {\n  gpus 3\n  link gpu[0-2] <-> gpu[1-2,0] { bandwidth 25 GB/s; latency 1 us }\n}\n"
TOPOLOGY = RING + "cluster tri { instance a = ring }\n"


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
