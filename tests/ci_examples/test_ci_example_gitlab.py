"""The pipeline for GitLab does what its comments say: its scripts run in a copy of the example project."""

from __future__ import annotations

import json

import pytest
from lxml import etree
from support.ci_projects import EXAMPLE, Project, make_project
from support.gitlab_runner import TOKEN, JobRun, Runner

PIPELINE = EXAMPLE / "gitlab" / ".gitlab-ci.yml"


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Runner:
    """After the first scheduled pipeline."""
    place = tmp_path_factory.mktemp("gitlab")
    runner = Runner(PIPELINE, make_project(place), place)
    jobs = runner.pipeline("schedule")
    assert {name: job.ok for name, job in jobs.items()} == {"hetesynth-build": True, "hetesynth-propose": True}, (
        jobs
    )
    return runner


def pushed(project: Project) -> list[str]:
    options = project.remote / "push_options"
    return options.read_text().splitlines() if options.exists() else []


def test_a_scheduled_pipeline_proposes_the_schedules_once(runner: Runner) -> None:
    project = runner.project
    assert "merge_request.create" in pushed(project) and "merge_request.target=main" in pushed(project)
    project.git("fetch", "--quiet", "origin")
    changed = project.git("diff", "--name-only", "main", "origin/hetesynth/main").splitlines()
    assert "schedules/lab/msccl-executor/index.json" in changed
    assert [name for name in changed if not name.startswith("schedules/")] == []
    assert list((runner.place / "caches" / "hetesynth").rglob("*.cell"))
    project.git("push", "--quiet", "origin", "origin/hetesynth/main:main")
    (project.remote / "push_options").unlink()
    jobs = runner.pipeline("schedule")
    assert all(job.ok for job in jobs.values())
    assert "every schedule is current" in jobs["hetesynth-propose"].output
    assert (jobs["hetesynth-build"].artifacts / "schedules.patch").read_bytes() == b""
    assert pushed(project) == []


def test_a_merge_request_that_makes_a_schedule_stale_fails(runner: Runner) -> None:
    project = runner.project
    project.git("checkout", "--quiet", "-B", "slower", "main")
    topology = project.folder / "clusters" / "lab.dsl"
    topology.write_text(topology.read_text().replace("200 Gbps", "100 Gbps"))
    project.commit("slower NICs")
    project.git("push", "--quiet", "origin", "slower")
    jobs = runner.pipeline("merge_request_event", "slower")
    assert {name: job.ok for name, job in jobs.items()} == {"hetesynth-check": False}
    (issue,) = json.loads((jobs["hetesynth-check"].artifacts / "hetesynth.codequality.json").read_text())
    lines = (project.folder / "hetesynth.toml").read_text().splitlines()
    assert issue["location"] == {
        "path": "hetesynth.toml", "lines": {"begin": lines.index("[[cluster]]") + 1}
    }  # fmt: skip
    suites = etree.parse(str(jobs["hetesynth-check"].artifacts / "hetesynth.junit.xml")).getroot()
    assert suites.get("failures") == "1"


def test_without_a_token_the_job_says_what_is_missing(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(runner.variables, "HETESYNTH_PUSH_TOKEN", "")
    job = runner.jobs["hetesynth-propose"]
    patch = runner.place / "artifacts" / "hetesynth-build" / "schedules.patch"
    patch.write_text("a change\n")
    jobs = {"hetesynth-build": JobRun(True, "", patch.parent)}
    done = runner.run("hetesynth-propose", job, "schedule", "main", jobs)
    assert not done.ok and "HETESYNTH_PUSH_TOKEN is not set" in done.output and TOKEN not in done.output
