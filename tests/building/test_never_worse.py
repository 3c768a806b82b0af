"""Never worse: what is deployed where a newer result is slower, fails its gates, or there is none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from support.one_cell_project import Here, Project
from support.small_projects import tree

from hetesynth.deploy.cache import CellResult
from hetesynth.deploy.figures import figures
from hetesynth.deploy.keeping import worse
from hetesynth.deploy.manifest.values import Cell, Gates
from hetesynth.model.size_range import SizeRange

ACCEPTING = True


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


def slower(result: CellResult, factor: float = 2.0) -> CellResult:
    """The result with every time multiplied."""
    sizes = [{**row, "program_us": row["program_us"] * factor} for row in result.record["sizes"]]
    return replace(result, record={**result.record, "sizes": sizes})


def test_a_worse_result_is_not_deployed_and_the_older_one_stays(project: Project) -> None:
    project.build(Here())
    before_row = project.row
    project.cluster(20)
    report = project.build(Here(slower))
    assert report.status == "kept"
    assert "slower" in report.messages[0]
    assert "--accept-worse" in report.messages[0]
    row = project.row
    assert row["made_for"] == before_row["key"] != row["key"] == report.key
    assert row["record"]["files"] == before_row["record"]["files"]
    was, now = figures(before_row["record"]), figures(row["record"])
    assert all(b.program_us > a.program_us for a, b in zip(was.sizes, now.sizes, strict=True)), (
        "links are slower now"
    )
    assert report.candidate is not None
    assert figures(report.candidate).sizes[0].program_us > now.sizes[0].program_us
    before, runner = tree(project.folder / "schedules"), Here()  # it is kept again without work or writing
    again = project.built(runner, cache="another cache")
    assert (again.cells[0].status, again.cells[0].messages) == ("kept", report.messages)
    assert (runner.names, again.written, again.ok) == ([], (), True)
    assert tree(project.folder / "schedules") == before


def test_accept_worse_deploys_the_newer(project: Project) -> None:
    project.build(Here())
    project.cluster(20)
    kept = project.build(Here(slower))
    runner = Here(slower)
    report = project.build(runner, ACCEPTING)
    assert report.status == "built"
    assert runner.names == [report.cell.name], "the cache has it only where a worker put it there"
    assert project.row["made_for"] == project.row["key"] == kept.key
    assert project.build(Here()).status == "current"


def test_an_older_one_over_a_lost_link_does_not_stay(project: Project) -> None:
    project.build(Here())
    project.edit_cluster("<->", "->")
    report = project.build(Here(lambda result: slower(result, 100)))
    assert report.status == "built"
    assert report.messages == (
        "the older one does not stay: it sends from 0 to 2, where the topology has no link",
    )
    assert project.row["made_for"] == report.key


def test_a_failed_cell_leaves_the_older_one_that_still_verifies(project: Project) -> None:
    project.build(Here())
    before, programs = project.row, project.programs
    project.cluster(20)
    report = project.build(Here(None))
    assert report.status == "failed"
    assert report.messages == ("HS502: no program fits", "the older one stays: it still verifies")
    assert project.programs == programs
    assert project.row["key"] == before["key"], "so that the next build tries again"
    assert project.build(Here()).status == "built"


def test_a_result_that_fails_its_gates_is_withheld(project: Project) -> None:
    project.gates = Gates(factor_over_library=1000.0)
    report = project.built(Here())
    assert not report.ok
    assert report.cells[0].status == "withheld"
    assert "is less than 1000" in report.cells[0].messages[0]
    assert not project.programs
    assert project.build(Here(), ACCEPTING).status == "withheld", "gates are not a matter of better and worse"
    project.gates = Gates()
    assert project.build(Here()).status == "built"


def test_an_older_one_that_meets_the_gates_stays_where_the_newer_does_not(project: Project) -> None:
    project.build(Here())
    project.gates = Gates(steps=figures(project.row["record"]).steps)
    project.cluster(20)

    def longer(result: CellResult) -> CellResult:
        return replace(result, record={**result.record, "steps": result.record["steps"] + 100})

    before = project.row["key"]
    for runner in (Here(longer), Here(None)):  # the second build decides by what the folder says
        report = project.build(runner)
        assert report.status == "withheld"
        assert "is more than" in report.messages[0]
        assert project.row["made_for"] == before


def test_steps_decide_between_equally_quick_schedules_of_stated_chunks(project: Project) -> None:
    project.build(Here())
    record = figures(project.row["record"])
    longer = replace(record, steps=record.steps + 1)
    chunks = Cell("three", "allgather", 1, "rccl-6")
    sizes = Cell("three", "allgather", SizeRange(1, 2, "1B..2B"), "rccl-6")
    assert worse(chunks, longer, record) == (
        f"the newer has {longer.steps} steps, the older {record.steps}, and is not quicker"
    )
    assert not worse(chunks, record, longer)
    assert not worse(sizes, longer, record)
    quicker = tuple(replace(row, program_us=row.program_us * 0.9) for row in record.sizes)
    assert not worse(chunks, replace(longer, sizes=quicker), record)


def test_a_size_without_a_program_is_worse_and_does_not_hide_a_slower_one(project: Project) -> None:
    project.build(Here())
    record = figures(project.row["record"])
    sizes = Cell("three", "allgather", SizeRange(1, 2, "1B..2B"), "rccl-6")
    first = record.sizes[0]
    none = replace(first, size=first.size + 1, program_us=None, library_us=None)
    slower = replace(first, program_us=first.us * 1.015)
    older = replace(record, sizes=(first, none))
    assert "1.5 % slower" in worse(sizes, replace(record, sizes=(slower, none)), older)
    assert "nothing for" in worse(sizes, older, replace(record, sizes=(first, replace(none, program_us=1.0))))
    assert not worse(sizes, older, older)
