"""What checks a change agrees: .ci/run, the workflow, pre-commit and pyproject.toml."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import yaml

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = (ROOT / ".ci" / "run").read_text()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TESTED = [
    classifier.rpartition(" ")[2]
    for classifier in PROJECT["classifiers"]
    if re.search(r":: 3\.\d+$", classifier)
]  # fmt: skip


def parsed(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text())


def test_pre_commit_runs_what_ci_runs() -> None:
    block = SCRIPT.split('echo "+ ruff, mypy, import-linter"\n')[1].split("echo ")[0]
    hooks = [hook for repo in parsed(".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    assert [hook["entry"] for hook in hooks] == block.splitlines()
    assert all(hook["language"] == "system" and hook["pass_filenames"] is False for hook in hooks)


def test_the_workflow_runs_the_script_on_every_supported_python() -> None:
    workflow = parsed(".github/workflows/ci.yml")
    (job,) = workflow["jobs"].values()
    versions = job["strategy"]["matrix"]["python"]
    assert versions == TESTED and f">={versions[0]}" == PROJECT["requires-python"]
    minors = [int(version.partition(".")[2]) for version in versions]
    assert minors == list(range(minors[0], minors[-1] + 1))
    assert [step["run"] for step in job["steps"] if "run" in step] == ["bash .ci/run"]


def test_the_workflow_is_bounded_and_may_only_read() -> None:
    workflow = parsed(".github/workflows/ci.yml")
    (job,) = workflow["jobs"].values()
    assert workflow["permissions"] == {"contents": "read"} and "permissions" not in job
    assert set(workflow["on"]) == {"push", "pull_request"}
    assert workflow["concurrency"]["cancel-in-progress"] is True
    assert job["runs-on"] == "ubuntu-latest" and 0 < job["timeout-minutes"] <= 120
    assert all(re.fullmatch(r"actions/[a-z-]+@v\d+", step["uses"]) for step in job["steps"] if "uses" in step)
