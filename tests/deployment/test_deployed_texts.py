"""Every text of a folder for two cells, on every target, as it is written."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from support.deployments import cell, deployment

from hetesynth.model.target import TARGETS

GOLDEN = Path(__file__).parent / "golden"
SHARED = ("hostfile", "machinefile", "rankfile", "slurm_hosts", "devices", "ranks.txt")
OF_TARGET = {
    "portable": (),
    "nccl-device": (),
    "torch": (),
    "jax": (),
    "mscclpp": ("smoke_test.sh", "load_plans.py"),
}
OF_XML = ("environment.sh", "smoke_test.sh")


@pytest.mark.parametrize("runtime", [name for name in TARGETS if name != "rccl-5"])  # as rccl-6
def test_the_texts_of_a_folder(runtime: str, golden) -> None:
    contents = deployment(runtime)
    texts = {name: data for name, data in contents.items() if not name.startswith(("algorithms/", "schedules/"))}
    expected = {"README.md", "expected.json", "index.json", *SHARED, *OF_TARGET.get(runtime, OF_XML)}
    assert texts.keys() == expected
    for name, data in texts.items():
        if name == "load_plans.py" or (name.endswith(".json") and runtime not in ("rccl-6", "mscclpp")):
            continue  # the same in every folder; test_plan_loader.py
        golden(GOLDEN / ("all" if name in SHARED else runtime) / name, data)


@pytest.mark.parametrize("shell", ["bash", "dash"])
@pytest.mark.parametrize("runtime", ["rccl-6", "mscclpp"])
def test_scripts_are_well_formed(runtime: str, shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    for name, data in deployment(runtime).items():
        if name.endswith(".sh"):
            (tmp_path / name).write_bytes(data)
            subprocess.run([shell, "-n", str(tmp_path / name)], check=True)


def test_a_rooted_collective_warns_of_other_roots_and_a_list_without_one_does_not() -> None:
    rooted = deployment("rccl-6", cell("rccl-6", "broadcast", 1024, 8_000_000))["README.md"].decode()
    assert "root of a call" in rooted and "passes a NIC" not in rooted
    assert "pass a NIC" in rooted
    plain = deployment("rccl-6")["README.md"].decode()
    assert "root of a call" not in plain and "pass a NIC" not in plain
