"""A job of a GitHub workflow, run: its ``run`` steps by bash as the runner does it, its actions by stand-ins.

Expressions are those that the examples have: comparisons of ``github``, ``steps``, ``needs`` and ``runner``, with
``always()`` and ``cancelled()``. A step without a status function runs after success only.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from support.ci_projects import Project

SHELL = ["bash", "--noprofile", "--norc", "-eo", "pipefail"]


@dataclass
class JobRun:
    """What a job came to. ``ran``: names of steps and actions, in order. ``summary``: the page of the job."""

    ok: bool = True
    ran: list[str] = field(default_factory=list)
    output: str = ""
    summary: str = ""
    outputs: dict[str, str] = field(default_factory=dict)

    @property
    def annotations(self) -> list[str]:
        """Workflow commands in the log."""
        return [line for line in self.output.splitlines() if line.startswith("::")]


class Runner:
    """Runs jobs of ``workflow`` in a project; ``artifacts`` and ``caches`` outlive a job."""

    def __init__(self, workflow: Path, project: Project, place: Path) -> None:
        self.workflow: dict[str, Any] = yaml.safe_load(workflow.read_text())
        self.project, self.place = project, place
        self.needs: dict[str, JobRun] = {}
        self.number = 0

    def event(self, name: str, ref: str = "main") -> dict[str, JobRun]:
        """Every job that runs for the event, in a clean checkout."""
        self.number += 1
        self.needs = {}
        for job_name, job in self.workflow["jobs"].items():
            context = {"event_name": name, "ref_name": ref, "run_id": str(self.number), "run_attempt": "1"}
            needed = self.needs.get(job.get("needs", ""), None)
            if self._holds(job.get("if", ""), context, {}, ok=needed is None or needed.ok):
                self.needs[job_name] = self._job(job, context)
        return self.needs

    def _job(self, job: dict[str, Any], context: dict[str, str]) -> JobRun:
        result, steps = JobRun(), dict[str, dict[str, str]]()
        for step in job["steps"]:
            if not self._holds(step.get("if", ""), context, steps, ok=result.ok):
                continue
            result.ran.append(step.get("name", step.get("uses", "")))
            if "uses" in step:
                self._action(step["uses"].partition("@")[0], step.get("with", {}), context, steps)
            else:
                steps[step.get("id", "")] = self._run(step, context, result)
        for name, value in job.get("outputs", {}).items():
            result.outputs[name] = self._value(value, context, steps)
        return result

    def _run(self, step: dict[str, Any], context: dict[str, str], result: JobRun) -> dict[str, str]:
        """A ``run`` step; its outputs."""
        files = {name: self.place / f"{name}" for name in ("GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_STEP_SUMMARY")}
        for path in files.values():
            path.write_text("")
        temporary = self.place / "runner"
        temporary.mkdir(exist_ok=True)
        stated = {name: self._value(str(value), context, {}) for name, value in step.get("env", {}).items()}
        environment = {
            **self.project.environment, **self.workflow.get("env", {}), **stated,
            **{name: str(path) for name, path in files.items()},
            "CI": "true", "GITHUB_ACTIONS": "true", "RUNNER_TEMP": str(temporary),
            "GITHUB_REF_NAME": context["ref_name"], "GITHUB_WORKSPACE": str(self.project.folder),
        }  # fmt: skip
        script = self.place / "step.sh"
        assert "${{" not in step["run"]
        script.write_text(step["run"])
        done = subprocess.run(
            [*SHELL, str(script)], cwd=self.project.folder, env=environment, capture_output=True, text=True,
            check=False, timeout=300,
        )  # fmt: skip
        result.ok = result.ok and done.returncode == 0
        result.output += done.stdout + done.stderr
        result.summary += files["GITHUB_STEP_SUMMARY"].read_text()
        return dict(line.split("=", 1) for line in files["GITHUB_OUTPUT"].read_text().splitlines())

    def _action(
        self, name: str, given: dict[str, Any], context: dict[str, str], steps: dict[str, dict[str, str]]
    ) -> None:
        folder = self.project.folder
        if name == "actions/checkout":
            self.project.git("checkout", "--quiet", "--force", "--detach", f"origin/{context['ref_name']}")
            self.project.git("clean", "--quiet", "-ffdx")
        elif name == "actions/cache/restore":
            for cache in sorted((self.place / "caches").glob(f"{given['restore-keys']}*"))[-1:]:
                shutil.copytree(cache, folder / given["path"])
        elif name == "actions/cache/save":
            shutil.copytree(
                folder / given["path"], self.place / "caches" / self._value(given["key"], context, steps)
            )
        elif name == "actions/upload-artifact":
            self._upload(self.place / "artifacts" / given["name"], given)
        elif name == "actions/download-artifact":
            shutil.copytree(self.place / "artifacts" / given["name"], folder, dirs_exist_ok=True)
        else:
            assert name == "actions/setup-python"
            assert (folder / given["cache-dependency-path"]).is_file()

    def _upload(self, artifact: Path, given: dict[str, Any]) -> None:
        shutil.rmtree(artifact, ignore_errors=True)
        artifact.mkdir(parents=True)
        there = [self.project.folder / path for path in given["path"].split()]
        there = [path for path in there if path.exists()]
        assert there or given.get("if-no-files-found") == "ignore"
        for path in there:
            if path.is_dir():
                shutil.copytree(path, artifact / path.name)
            else:
                shutil.copy(path, artifact)

    def _value(self, text: str, context: dict[str, str], steps: dict[str, dict[str, str]]) -> str:
        return re.sub(r"\$\{\{(.*?)\}\}", lambda m: self._lookup(m[1].strip(), context, steps), text)

    def _lookup(self, name: str, context: dict[str, str], steps: dict[str, dict[str, str]]) -> str:
        match name.split("."):
            case ["github", "token"]:
                return "token"
            case ["github", key]:
                return context[key]
            case ["steps", step, "outputs", key]:
                return steps.get(step, {}).get(key, "")
            case ["needs", job, "outputs", key]:
                return self.needs[job].outputs[key] if job in self.needs else ""
        raise AssertionError(f"{name} is nothing that the runner has")

    def _holds(
        self, condition: str, context: dict[str, str], steps: dict[str, dict[str, str]], *, ok: bool
    ) -> bool:
        text = condition.strip().removeprefix("${{").removesuffix("}}").strip()
        parts = [part.strip() for part in text.split("&&")] if text else []
        status = [part for part in parts if part in ("always()", "!cancelled()")]
        for part in parts:
            if part in status:
                continue
            left, operator, right = re.fullmatch(r"(\S+) (==|!=) '(.*)'", part).groups()  # type: ignore[union-attr]
            if (self._lookup(left, context, steps) == right) is not (operator == "=="):
                return False
        return ok or bool(status)
