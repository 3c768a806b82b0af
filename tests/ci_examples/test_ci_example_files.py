"""The files of examples/ci are what their forges take, and say nothing that hetesynth does not know."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from support.ci_projects import EXAMPLE, ROOT

from hetesynth.cli.main import COMMANDS, cli
from hetesynth.deploy.job import SOLVERS

if sys.version_info >= (3, 11):
    pass
else:
    pass

PAGE = ROOT / "docs" / "ci.md"
REQUIREMENTS = EXAMPLE / "hetesynth.requirements.txt"
CONTAINERFILE = EXAMPLE / "container" / "Containerfile"


def parsed(name: str) -> Any:
    return yaml.safe_load((EXAMPLE / name).read_text())


def jobs_of(pipeline: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Every job by its name, with what it extends; hidden ones are none."""

    def whole(job: dict[str, Any]) -> dict[str, Any]:
        bases = job.get("extends", [])
        merged: dict[str, Any] = {}
        for base in [bases] if isinstance(bases, str) else bases:
            merged |= whole(pipeline[base])
        return merged | {key: value for key, value in job.items() if key != "extends"}

    return {name: whole(job) for name, job in pipeline.items() if not name.startswith(".")}


WORKFLOW = parsed("github/hetesynth.yml")
PIPELINE = jobs_of(parsed("gitlab/.gitlab-ci.yml"))
HOOKS = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
LOCAL = parsed("pre-commit/.pre-commit-config.yaml")["repos"]
HOSTED = parsed("pre-commit/hosted.pre-commit-config.yaml")["repos"]


def steps() -> list[dict[str, Any]]:
    return [step for job in WORKFLOW["jobs"].values() for step in job["steps"]]


def scripts() -> dict[str, str]:
    """Every piece of shell in the examples and the page, by where it stands."""
    texts = {f"github: {step['name']}": step["run"] for step in steps() if "run" in step}
    texts |= {
        f"gitlab: {name}": "\n".join([*job.get("before_script", []), *job["script"]])
        for name, job in PIPELINE.items()
    }
    texts |= {f"hook: {hook['id']}": hook["entry"] for hook in [*HOOKS, *LOCAL[0]["hooks"]]}
    texts |= {
        f"page: {i}": text for i, text in enumerate(re.findall(r"```bash\n(.*?)```", PAGE.read_text(), re.S))
    }
    inline = re.findall(r"`(hetesynth [^`]+)`", PAGE.read_text().replace("\n", " "))
    return texts | {"page: in the text": "\n".join(inline)}


def command_lines(script: str) -> list[list[str]]:
    """The arguments of every ``hetesynth`` in ``script``, of those in a container too."""
    lines = [line for line in re.sub(r"\\\n", " ", script).splitlines() if not line.lstrip().startswith("#")]
    said = [re.search(rf"(?:^|[\s/])hetesynth ((?:{'|'.join(COMMANDS)})\b[^|;&]*)", line) for line in lines]
    return [
        [re.sub(r"\$\{?\w+\}?", "1", word) for word in shlex.split(match[1], comments=True)]
        for match in said
        if match is not None
    ]


def unknown(arguments: list[str]) -> str:
    """What click says of ``arguments``; nothing where it takes them."""
    command: click.Command = cli
    context = click.Context(cli, info_name="hetesynth")
    while isinstance(command, click.Group):
        name, command_or_none, arguments = command.resolve_command(context, list(arguments))
        assert name is not None and command_or_none is not None
        command = command_or_none
        context = click.Context(command, parent=context, info_name=name)
    try:
        command.make_context("hetesynth", list(arguments))
    except click.UsageError as error:
        return error.format_message()
    return ""


@pytest.mark.parametrize("place", scripts())
def test_every_script_is_bash_and_its_command_lines_are_known(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(EXAMPLE)
    done = subprocess.run(["bash", "-n"], input=scripts()[place], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    more = ["clusters/lab.dsl"] if "topo" in place and place.startswith("hook") else []
    lines = [[*arguments, *more] for arguments in command_lines(scripts()[place])]
    assert {" ".join(line): unknown(line) for line in lines if unknown(line)} == {}


def test_the_workflow_has_the_least_permissions_limits_of_time_and_one_run_at_a_time() -> None:
    triggers = WORKFLOW[True]  # `on` is a truth value of YAML 1.1
    assert set(triggers) == {"pull_request", "schedule", "workflow_dispatch"}
    assert WORKFLOW["permissions"] == {}
    permissions = {name: job["permissions"] for name, job in WORKFLOW["jobs"].items()}
    assert permissions == {
        "check": {"contents": "read"},
        "build": {"contents": "read"},
        "propose": {"contents": "write", "pull-requests": "write"},
    }
    assert all(0 < job["timeout-minutes"] <= 360 for job in WORKFLOW["jobs"].values())
    for step in steps():
        assert re.fullmatch(r"actions/[\w/-]+@v\d+", step.get("uses", "actions/x@v1"))
        assert "checkout" not in step.get("uses", "") or step["with"]["persist-credentials"] is False
        assert "${{" not in step.get("run", ""), "an expression in a script is code of whoever writes its value"
    assert "github.ref" in WORKFLOW["concurrency"]["group"]


def test_only_the_job_that_installs_nothing_may_write() -> None:
    for job in WORKFLOW["jobs"].values():
        installs = any("pip install" in step.get("run", "") for step in job["steps"])
        assert installs is not ("write" in job["permissions"].values())
    assert "pip" not in str(PIPELINE["hetesynth-propose"]["script"])


def test_what_results_depend_on_is_pinned_to_what_is_tested_in_one_place() -> None:
    lines = [line for line in REQUIREMENTS.read_text().splitlines() if line and not line.startswith("#")]
    pins = dict(line.split("==") for line in lines if "==" in line)
    assert set(pins) == set(SOLVERS) and len(lines) == len(pins) + 1
    tested = (ROOT / ".ci" / "constraints.txt").read_text().splitlines()
    for name, version in pins.items():
        assert any(re.fullmatch(rf"{name}=={version}(; python_version >= .*)?", line) for line in tested), name
    (hosted,) = HOSTED
    added = [hook["additional_dependencies"] for hook in hosted["hooks"] if "additional_dependencies" in hook]
    assert added == [[f"{name}=={version}" for name, version in pins.items()]]
    everywhere = [path for path in EXAMPLE.rglob("*") if path.is_file() and "hetesynth @ git+" in path.read_text()]
    assert everywhere == [REQUIREMENTS]


def test_git_ignores_what_is_made_again_and_keeps_what_is_deployed(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text((EXAMPLE / ".gitignore").read_text())
    names = {
        ".hetesynth/cache/ab/x.cell": True, "pages/index.html": True,
        "hetesynth.junit.xml": True, "schedules.patch": True, "schedules/lab/rccl-6/algorithms/a.xml": False,
        "schedules/lab/rccl-6/index.json": False, "hetesynth.toml": False, "hetesynth.requirements.txt": False,
    }  # fmt: skip
    done = subprocess.run(
        ["git", "check-ignore", *names], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert set(done.stdout.split()) == {name for name, ignored in names.items() if ignored}
