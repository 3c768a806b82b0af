"""``build --check``: every kind of damage, and that nothing is written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from support.one_cell_project import Here, Project
from support.small_projects import tree

from hetesynth.cli.main import run
from hetesynth.deploy.outcome import BuildReport

Edit = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    Project(folder).build(Here())
    return folder


@pytest.fixture
def project(tmp_path: Path, built: Path) -> Project:
    project = Project(tmp_path)
    shutil.copytree(built / "schedules", tmp_path / "schedules")
    return project


def edit_index(project: Project, edit: Edit) -> None:
    path = project.deployed / "index.json"
    values = json.loads(path.read_text())
    edit(values)
    path.write_text(json.dumps(values, indent=1) + "\n")


def states(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*")}


def said(report: BuildReport) -> str:
    words = [" ".join((cell.status, *cell.messages)) for cell in report.cells]
    return "\n".join([*words, *(finding.message for finding in report.folders)])


@pytest.mark.parametrize("quick", [False, True])
def test_after_a_build_all_is_current_and_nothing_is_written(project: Project, quick: bool) -> None:
    before = states(project.folder)
    report = project.check(quick=quick)
    assert report.ok
    assert report.checked
    assert (said(report), report.written) == ("current", ())
    assert states(project.folder) == before


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("suffix", [".inplace.xml", ".schedule.json"])
def test_a_changed_byte_and_a_deleted_file(project: Project, suffix: str, quick: bool) -> None:
    path = next(p for p in sorted(project.deployed.rglob(f"*16MB{suffix}")))
    whole = path.read_bytes()
    path.write_bytes(whole[:50] + bytes([whole[50] ^ 1]) + whole[51:])
    report = project.check(quick=quick)
    assert not report.ok
    assert said(report) == f"invalid {path.relative_to(project.deployed)} was changed"
    path.unlink()
    assert "cannot be read" in said(project.check(quick=quick))
    project.build(Here())
    assert project.check(quick=quick).ok


def test_a_program_that_a_judge_refuses_although_the_digests_were_changed_too(project: Project) -> None:
    path = next(p for p in project.deployed.rglob("*16MB.xml"))
    data = path.read_bytes().replace(b'type="s"', b'type="nop"', 1)
    assert data != path.read_bytes()
    path.write_bytes(data)
    digest = sha256(data).hexdigest()

    def edit(values: dict[str, Any]) -> None:
        values["cells"][0]["record"]["files"][path.name] = digest
        values["files"][f"algorithms/{path.name}"] = digest

    edit_index(project, edit)
    assert project.check(quick=True).ok, "quick compares digests alone"
    report = project.check()
    assert report.cells[0].status == "invalid"
    assert path.name in report.cells[0].messages[0]


RECORD_EDITS: dict[str, tuple[Edit, str]] = {
    "a time": (lambda record: record["sizes"][1].update(program_us=1.0), "its record says program_us 1,"),
    "a share of the limit": (lambda record: record["sizes"][0].update(percent_of_limit=9.0), "percent_of_limit 9"),
    "a factor": (lambda record: record["sizes"][0].update(factor_over_library=9.0), "factor_over_library 9"),
    "steps": (lambda record: record.update(steps=9), "its record says 9 steps, its schedule has"),
    "a proof": (lambda record: record.update(proven_optimal=True, lower_bound=0), "proved to be the least"),
    "sizes": (lambda record: record.update(sizes="none"), "row of the index is damaged"),
    "calls": (lambda record: record.update(calls=[0, 1]), "it is for other sizes"),
    "root": (lambda record: record.update(root=1), "it is for root 1, not None"),
    "files that are none": (lambda record: record.update(files=3), "its row of the index is damaged"),
    "no files": (lambda record: record.update(files={}), "row of the index is damaged"),
}  # fmt: skip


@pytest.mark.parametrize("name", RECORD_EDITS)
def test_a_record_that_was_edited(project: Project, name: str) -> None:
    edit, words = RECORD_EDITS[name]
    edit_index(project, lambda values: edit(values["cells"][0]["record"]))
    report = project.check()
    assert report.cells[0].status == "invalid"
    assert words in said(report)


INDEX_EDITS: dict[str, tuple[Edit, str]] = {
    "the key": (lambda values: values["cells"][0].update(key="0" * 64), "stale"),
    "another cluster's digest": (lambda values: values.update(topology_sha256="0"), "index.json is not what"),
    "the digest of a file": (lambda values: values["files"].update(x="0"), "index.json is not what"),
    "a cell too many": (
        lambda values: values["cells"].append({**values["cells"][0], "name": "three/rccl-6/alltoall/1 chunk"}),
        "cells that the manifest does not name: three/rccl-6/alltoall/1 chunk",
    ),
    "a name that is none": (lambda values: values["cells"][0].update(name=["three"]), "missing there is none"),
    "a record that is none": (lambda values: values["cells"][0].update(record=[]), "row of the index is damaged"),
    "a row that is none": (lambda values: values["cells"].append(3), "index.json is not what"),
    "no cells": (lambda values: values.update(cells=[]), "missing there is none"),
    "another kind": (lambda values: values.update(kind="else"), "invalid the index of its folder is damaged"),
    "no rows": (lambda values: values.update(cells={"a": 1}), "missing there is none"),
}  # fmt: skip


@pytest.mark.parametrize("name", INDEX_EDITS)
def test_an_index_that_was_edited(project: Project, name: str) -> None:
    edit, words = INDEX_EDITS[name]
    (project.deployed / "algorithms/other.xml").write_text("<algo/>")  # said beside it
    shutil.copytree(project.deployed, project.folder / "schedules/four/rccl-6")
    edit_index(project, edit)
    for quick in (False, True):
        report = project.check(quick=quick)
        assert not report.ok
        assert words in said(report) and "no part of it: algorithms/other.xml" in said(report)
        assert "the manifest does not name it; a build leaves it alone" in said(report)


def test_an_index_that_is_cut_or_gone(project: Project) -> None:
    path = project.deployed / "index.json"
    path.write_bytes(path.read_bytes()[:500])
    assert "invalid the index of its folder is damaged" in said(project.check())
    path.unlink()
    assert "missing there is none" in said(project.check())
    shutil.rmtree(project.folder / "schedules")
    assert said(project.check()) == "missing there is none"


def test_a_stale_cell_that_still_verifies_is_said_to_with_its_time_there(project: Project) -> None:
    project.cluster(20)
    report = project.check()
    (cell,) = report.cells
    assert not report.ok
    assert cell.status == "stale"
    assert cell.messages[0] == "the cluster changed"
    assert "it still verifies on the cluster as it is" in cell.messages[1]
    assert "us before" in cell.messages[1]
    quick = project.check(quick=True).cells[0]
    assert (quick.status, quick.messages) == ("stale", ("the cluster changed",))
    project.edit_cluster("<->", "->")
    (cell,) = project.check().cells
    assert "on the cluster as it is it does not verify: the link" in cell.messages[1]


def test_the_command_says_it_and_ends_with_1(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = str(project.folder / "hetesynth.toml")
    before = tree(project.folder)
    assert run(["build", manifest, "--check", "--jobs", "1"]) == 0
    assert "all current" in capsys.readouterr().out
    project.cluster(20)
    assert run(["build", manifest, "--check", "--quick"]) == 1
    assert "three/rccl-6/allgather/64KB..16MB: the cluster changed" in capsys.readouterr().out
    project.cluster(25)
    assert tree(project.folder) == before


def test_options_that_have_no_meaning_together(project: Project, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = str(project.folder / "hetesynth.toml")
    assert run(["build", manifest, "--quick"]) == 2
    assert "HS853" in capsys.readouterr().err
    assert run(["build", manifest, "--check", "--accept-worse"]) == 2
    assert "HS854" in capsys.readouterr().err
