"""Pipes and devices in the place of files of a build: nothing waits for them, nothing reads them for ever."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.one_cell_project import Here, Project

from hetesynth.cli.main import run
from hetesynth.deploy.cell_check import CheckedCell, objections


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    """A project whose folder is built. What waits for a pipe fails after half a minute."""
    project = Project(tmp_path)
    project.build(Here())

    def late(number: int, frame: Any) -> None:
        raise AssertionError("it waited")

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(30)
    yield project
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def made_odd(path: Path, kind: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_program_that_is_no_file_is_damaged(project: Project, kind: str) -> None:
    program = next(project.deployed.glob("algorithms/*.xml"))
    made_odd(program, kind)
    assert project.check().cells[0].status == "invalid"
    assert run(["install-hint", str(project.deployed)]) == 0
    assert project.build(Here()).status == "built"
    assert program.is_file()
    assert not program.is_symlink()


def test_what_a_cache_gives_is_judged_as_it_was_read(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not what is called like it in the current folder."""
    for program in project.deployed.glob("algorithms/*.xml"):
        made_odd(project.folder / "algorithms" / program.name, "pipe")
    monkeypatch.chdir(project.folder)
    result = project.made_by("auto")
    assert objections(CheckedCell.given(project.job, result)) == ()
