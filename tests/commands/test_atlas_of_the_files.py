"""What an atlas calls a program's or a plan's time is that of the file it wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hetesynth.cli.main import run

EXAMPLES = Path(__file__).parents[2] / "examples"


SLOW = [
    pytest.param(coll, "64KB..64MB", target, "1", marks=pytest.mark.slow)
    for coll in ("allgather", "allreduce", "alltoall")
    for target in ("mscclpp", "msccl-executor", "portable")
]


@pytest.mark.parametrize(
    ("coll", "sizes", "target", "effort"),
    [
        ("allgather", "16MB", "mscclpp", "0.05"),
        ("allreduce", "16MB", "msccl-executor", "0.05"),
        *SLOW,
    ],
)
def test_times_are_those_of_the_files(
    coll: str, sizes: str, target: str, effort: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    topology, folder = str(EXAMPLES / "h20_4x3" / "topo.dsl"), tmp_path / "atlas"
    asked = ["atlas", topology, "--coll", coll, "--sizes", sizes, "--target", target, "--effort", effort]
    assert run([*asked, "-o", str(folder)]) == 0
    index = json.loads((folder / "index.json").read_text())
    capsys.readouterr()
    told = {}
    for entry in index["ranges"]:
        file = next(name for name in entry["files"] if ".inplace" not in name and "schedules/" not in name)
        for row in entry["sizes"]:
            asked = ["simulate", str(folder / file), topology, "--size", f"{row['size']}B", "--target", target]
            assert run([*asked, "--json"]) == 0
            simulated = json.loads(capsys.readouterr().out)["results"][0]["predicted_us"]
            assert row["program_predicted_us"] == pytest.approx(simulated, rel=1e-9), (file, row["size"])
            told[row["size"]] = simulated
    for verdict in index["verdicts"]:
        assert verdict["program_us"] == pytest.approx(told[verdict["size"]], rel=1e-9)
    assert index["verdict"].startswith("plan" if target == "mscclpp" else "program")
    for path in sorted(folder.glob("schedules/*.json")):
        assert run(["verify", str(path), "--topo", topology]) == 0
