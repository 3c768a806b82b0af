"""From two different dumps and a rule to a program: every command on the way, each against what the dumps say."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.topology_files import SWITCH, bridge, cpu, gpu, nic, peers, system

from hetesynth.cli.main import run

LANES = {0: {1: 2, 2: 1}, 1: {0: 2, 3: 1}, 2: {0: 1, 3: 2}, 3: {1: 1, 2: 2}}


def dumps(folder: Path) -> list[str]:
    """Four GPUs in an NVSwitch with two NICs, and four in a square of NVLinks with two."""
    switched = [bridge(b, *(gpu(2 * b + k, SWITCH.format(12)) for k in range(2)), nic(b)) for b in range(2)]
    square = [
        bridge(b, *(gpu(i, peers(i, LANES[i])) for i in (2 * b, 2 * b + 1)), nic(b, 100_000)) for b in range(2)
    ]
    files = {"new.xml": system(cpu(0, *switched)), "old.xml": system(cpu(0, *square))}
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return [str(folder / name) for name in files]


def test_two_dumps_become_verified_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    topology = str(tmp_path / "c.dsl")
    assert run(["topo", "import", *dumps(tmp_path), "--net", "rails", "-o", topology]) == 0
    capsys.readouterr()
    assert run(["topo", "lint", topology]) == 0
    capsys.readouterr()
    assert run(["topo", "show", topology, "--json"]) == 0
    assert '"ranks": 8' in capsys.readouterr().out
    assert run(["topo", "ranks", topology, "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [(row["server"], row["gpu"]) for row in listed["ranks"]] == [
        (server, i) for server in ("n0", "n1") for i in range(4)
    ]
    stem = tmp_path / "p"
    assert run(["synth", topology, "--coll", "allgather", "--strategy", "greedy", "-o", str(stem)]) == 0
    for program in (stem.with_suffix(".xml"), stem.with_suffix(".inplace.xml")):
        capsys.readouterr()
        assert run(["verify", str(program), "--topo", topology]) == 0
        assert "ok" in capsys.readouterr().out
    # the last command can fail: without its rail a server cannot be reached over it
    smaller = str(tmp_path / "old.dsl")
    assert run(["topo", "import", str(tmp_path / "old.xml"), "-o", smaller]) == 0
    assert run(["verify", str(stem.with_suffix(".xml")), "--topo", smaller]) != 0
