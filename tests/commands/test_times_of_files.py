"""Every time that a command calls a program's or a plan's is that of the file it wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hetesynth.cli.main import run
from hetesynth.engine.compare import compare
from hetesynth.engine.request import Request
from hetesynth.model.problem import Budget
from hetesynth.model.runtime_costs import NCCL_TABLES
from hetesynth.model.target import TARGETS

EXAMPLES = Path(__file__).parents[2] / "examples"
SMALL, MIXED = str(EXAMPLES / "ring8" / "topo.dsl"), str(EXAMPLES / "h20_4x3" / "topo.dsl")
Captured = pytest.CaptureFixture[str]


def printed(capsys: Captured, *arguments: str) -> dict[str, Any]:
    """What a command prints as JSON."""
    capsys.readouterr()
    assert run([*arguments, "--json"]) == 0, capsys.readouterr().err
    values: dict[str, Any] = json.loads(capsys.readouterr().out)
    return values


def simulated(capsys: Captured, file: str, topology: str, size: int, target: str, *more: str) -> float:
    """Microseconds that ``simulate`` says."""
    told = printed(capsys, "simulate", file, topology, "--size", f"{size}B", "--target", target, *more)
    return float(told["results"][0]["predicted_us"])


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("size", [(), ("--size", "4MB")])
def test_synth(target: str, size: tuple[str, ...], tmp_path: Path, capsys: Captured) -> None:
    asked = ["synth", SMALL, "--coll", "allreduce", "--target", target, "--effort", "0.05", *size]
    told = printed(capsys, *asked, "-o", str(tmp_path / "x"))
    expected = simulated(capsys, told["outputs"][0], SMALL, told.get("size_asked") or told["size"], target)
    assert told["program_us"] == pytest.approx(expected, rel=1e-9)
    assert told["program_predicted_us"] == pytest.approx(expected, rel=1e-9)
    assert ": est. " in told["verdict"]


@pytest.mark.parametrize("target", ["portable", "mscclpp"])
def test_build(target: str, tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "ring.dsl").write_text(Path(SMALL).read_text())
    (tmp_path / "hetesynth.toml").write_text(
        f'[defaults]\ncollectives = ["allgather"]\nsizes = ["1MB..4MB"]\ntargets = ["{target}"]\neffort = 0.05\n'
        '[[cluster]]\ntopology = "ring.dsl"\n'
    )
    manifest = str(tmp_path / "hetesynth.toml")
    assert run(["build", manifest, "--cache", str(tmp_path / "cache"), "--jobs", "1"]) == 0
    (index,) = tmp_path.glob("schedules/*/*/index.json")
    for cell in json.loads(index.read_text())["cells"]:
        name = next(n for n in cell["record"]["files"] if ".inplace" not in n and ".schedule." not in n)
        for row in cell["record"]["sizes"]:
            expected = simulated(capsys, str(index.parent / "algorithms" / name), SMALL, row["size"], target)
            assert row["program_us"] == pytest.approx(expected, rel=1e-9)


SLOW = [
    pytest.param(coll, "64KB..64MB", target, "1", marks=pytest.mark.slow)
    for coll in ("allgather", "allreduce", "alltoall")
    for target in ("mscclpp", "msccl-executor", "portable")
]


@pytest.mark.parametrize(
    ("coll", "sizes", "target", "effort"),
    [("allgather", "16MB", "mscclpp", "0.05"), ("allreduce", "16MB", "msccl-executor", "0.05"), *SLOW],
)
def test_atlas(coll: str, sizes: str, target: str, effort: str, tmp_path: Path, capsys: Captured) -> None:
    folder = tmp_path / "atlas"
    asked = ["atlas", MIXED, "--coll", coll, "--sizes", sizes, "--target", target, "--effort", effort]
    assert run([*asked, "-o", str(folder)]) == 0
    index = json.loads((folder / "index.json").read_text())
    told = {}
    for entry in index["ranges"]:
        file = next(name for name in entry["files"] if ".inplace" not in name and "schedules/" not in name)
        for row in entry["sizes"]:
            expected = simulated(capsys, str(folder / file), MIXED, row["size"], target)
            assert row["program_predicted_us"] == pytest.approx(expected, rel=1e-9), (file, row["size"])
            told[row["size"]] = expected
    for verdict in index["verdicts"]:
        assert verdict["program_us"] == pytest.approx(told[verdict["size"]], rel=1e-9)
    assert index["verdict"].startswith("16 MB: est. " if sizes == "16MB" else "64 KB to ")
    for path in sorted(folder.glob("schedules/*.json")):
        assert run(["verify", str(path), "--topo", MIXED]) == 0


def test_compare_claims_nothing_of_a_program_that_is_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Request(Path(SMALL), "allgather", runtime=NCCL_TABLES, budget=Budget(effort=0.05))
    for simulated_ in (True, False):
        if not simulated_:
            for module in ("pool", "program_ranking"):
                monkeypatch.setattr(f"hetesynth.engine.choice.{module}.MOST_TRANSFERS", 0)
        result = compare(asked, [10**6], ["double-tree"])
        (entry,) = result.entries
        assert entry.simulated is simulated_
        assert ("1 MB: not simulated" in result.verdict) is not simulated_
