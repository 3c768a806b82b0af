"""``init`` in a folder with topologies: a whole manifest, which names what is there and replaces nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from hetesynth.cli.main import run
from hetesynth.deploy.manifest.first_manifest import SCHEMA_NAME, first_manifest, text, write_first_manifest
from hetesynth.deploy.manifest.keys import schema_text
from hetesynth.deploy.manifest.reader import read_manifest
from hetesynth.errors import HetesynthError

RING = (Path(__file__).resolve().parent / "wrong" / "ring.dsl").read_text()
MIXED = """node n { gpus 4; model "H100"; link gpu[0-3] <-> gpu[1-3,0] { bandwidth 25 GB/s; latency 1 us } }
node m { gpus 1; model "MI300X" }
cluster c { instance a = n; instance b = m; link a.gpu0 <-> b.gpu0 { bandwidth 1 GB/s; latency 1 us } }
"""


def ring(model: str) -> str:
    return RING.replace("gpus 4;", f'gpus 4; model "{model}";') if model else RING


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    return folder


def test_it_names_every_cluster_with_the_targets_of_its_gpus(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, {
        "topo.dsl": ring("MI250"),
        "a/amd.dsl": ring("AMD Instinct MI300X"),
        "a/b/topo.dsl": ring("NVIDIA H100 80GB HBM3"),
        "a/b/c/plain.dsl": ring(""),
        "mixed.dsl": MIXED,
        "lib.dsl": "node n { gpus 2 }\n",
        "empty.dsl": "# nothing\n",
        ".hidden/x.dsl": RING,
        "1/2/3/4/deep.dsl": ring("A100"),
        "1/2/3/4/5/deeper.dsl": RING,
        "wrong.dsl": "cluster {\n",
        "other.txt": RING,
    })  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert run(["init"]) == 0
    told = capsys.readouterr().out
    assert "wrote hetesynth.toml: 6 clusters\n" in told and "skipped wrong.dsl: HS1" in told
    manifest = read_manifest(Path("hetesynth.toml"))
    targets = {
        cell.cluster: [c.target for c in manifest.cells if c.cluster == cell.cluster] for cell in manifest.cells
    }
    assert {name: [*dict.fromkeys(several)] for name, several in targets.items()} == {
        "ring": ["rccl-6", "torch"], "amd": ["rccl-6", "torch"], "b": ["mscclpp", "msccl-executor", "torch"],
        "plain": ["portable"], "mixed": ["portable"], "deep": ["mscclpp", "msccl-executor", "torch"],
    }  # fmt: skip
    written = Path("hetesynth.toml").read_text()
    assert written.startswith(f"#:schema ./{SCHEMA_NAME}\n") and Path(SCHEMA_NAME).read_text() == schema_text()


def test_it_replaces_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, {"ring.dsl": RING, "hetesynth.toml": "mine", SCHEMA_NAME: "mine too"})
    assert run(["init", str(tmp_path)]) == 2
    assert "HS644" in capsys.readouterr().err and (tmp_path / "hetesynth.toml").read_text() == "mine"
    (tmp_path / "hetesynth.toml").unlink()
    (tmp_path / "hetesynth.toml").symlink_to(tmp_path / "nowhere")
    with pytest.raises(HetesynthError, match="exists"):
        first_manifest(tmp_path)
    (tmp_path / "hetesynth.toml").unlink()
    assert run(["init", str(tmp_path), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["files"] == [facts["file"]] == [str(tmp_path / "hetesynth.toml")]
    assert [cluster["name"] for cluster in facts["clusters"]] == ["ring"] and facts["skipped"] == []
    assert (tmp_path / SCHEMA_NAME).read_text() == "mine too"


@pytest.mark.parametrize("files", [{}, {"lib.dsl": "node n { gpus 2 }\n"}, {"wrong.dsl": "cluster {"}])
def test_without_topologies_there_are_two_ways_out(
    files: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path, files)
    assert run(["init", str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert "HS869" in told and "--node-type" in told and "init DIR" in told
    assert ("wrong.dsl: HS1" in told) == ("wrong.dsl" in files)
    assert sorted(os.listdir(tmp_path)) == sorted(files)
    assert run(["init", str(tmp_path / "none")]) == 2
    assert run(["init", str(tmp_path), "--node-type", "h20x4"]) == 0
    assert (tmp_path / "topo.dsl").exists() and not (tmp_path / "hetesynth.toml").exists()
    assert run(["init", str(tmp_path)]) == 0
    assert len(read_manifest(tmp_path / "hetesynth.toml").clusters) == 1


def test_names_are_apart_and_do_not_depend_on_the_checkout(tmp_path: Path) -> None:
    write(tmp_path, dict.fromkeys(("topo.dsl", "Ring.dsl", "x/topo.dsl", "y/x.dsl", "a b.dsl", "ä.dsl"), RING))
    first = first_manifest(tmp_path)
    assert [(cluster.path, cluster.name) for cluster in first.clusters] == [
        ("Ring.dsl", "Ring"),
        ("x/topo.dsl", "x"),
    ]
    assert [path for path, _ in first.skipped] == ["a b.dsl", "topo.dsl", "ä.dsl", "y/x.dsl"]
    assert all("HS868" in reason for _, reason in first.skipped)
    other = tmp_path.with_name(tmp_path.name + "-other")
    tmp_path.rename(other)
    assert text(first_manifest(other)) == text(first)


def test_odd_paths_are_skipped(tmp_path: Path) -> None:
    odd = ['a"b.dsl', "e\tf.dsl", "g\nh.dsl", "i\u202ej.dsl"]
    write(tmp_path, dict.fromkeys((*odd, "o.dsl"), RING))
    (tmp_path / "q.dsl").symlink_to(tmp_path / "q.dsl")
    os.mkfifo(tmp_path / "r.dsl")
    with open(os.fsencode(tmp_path) + b"/s\xff.dsl", "w") as stream:
        stream.write(RING)
    first = first_manifest(tmp_path)
    write_first_manifest(first)
    assert [cluster.stated for cluster in read_manifest(tmp_path / "hetesynth.toml").clusters] == ["o.dsl"]
    assert len(first.skipped) == len(odd) + 1
