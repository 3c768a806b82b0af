"""The project of examples/ci in a git repository with a remote, and the commands that a forge's runner has."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import hetesynth

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "examples" / "ci"
ONE_CELL = """version = 1

[output]
cache = ".hetesynth/cache"

[defaults]
collectives = ["allgather"]
chunks = 1
targets = ["msccl-executor"]
strategy = "greedy"

[[cluster]]
topology = "clusters/lab.dsl"
"""
RECORD = """#!/usr/bin/env bash
printf '%s\\n' "{name} $*" >> "{log}"
{then}
"""
KEEP_PUSH_OPTIONS = """#!/usr/bin/env bash
for i in $(seq 0 $((${GIT_PUSH_OPTION_COUNT:-0} - 1))); do
    name=GIT_PUSH_OPTION_$i; printf '%s\\n' "${!name}" >> "$(dirname "$0")/../push_options"
done
"""


@dataclass
class Project:
    """``folder``: the checkout. ``remote``: where it is pushed to, bare. ``log``: calls of what is recorded.
    ``environment``: of every command; hetesynth is this checkout's, git reads no settings of the user."""

    folder: Path
    remote: Path
    log: Path
    environment: dict[str, str] = field(default_factory=dict)

    def git(self, *arguments: str) -> str:
        """What git prints."""
        done = subprocess.run(
            ["git", *arguments], cwd=self.folder, env=self.environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def hetesynth(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command of hetesynth in the checkout, with the cache that CI keeps."""
        environment = {**self.environment, "HETESYNTH_CACHE": ".hetesynth/cache"}
        return subprocess.run(
            [str(self.log.parent / "bin" / "hetesynth"), *arguments],
            cwd=self.folder, env=environment, capture_output=True, text=True, check=False, timeout=300,
        )  # fmt: skip

    def commit(self, message: str) -> None:
        """Everything that git does not ignore."""
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", message)

    @property
    def calls(self) -> list[str]:
        """Of the recorded commands, since the beginning."""
        return self.log.read_text().splitlines() if self.log.exists() else []


def make_project(place: Path, manifest: str | None = ONE_CELL) -> Project:
    """The example in ``place``, committed on ``main`` and pushed; ``manifest`` instead of its own."""
    folder, remote = place / "project", place / "remote.git"
    shutil.copytree(EXAMPLE, folder)
    if manifest is not None:
        (folder / "hetesynth.toml").write_text(manifest)
    project = Project(folder, remote, place / "calls", _environment(place))
    _commands(place, project.log)
    remote.mkdir()
    subprocess.run(["git", "init", "--quiet", "--bare", "-b", "main", str(remote)], check=True)
    subprocess.run(["git", "-C", str(remote), "config", "receive.advertisePushOptions", "true"], check=True)
    hook = remote / "hooks" / "pre-receive"
    hook.parent.mkdir(exist_ok=True)
    _write_command(hook, KEEP_PUSH_OPTIONS)
    project.git("init", "--quiet", "-b", "main")
    project.git("remote", "add", "origin", str(remote))
    project.commit("the example")
    project.git("push", "--quiet", "origin", "main")
    return project


def _environment(place: Path) -> dict[str, str]:
    settings = place / "gitconfig"
    settings.write_text("[user]\n\tname = somebody\n\temail = somebody@example.invalid\n")
    package = str(Path(hetesynth.__file__).parents[1])
    dropped = ("GIT", "CI_", "HETESYNTH", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    return {
        **kept,
        "PATH": f"{place / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": package,
        "PYTHONPYCACHEPREFIX": str(place.parent / "bytecode"),  # dozens of commands, each compiled once
        "GIT_CONFIG_GLOBAL": str(settings),
        "GIT_CONFIG_NOSYSTEM": "1",
        "HOME": str(place),
    }


def _commands(place: Path, log: Path) -> None:
    """hetesynth as it is here; pip and gh, which only write down how they were called."""
    folder = place / "bin"
    folder.mkdir()
    _write_command(folder / "hetesynth", f'#!/usr/bin/env bash\nexec "{sys.executable}" -m hetesynth "$@"\n')
    for name, then in (("pip", ""), ("gh", f'if [ "$1 $2" = "pr list" ]; then cat "{place}/pulls"; fi')):
        _write_command(folder / name, RECORD.format(name=name, log=log, then=then))
    (place / "pulls").touch()


def _write_command(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)
