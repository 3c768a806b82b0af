"""The nightly script for Slurm, and the hooks for pre-commit, in a copy of the example project."""

from __future__ import annotations

import subprocess

import pytest
import yaml
from support.ci_projects import EXAMPLE, Project, make_project

HOOKS = yaml.safe_load((EXAMPLE / "pre-commit" / ".pre-commit-config.yaml").read_text())["repos"][0]["hooks"]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Built once, by the script."""
    project = make_project(tmp_path_factory.mktemp("nightly"))
    assert nightly(project).returncode == 0
    return project


def nightly(project: Project) -> subprocess.CompletedProcess[str]:
    script = EXAMPLE / "slurm" / "nightly.sbatch"
    return subprocess.run(
        ["bash", str(script)], cwd=project.folder, env={**project.environment, "SLURM_CPUS_PER_TASK": "1"},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


def hook(project: Project, name: str) -> subprocess.CompletedProcess[str]:
    """The entry of a hook, with the topologies where it takes names."""
    (stated,) = [hook for hook in HOOKS if hook["id"] == name]
    files = [] if stated.get("pass_filenames") is False else ["clusters/lab.dsl", "clusters/mixed.dsl"]
    return project.hetesynth(*stated["entry"].split()[1:], *files)


def test_the_script_pushes_what_is_new_once(project: Project) -> None:
    pushed = project.git("rev-parse", "origin/hetesynth/main")
    assert project.git("diff", "--name-only", "main", pushed).startswith("schedules/lab/msccl-executor/")
    project.git("push", "--quiet", "origin", f"{pushed}:main")
    again = nightly(project)
    assert again.returncode == 0 and "every schedule is as it was" in again.stdout
    assert project.git("ls-remote", "origin", "hetesynth/main").split()[0] == pushed


def test_the_hooks_pass_after_a_build_and_stop_what_would_be_stale(project: Project) -> None:
    names = ["hetesynth-topo-fmt", "hetesynth-topo-lint", "hetesynth-build-check"]
    assert [(name, hook(project, name).returncode) for name in names] == [(name, 0) for name in names]
    topology = project.folder / "clusters" / "lab.dsl"
    before = topology.read_text()
    try:
        topology.write_text(before.replace("  fabric", "# a comment\n  fabric"))
        assert hook(project, "hetesynth-build-check").returncode == 0
        assert hook(project, "hetesynth-topo-fmt").returncode == 1
        topology.write_text(before.replace("200 Gbps", "100 Gbps"))
        stopped = hook(project, "hetesynth-build-check")
        assert stopped.returncode == 1 and "stale" in stopped.stdout
        topology.write_text(before.replace("nic[0-1] {", "nic[0-1 {"))
        assert hook(project, "hetesynth-topo-lint").returncode == 2
    finally:
        topology.write_text(before)
