"""What somebody changed in a folder: what a check refuses, a build mends, and both agree on what stays."""

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
from hetesynth.deploy.cache import Cache, CellResult
from hetesynth.deploy.outcome import BuildReport
from hetesynth.errors import HetesynthError

Edit = Callable[[dict[str, Any]], object]


def cached(project: Project, change: Callable[[CellResult], CellResult] = lambda result: result) -> Any:
    """A result that is in the cache too, as one of a worker is."""

    def kept(result: CellResult) -> CellResult:
        Cache(project.folder / "cache").put(change(result))
        return change(result)

    return kept


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    project = Project(folder)
    project.build(Here(cached(project)))
    return folder


@pytest.fixture
def project(tmp_path: Path, built: Path) -> Project:
    project = Project(tmp_path)
    for name in ("schedules", "cache"):
        shutil.copytree(built / name, tmp_path / name)
    return project


def edit_index(project: Project, edit: Edit) -> None:
    path = project.deployed / "index.json"
    values = json.loads(path.read_text())
    edit(values)
    path.write_text(json.dumps(values, indent=1) + "\n")


def said(report: BuildReport) -> str:
    words = [" ".join((cell.status, *cell.messages)) for cell in report.cells]
    return "\n".join([*words, *(finding.message for finding in report.folders)])


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("suffix", [".inplace.xml", ".schedule.json"])
def test_a_changed_byte_and_a_deleted_file(project: Project, suffix: str, quick: bool) -> None:
    path = next(p for p in sorted(project.deployed.rglob(f"*16MB{suffix}")))
    whole = path.read_bytes()
    path.write_bytes(whole[:50] + bytes([whole[50] ^ 1]) + whole[51:])
    report = project.check(quick=quick)
    assert not report.ok
    assert said(report) == f"invalid {path.name} was changed"
    path.unlink()
    assert "cannot be read" in said(project.check(quick=quick))
    project.build(Here())
    assert project.check(quick=quick).ok


RECORD_EDITS: dict[str, tuple[Edit, str]] = {
    "a time": (lambda record: record["sizes"][1].update(program_us=1.0), "other sizes than come out"),
    "a factor": (lambda record: record["sizes"][0].update(factor_over_library=9.0), "other sizes than come out"),
    "steps": (lambda record: record.update(steps=9), "its record says other steps"),
    "a proof": (lambda record: record.update(proven_optimal=True, lower_bound=0), "proved to be the least"),
    "sizes": (lambda record: record.update(sizes="none"), "sizes in its record is not"),
    "calls": (lambda record: record.update(calls=[0, 1]), "it is for other calls"),
    "no files": (lambda record: record.update(files={}), "without its file"),
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
    "the digest of a file": (lambda values: values["files"].update(x="0"), "not what a build would write"),
    "a cell too many": (
        lambda values: values["cells"].append({**values["cells"][0], "name": "three/rccl-6/alltoall/1 chunk"}),
        "cells that the manifest does not name: three/rccl-6/alltoall/1 chunk",
    ),
    "a record that is none": (lambda values: values["cells"][0].update(record=[]), "invalid it has no record"),
    "a row that is none": (lambda values: values["cells"].append(3), "not what a build would write: index.json"),
    "no cells": (lambda values: values.update(cells=[]), "missing there is none"),
    "another kind": (lambda values: values.update(kind="else"), "invalid the index of its folder is damaged"),
}  # fmt: skip


@pytest.mark.parametrize("name", INDEX_EDITS)
def test_an_index_that_was_edited(project: Project, name: str) -> None:
    edit, words = INDEX_EDITS[name]
    (project.deployed / "algorithms/a.xml").write_text("<algo/>")  # said beside it
    shutil.copytree(project.deployed, project.folder / "schedules/four/rccl-6")
    edit_index(project, edit)
    for quick in (False, True):
        report = project.check(quick=quick)
        assert not report.ok
        assert words in said(report) and "algorithms/a.xml" in said(report)
        assert "the manifest does not name it; a build leaves it alone" in said(report)


def test_a_stale_cell_that_still_verifies_is_said_to_with_its_time_there(project: Project) -> None:
    project.cluster(20)
    report = project.check()
    (cell,) = report.cells
    assert not report.ok
    assert cell.status == "stale"
    assert cell.messages[0] == "the cluster changed"
    assert "it still verifies on the cluster as it is" in cell.messages[1]
    quick = project.check(quick=True).cells[0]
    assert (quick.status, quick.messages) == ("stale", ("the cluster changed",))
    project.edit_cluster("<->", "->")
    (cell,) = project.check().cells
    assert "on the cluster as it is it does not verify: " in cell.messages[1]


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


# --- what a build makes of it


def edit_row(project: Project, edit: Edit) -> None:
    edit_index(project, lambda values: edit(values["cells"][0]))


def edit_program(project: Project) -> None:
    path = min((project.deployed / "algorithms").glob("*B.xml"))
    path.write_text(path.read_text().replace('cnt="1"', 'cnt="2"', 1))
    digest = sha256(path.read_bytes()).hexdigest()
    edit_row(project, lambda row: row["record"]["files"].update({path.name: digest}))


def edit_times(project: Project) -> None:
    edit_row(project, lambda row: row["record"]["sizes"][0].update(percent_of_limit=100.0))


def edit_programs(project: Project) -> None:
    edit_row(project, lambda row: row["record"].update(programs=[]))


@pytest.mark.parametrize(("edit", "stays"), [(edit_program, False), (edit_times, False), (edit_programs, True)])
def test_a_cell_that_was_changed_with_its_digests_is_put_back(
    project: Project, edit: Callable[[Project], None], stays: bool
) -> None:
    if stays:
        project.cluster(20)
        assert project.build(Here(cached(project, lambda result: project.made_by("double-tree")))).status == "kept"
    before = tree(project.deployed)
    edit(project)
    quick = project.check(quick=True).cells[0].status
    assert quick != "invalid" or edit is not edit_program, "quick compares digests alone"
    assert project.check().cells[0].status == "invalid"
    report = project.built(Here(None))
    assert [cell.status for cell in report.cells] == ["cached"]
    notes = [warning for warning in report.warnings if "the library somewhere" not in warning]
    assert (len(report.written), len(notes)) == (1, 1)
    assert "was changed" in report.warnings[0]
    assert stays or tree(project.deployed) == before
    assert project.check().ok


def test_a_folder_without_its_index_is_to_be_moved_away(project: Project) -> None:
    (project.deployed / "index.json").unlink()
    before = tree(project.folder / "schedules")
    with pytest.raises(HetesynthError, match="files of another kind") as refused:
        project.build(Here(None))
    assert "move what is there away" in refused.value.help
    assert tree(project.folder / "schedules") == before
