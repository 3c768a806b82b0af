"""The workflow for GitHub does what its comments say: its steps run in a copy of the example project."""

from __future__ import annotations

import pytest
from support.ci_projects import EXAMPLE, Project, make_project
from support.github_runner import Runner

WORKFLOW = EXAMPLE / "github" / "hetesynth.yml"


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """After the first night: nothing was there, everything is proposed, and somebody merged it."""
    place = tmp_path_factory.mktemp("github")
    project = make_project(place)
    runner = Runner(WORKFLOW, project, place)
    jobs = runner.event("schedule")
    assert [(name, job.ok) for name, job in jobs.items()] == [("build", True), ("propose", True)], jobs
    assert "Save the cache of results" in jobs["build"].ran
    assert "1 built" in jobs["build"].summary
    merge(project)
    return runner


def merge(project: Project) -> None:
    project.git("fetch", "--quiet", "origin")
    project.git("checkout", "--quiet", "main")
    project.git("merge", "--quiet", "origin/hetesynth/main")
    project.git("push", "--quiet", "origin", "main")


def heads(project: Project) -> str:
    return project.git("ls-remote", "--heads", str(project.remote))


def test_the_first_night_proposes_the_schedules_and_nothing_else(runner: Runner) -> None:
    project = runner.project
    changed = project.git("diff", "--name-only", "origin/main~1", "origin/main").splitlines()
    assert "schedules/lab/msccl-executor/index.json" in changed
    assert [name for name in changed if not name.startswith("schedules/")] == []
    assert project.git("log", "-1", "--format=%an|%s", "origin/main") == "github-actions[bot]|Renew the schedules"
    created = [call for call in project.calls if call.startswith("gh pr create")]
    assert created and "--base main --head hetesynth/main" in created[0]
    assert (runner.place / "runner" / "body.md").read_text().startswith("<!-- hetesynth build -->")


def test_a_night_with_nothing_changed_makes_no_commit(runner: Runner) -> None:
    before = heads(runner.project), runner.project.calls
    jobs = runner.event("schedule")
    assert list(jobs) == ["build"] and jobs["build"].ok
    assert "1 current" in jobs["build"].summary
    assert "Save the cache of results" not in jobs["build"].ran and "Hand the change on" not in jobs["build"].ran
    assert heads(runner.project) == before[0]
    assert [call for call in runner.project.calls[len(before[1]) :] if call.startswith("gh")] == []


def test_a_change_that_makes_a_schedule_stale_fails_where_it_was_made_until_it_is_built(runner: Runner) -> None:
    project = runner.project
    project.git("checkout", "--quiet", "-B", "slower", "origin/main")
    topology = project.folder / "clusters" / "lab.dsl"
    topology.write_text(topology.read_text().replace("200 Gbps", "100 Gbps"))
    project.commit("slower NICs")
    project.git("push", "--quiet", "origin", "slower")
    jobs = runner.event("pull_request", "slower")
    assert list(jobs) == ["check"] and not jobs["check"].ok
    (annotation,) = jobs["check"].annotations
    lines = (project.folder / "hetesynth.toml").read_text().splitlines()
    assert annotation.startswith(f"::error file=hetesynth.toml,line={lines.index('[[cluster]]') + 1},")
    assert "stale" in annotation and "lab/msccl-executor/allgather/1 chunk" in annotation
    assert "1 stale" in jobs["check"].summary
    assert (runner.place / "artifacts" / "hetesynth-junit" / "hetesynth.junit.xml").is_file()
    assert project.git("status", "--porcelain") == ""

    project.git("checkout", "--quiet", "slower")
    built = project.hetesynth("build")
    assert built.returncode == 0, built.stderr
    project.commit("build")
    project.git("push", "--quiet", "origin", "slower")
    jobs = runner.event("pull_request", "slower")
    assert jobs["check"].ok and jobs["check"].annotations == []
