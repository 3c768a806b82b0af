"""What somebody changed in a folder: what a check refuses, a build mends, and both agree on what stays."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.one_cell_project import Here, Project
from support.small_projects import tree

from hetesynth.cli.main import run
from hetesynth.deploy.cache import Cache, CellResult
from hetesynth.errors import HetesynthError

PROGRAM = "allgather-64KB-16MB.xml"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    project = Project(tmp_path)
    project.build(Here(cached(project)))
    return project


def cached(project: Project, change: Callable[[CellResult], CellResult] = lambda result: result) -> Any:
    """A result that is in the cache too, as one of a worker is."""

    def kept(result: CellResult) -> CellResult:
        Cache(project.folder / "cache").put(change(result))
        return change(result)

    return kept


def edit_row(project: Project, edit: Callable[[dict[str, Any]], object]) -> None:
    path = project.deployed / "index.json"
    values = json.loads(path.read_text())
    edit(values["cells"][0])
    path.write_text(json.dumps(values, indent=1) + "\n")


def edit_program(project: Project) -> None:
    path = project.deployed / "algorithms" / PROGRAM
    path.write_text(path.read_text().replace('cnt="1"', 'cnt="2"', 1))
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    edit_row(project, lambda row: row["record"]["files"].update({PROGRAM: digest}))


def edit_times(project: Project) -> None:
    edit_row(project, lambda row: row["record"]["sizes"][0].update(percent_of_limit=100.0))


def edit_programs(project: Project) -> None:
    edit_row(project, lambda row: row["record"].update(programs=[]))


@pytest.mark.parametrize(
    ("edit", "stays"),
    [
        (edit_program, False),
        (edit_times, False),
        (edit_programs, True),
    ],
)
def test_a_cell_that_was_changed_with_its_digests_is_put_back(
    project: Project, edit: Callable[[Project], None], stays: bool
) -> None:
    if stays:
        project.cluster(20)
        assert project.build(Here(cached(project, lambda result: project.made_by("double-tree")))).status == "kept"
    before = tree(project.deployed)
    edit(project)
    assert project.check().cells[0].status == "invalid"
    report = project.built(Here(None))
    assert [cell.status for cell in report.cells] == ["kept" if stays else "current"]
    notes = [warning for warning in report.warnings if "the library somewhere" not in warning]
    assert (len(report.written), len(notes)) == (1, 1)
    assert "was changed" in report.warnings[0]
    assert tree(project.deployed) == before
    assert project.check().ok


def test_a_record_that_says_fewer_steps_does_not_stay(project: Project) -> None:
    manifest = project.folder / "hetesynth.toml"
    manifest.write_text(manifest.read_text().replace('sizes = ["64KB..16MB"]', "chunks = 1"))
    project.build(Here())
    edit_row(project, lambda row: row["record"].update(steps=0))
    manifest.write_text(manifest.read_text().replace("chunks = 1", "chunks = 1\nseed = 1"))
    assert project.build(Here()).status == "built"
    assert project.check().ok


def test_after_a_failure_the_former_cluster_has_its_former_times(project: Project) -> None:
    before = tree(project.folder / "schedules")
    project.cluster(20)
    assert project.build(Here(None)).status == "failed"
    project.cluster(25)
    assert not project.check().ok
    assert project.build(Here(None)).status == "cached"
    assert tree(project.folder / "schedules") == before


@pytest.mark.parametrize("value", ["x", None])
def test_a_candidate_that_is_none_is_no_candidate(project: Project, value: object) -> None:
    def edit(row: dict[str, Any]) -> None:
        row["made_for"] = "0" * 64
        row["record"]["instead_of"] = value

    edit_row(project, edit)
    assert project.check(quick=True).cells[0].status == "invalid"
    assert project.build(Here(None)).status == "cached"


def test_a_folder_without_its_index_is_to_be_moved_away(project: Project) -> None:
    (project.deployed / "index.json").unlink()
    before = tree(project.folder / "schedules")
    with pytest.raises(HetesynthError, match="files of another kind") as refused:
        project.build(Here(None))
    assert "move what is there away" in refused.value.help
    assert tree(project.folder / "schedules") == before


@pytest.mark.parametrize("layout", ["aside/{cluster}/{target}", "{cluster}"])
def test_no_folder_is_where_results_are_that_are_not_deployed(
    project: Project, layout: str, capsys: pytest.CaptureFixture[str]
) -> None:
    manifest = project.folder / "hetesynth.toml"
    text = manifest.read_text().replace('"three.dsl"', '"three.dsl"\nname = "Aside"')
    manifest.write_text(f'{text}\n[output]\nlayout = "{layout}"\n')
    assert run(["build", str(manifest), "--check"]) == 2
    assert "HS868" in capsys.readouterr().err
