"""Every text of a folder for two cells, on every target, as it is written."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest
from support.deployments import cell, deployment, two_cells

from hetesynth.model.target import TARGETS

GOLDEN = Path(__file__).parent / "golden"
SHARED = ("hostfile", "machinefile", "rankfile", "slurm_hosts", "devices", "ranks.txt")
OF_TARGET = {"portable": (), "mscclpp": ("smoke_test.sh", "load_plans.py")}
OF_XML = ("environment.sh", "smoke_test.sh")


@pytest.mark.parametrize("runtime", TARGETS)
def test_the_texts_of_a_folder(runtime: str, golden) -> None:
    contents = deployment(runtime).contents()
    texts = {name: data for name, data in contents.items() if not name.startswith(("algorithms/", "schedules/"))}
    expected = {"README.md", "expected.json", "index.json", *SHARED, *OF_TARGET.get(runtime, OF_XML)}
    assert texts.keys() == expected
    for name, data in texts.items():
        if name == "load_plans.py":
            continue  # the same in every folder; test_plan_loader.py
        golden(GOLDEN / ("all" if name in SHARED else runtime) / name, data)


@pytest.mark.parametrize("runtime", TARGETS)
def test_programs_are_alone_and_the_index_has_every_file(runtime: str) -> None:
    cells = two_cells(runtime)
    contents = deployment(runtime, *cells).contents()
    algorithms = {name for name in contents if name.startswith("algorithms/")}
    assert algorithms == {f"algorithms/{p.name}" for c in cells for p in c.programs}
    index = json.loads(contents["index.json"])
    assert index["files"] == {
        name: hashlib.sha256(data).hexdigest() for name, data in contents.items() if name != "index.json"
    }


@pytest.mark.parametrize("runtime", TARGETS)
def test_nothing_of_this_machine_is_in_a_folder(runtime: str) -> None:
    for name, data in deployment(runtime).contents().items():
        assert str(Path.cwd()).encode() not in data and b"/home/" not in data, name


@pytest.mark.parametrize("shell", ["sh", "bash", "dash"])
@pytest.mark.parametrize("runtime", [name for name in TARGETS if name != "portable"])
def test_scripts_are_well_formed(runtime: str, shell: str, tmp_path: Path) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    for name, data in deployment(runtime).contents().items():
        if name.endswith(".sh"):
            (tmp_path / name).write_bytes(data)
            subprocess.run([shell, "-n", str(tmp_path / name)], check=True)


def test_the_index_begins_with_the_mark_that_lets_it_be_replaced() -> None:
    from hetesynth.deploy.folder.folder import MARK

    assert MARK in deployment("rccl-6").contents()["index.json"][:4096]


def test_expected_times_have_the_bandwidths_of_the_tests() -> None:
    [row] = json.loads(
        deployment("rccl-6", cell("rccl-6", "allreduce", 1024, 8_000_000)).contents()["expected.json"]
    )["cells"]
    first, last = row["sizes"]
    assert first["algbw"] == round(1024 / 12.5e-6 / 1e9, 3)
    assert last["busbw"] == round(8_000_000 / 800.25e-6 * 14 / 8 / 1e9, 3)
    assert (first["library_microseconds"], last["library_microseconds"]) == (20.0, None)


def test_a_rooted_collective_warns_of_other_roots_and_a_list_without_one_does_not() -> None:
    rooted = deployment("rccl-6", cell("rccl-6", "broadcast", 1024, 8_000_000)).contents()["README.md"].decode()
    assert "root of a call" in rooted and "broadcast, root 0" in rooted and "passes a NIC" not in rooted
    assert "pass a NIC" in rooted
    plain = deployment("rccl-6").contents()["README.md"].decode()
    assert "root of a call" not in plain and "pass a NIC" not in plain
