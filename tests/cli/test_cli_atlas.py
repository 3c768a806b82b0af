"""The command ``atlas``: ranges tile, every runtime picks the right file, the folder is whole or not there."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from hetesynth.cli.main import run
from hetesynth.model.target import TARGETS, Target

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
DGX1 = str(EXAMPLES / "dgx1" / "topo.dsl")
XML_TARGETS = ("portable", "msccl", "rccl-6", "msccl-executor")


def few_counts(patch: pytest.MonkeyPatch, counts: tuple[int, ...]) -> None:
    """Few numbers of chunks are tried."""
    patch.setattr("hetesynth.engine.choice.candidates.CHUNK_COUNTS", counts)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An atlas of DGX-1's allgather for all runtimes."""
    folder = tmp_path_factory.mktemp("atlas") / "all"
    with pytest.MonkeyPatch.context() as patch:
        few_counts(patch, (1, 6))
        arguments = ["--coll", "allgather", "--sizes", "256B,64MB", "--effort", "1", "-o", str(folder)]
        targets = ",".join((*XML_TARGETS, "mscclpp"))
        assert run(["atlas", DGX1, *arguments, "--target", targets]) == 0
    return folder


def index_of(folder: Path) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((folder / "index.json").read_text())
    return result


def limits(text: str) -> tuple[int, int]:
    found = dict(re.findall(r'(minBytes|maxBytes)="([0-9]+)"', text))
    return int(found["minBytes"]), int(found["maxBytes"])


def picked(folder: Path, target: Target, size: int, *, in_place: bool) -> list[str]:
    """The files of ``target`` that its reader would take for a buffer of ``size`` bytes."""
    taken = []
    for path in sorted((folder / target.name).glob("*.xml")):
        text = path.read_text()
        least, most = limits(text)
        inside = size < most if not target.max_bytes_inclusive else (most == 0 or size <= most)
        if f'inplace="{int(in_place)}"' in text and least <= size and inside:
            taken.append(path.name)
    return taken


def test_a_program_that_loses_is_written_where_that_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    link = "link gpu0 <-> gpu1 { bandwidth 25 GB/s; latency 1 us }"
    cluster = tmp_path / "pair.dsl"
    cluster.write_text(f"cluster pair {{ instance a = two }}\nnode two {{ gpus 2; {link} }}")
    asked = ["atlas", str(cluster), "--coll", "allgather", "--sizes", "1MB", "--target", "torch", "-o"]
    for folder, more in (tmp_path / "without", []), (tmp_path / "with", ["--always"]):
        assert run([*asked, str(folder), *more]) == 0
        assert len([*folder.rglob("*.torch.json")]) == len(more)
        said = capsys.readouterr().out
        assert ("from 2 MiB" if more else "the library is quicker at all sizes") in said


def test_every_runtime_picks_one_file_for_every_size(made: Path) -> None:
    ranges = index_of(made)["ranges"]
    assert len(ranges) > 1 and ranges[0]["min_bytes"] == 0 and ranges[-1]["max_bytes"] is None
    assert all(after["min_bytes"] == before["max_bytes"] + 1 for before, after in pairwise(ranges))
    listed = {name for r in ranges for name in r["files"]}
    there = {p.relative_to(made).as_posix() for p in made.rglob("*") if p.is_file()}
    assert there == listed | {"index.json", "bandwidth.svg"}
    edges = [r["max_bytes"] for r in ranges if r["max_bytes"]]
    sizes = sorted({s + d for s in (1024, *edges, 2**40) for d in (-1, 0, 1, 1024)})
    for name in XML_TARGETS:
        for size in sizes:
            for in_place in (False, True):
                found = picked(made, TARGETS[name], size, in_place=in_place)
                wanted = [i for i, r in enumerate(ranges) if r["min_bytes"] <= size <= (r["max_bytes"] or 2**50)]
                assert len(found) == len(wanted) == 1, (name, size, found)
                assert f"-{wanted[0]}." in found[0]
    plans = [json.loads(p.read_text()) for p in sorted((made / "mscclpp").glob("*.inplace.json"))]
    limit = ranges[-1]["mscclpp_max_bytes"]
    assert 2**32 - 2**13 <= limit < 2**32
    for size in (*sizes, limit, limit + 1):
        assert sum(p["min_message_size"] <= size <= p["max_message_size"] for p in plans) == (size <= limit)


def test_an_atlas_repeats(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    topology = str(EXAMPLES / "fig10" / "topo.dsl")
    arguments = ["--coll", "gather", "--sizes", "1KB,1MB", "--strategy", "greedy", "--chunks", "2"]
    for name in ("a", "b"):
        assert run(["atlas", topology, *arguments, "-o", str(tmp_path / name)]) == 0
    first, second = (
        {p.relative_to(tmp_path / n).as_posix(): p.read_bytes() for p in (tmp_path / n).rglob("*") if p.is_file()}
        for n in ("a", "b")
    )
    assert first == second and len(first) >= 4
    # an atlas may replace an atlas, and nothing else
    capsys.readouterr()
    assert run(["atlas", topology, *arguments, "-o", str(tmp_path / "a"), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["directory"] == str(tmp_path / "a") and "index.json" in summary["files"]
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep me")
    assert run(["atlas", topology, *arguments, "-o", str(tmp_path / "mine")]) == 2
    assert "HS631" in capsys.readouterr().err
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["notes.txt"]
    assert run(["atlas", topology, *arguments, "-o", str(tmp_path / "no" / "where")]) == 2


def test_plans_end_where_mscclpp_can_no_longer_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few_counts(monkeypatch, (1,))
    folder = tmp_path / "scatter"
    sizes = ["--sizes", "1MB,16GiB", "--effort", "1", "-o", str(folder)]
    assert run(["atlas", DGX1, "--coll", "scatter", *sizes, "--target", "mscclpp"]) == 0
    said = capsys.readouterr().out
    ranges = index_of(folder)["ranges"]
    last = ranges[-1]
    assert 4 * 2**30 - 2**12 < last["high"] < 4 * 2**30
    assert last["max_bytes"] * 8 == last["high"]
    assert last["max_bytes"] == last["mscclpp_max_bytes"]
    plans = [json.loads((folder / f).read_text()) for f in last["files"] if "mscclpp" in f]
    assert plans and {plan["max_message_size"] for plan in plans} == {last["high"]}
    assert "plans for MSCCL++ end at 536.9 MB a rank" in said


def test_sizes_that_no_plan_can_have_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "none"
    asked = ["--coll", "allgather", "--target", "mscclpp", "--effort", "1", "-o", str(folder)]
    assert run(["atlas", DGX1, *asked, "--sizes", "4GiB,16GiB"]) == 2
    assert "HS509" in capsys.readouterr().err and not folder.exists()
    assert run(["synth", DGX1, *asked, "--size", "8GiB"]) == 2
    said = capsys.readouterr().err
    assert "HS509" in said and "no schedule can" in said and "up to" not in said and not list(tmp_path.iterdir())
