"""What checks a change agrees: .ci/run, the pinned versions, the workflow, pre-commit and pyproject.toml."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = (ROOT / ".ci" / "run").read_text()
LINT = SCRIPT.split('echo "+ ruff, mypy, import-linter"\n')[1].split("echo ")[0].splitlines()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
TESTED = [
    classifier.rpartition(" ")[2]
    for classifier in PROJECT["classifiers"]
    if re.search(r":: 3\.\d+$", classifier)
]  # fmt: skip


def parsed(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text())


def pins(version: str) -> dict[str, list[Requirement]]:
    """The lines of the constraints file that hold on ``version`` of Python, by name."""
    lines = (ROOT / ".ci" / "constraints.txt").read_text().splitlines()
    environment = {**default_environment(), "python_version": version, "python_full_version": f"{version}.0"}
    held: dict[str, list[Requirement]] = {}
    for requirement in (Requirement(line) for line in lines if line and not line.startswith("#")):
        if requirement.marker is None or requirement.marker.evaluate(environment):
            held.setdefault(canonicalize_name(requirement.name), []).append(requirement)
    return held


def test_pre_commit_runs_what_ci_runs() -> None:
    hooks = [hook for repo in parsed(".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    assert [hook["entry"] for hook in hooks] == LINT
    assert all(hook["language"] == "system" and hook["pass_filenames"] is False for hook in hooks)


def test_contributing_names_the_checks_the_tiers_and_the_pythons() -> None:
    page = (ROOT / "CONTRIBUTING.md").read_text()
    markers = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]["markers"]
    tiers = [marker.partition(":")[0] for marker in markers]
    named = [*LINT, *(f"| `{tier}` | `pytest -m {tier}" for tier in tiers)]
    assert [name for name in named if name not in page] == []
    assert f"Python {TESTED[0]} to {TESTED[-1]}" in page
    links = re.findall(r"\]\(([^)#]+)\)", page)
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_contributing_names_what_runs_weekly() -> None:
    (job,) = parsed(".github/workflows/slow.yml")["jobs"].values()
    page = (ROOT / "CONTRIBUTING.md").read_text()
    commands = [one["run"].partition(" --")[0] for one in job["strategy"]["matrix"]["include"]]
    assert [command for command in commands if command not in page] == []


def test_the_workflow_runs_the_script_on_every_supported_python() -> None:
    workflow = parsed(".github/workflows/ci.yml")
    (job,) = workflow["jobs"].values()
    versions = job["strategy"]["matrix"]["python"]
    assert versions == TESTED and f">={versions[0]}" == PROJECT["requires-python"]
    minors = [int(version.partition(".")[2]) for version in versions]
    assert minors == list(range(minors[0], minors[-1] + 1))
    assert [step["run"] for step in job["steps"] if "run" in step] == ["bash .ci/run"]


@pytest.mark.parametrize(
    ("file", "events"), [("ci.yml", {"push", "pull_request"}), ("slow.yml", {"schedule", "workflow_dispatch"})]
)
def test_the_workflows_are_bounded_and_may_only_read(file: str, events: set[str]) -> None:
    workflow = parsed(f".github/workflows/{file}")
    (job,) = workflow["jobs"].values()
    assert workflow["permissions"] == {"contents": "read"} and "permissions" not in job
    assert set(workflow["on"]) == events
    assert workflow["concurrency"]["cancel-in-progress"] is True
    assert job["runs-on"] == "ubuntu-latest" and 0 < job["timeout-minutes"] <= 120
    assert all(re.fullmatch(r"actions/[a-z-]+@v\d+", step["uses"]) for step in job["steps"] if "uses" in step)


@pytest.mark.parametrize("version", TESTED)
def test_ci_pins_one_version_of_every_dependency(version: str) -> None:
    held = pins(version)
    assert {name: lines for name, lines in held.items() if len(lines) > 1} == {}
    declared = [*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["test"]]
    for wanted in map(Requirement, declared):
        if wanted.marker is not None and not wanted.marker.evaluate(
            {**default_environment(), "python_version": version}
        ):
            continue
        (pin,) = held[canonicalize_name(wanted.name)]
        (exact,) = pin.specifier
        assert exact.operator == "==" and wanted.specifier.contains(exact.version), f"{pin} is not {wanted}"


def test_ci_hands_its_pins_to_the_command_of_the_readme(tmp_path: Path) -> None:
    assert SCRIPT.index("PIP_CONSTRAINT=") < SCRIPT.index('bash -euo pipefail -c "$command"')
    lines = [line for line in SCRIPT.splitlines() if re.match(r"cp \.ci/constraints|export PIP_CONSTRAINT=", line)]
    code = "\n".join([f"work={tmp_path}", *lines, 'cat "$PIP_CONSTRAINT"'])
    done = subprocess.run(["bash", "-euc", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == (ROOT / ".ci" / "constraints.txt").read_text()
