"""Jobs of a GitLab pipeline, run: ``before_script`` and ``script`` in one bash, as its runner does it.

Rules are those that the examples have: comparisons of CI_PIPELINE_SOURCE. Artifacts go to the jobs that need them;
a cache outlives its pipeline.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from support.ci_projects import Project

STAGES = ["build", "test", "deploy"]
SERVER, PROJECT, TOKEN = "gitlab.example", "group/clusters", "glpat-secret"


@dataclass
class JobRun:
    """What a job came to; ``artifacts``: the folder with them."""

    ok: bool
    output: str
    artifacts: Path


def jobs_of(pipeline: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Every job by its name, with what it extends; hidden ones are none."""

    def whole(job: dict[str, Any]) -> dict[str, Any]:
        bases = job.get("extends", [])
        merged: dict[str, Any] = {}
        for base in [bases] if isinstance(bases, str) else bases:
            merged |= whole(pipeline[base])
        return merged | {key: value for key, value in job.items() if key != "extends"}

    return {name: whole(job) for name, job in pipeline.items() if not name.startswith(".")}


class Runner:
    """Runs the pipelines of ``file`` in a project. ``variables``: of the project's settings."""

    def __init__(self, file: Path, project: Project, place: Path) -> None:
        self.jobs = jobs_of(yaml.safe_load(file.read_text()))
        self.project, self.place = project, place
        self.variables = {"HETESYNTH_PUSH_TOKEN": TOKEN}
        stated = f"https://oauth2:{TOKEN}@{SERVER}/{PROJECT}.git"
        with (place / "gitconfig").open("a") as settings:
            settings.write(f'[url "{project.remote}"]\n\tinsteadOf = {stated}\n')

    def pipeline(self, source: str, ref: str = "main") -> dict[str, JobRun]:
        """Every job that runs, stage by stage; none after a failure but those that always run."""
        runs: dict[str, JobRun] = {}
        for name, job in sorted(self.jobs.items(), key=lambda entry: STAGES.index(entry[1]["stage"])):
            rule = next((rule for rule in job["rules"] if _matches(rule["if"], source)), None)
            failed = any(not run.ok for run in runs.values())
            if rule is not None and (not failed or rule.get("when") == "always"):
                runs[name] = self.run(name, job, source, ref, runs)
        return runs

    def run(self, name: str, job: dict[str, Any], source: str, ref: str, runs: dict[str, JobRun]) -> JobRun:
        """One job, in a clean checkout with the artifacts of ``runs`` that it needs."""
        project = self.project
        project.git("checkout", "--quiet", "--force", "--detach", f"origin/{ref}")
        project.git("clean", "--quiet", "-ffdx")
        for need in job.get("needs", []):
            shutil.copytree(runs[need["job"]].artifacts, project.folder, dirs_exist_ok=True)
        cache = self.place / "caches" / job.get("cache", {}).get("key", "none")
        if cache.exists():
            shutil.copytree(cache, project.folder, dirs_exist_ok=True)
        environment = {
            **project.environment, **self.variables, **job.get("variables", {}), "CI": "true", "GITLAB_CI": "true",
            "CI_PIPELINE_SOURCE": source, "CI_COMMIT_REF_NAME": ref, "CI_SERVER_HOST": SERVER,
            "CI_SERVER_PROTOCOL": "https", "CI_PROJECT_URL": f"https://{SERVER}/{PROJECT}",
            "CI_PIPELINE_URL": f"https://{SERVER}/{PROJECT}/-/pipelines/1",
        }  # fmt: skip
        script = self.place / "job.sh"
        script.write_text("\n".join(["set -eo pipefail", *job.get("before_script", []), *job["script"]]) + "\n")
        done = subprocess.run(
            ["bash", str(script)], cwd=project.folder, env=environment, capture_output=True, text=True,
            check=False, timeout=300,
        )  # fmt: skip
        if "cache" in job:
            _collect(project.folder, job["cache"]["paths"], cache)
        artifacts = self.place / "artifacts" / name
        stated = job.get("artifacts", {})
        _collect(project.folder, [*stated.get("paths", []), *stated.get("reports", {}).values()], artifacts)
        return JobRun(done.returncode == 0, done.stdout + done.stderr, artifacts)


def _matches(rule: str, source: str) -> bool:
    return source in re.findall(r'\$CI_PIPELINE_SOURCE == "(\w+)"', rule)


def _collect(folder: Path, names: list[str], place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    for name in names:
        path = folder / name
        if path.is_dir():
            shutil.copytree(path, place / name)
        elif path.exists():
            shutil.copy(path, place / name)
