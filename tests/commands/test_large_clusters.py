"""128 and 256 GPUs: every collective, with and without a size, ends with programs that verify."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest
from benchmarks.clusters import source

from hetesynth.model.collective import CollectiveName

WAIT = 3600  # seconds after which a command counts as hanging; they take a fraction of it


def topology_of(servers: int, folder: Path) -> Path:
    """The source of a cluster of servers of eight, as a file."""
    text = source(f"h20_8x{servers}")
    assert text is not None
    path = folder / "topo.dsl"
    path.write_text(text)
    return path


def hetesynth(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """A command in a process of its own, so that each begins with empty memory."""
    command = [sys.executable, "-m", "hetesynth", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=WAIT, check=False)


def commands() -> list[tuple[int, str, tuple[str, ...]]]:
    """(servers, collective, options)."""
    sized: tuple[tuple[str, ...], ...] = ((), ("--size", "64MB"))
    return [(servers, name, how) for servers in (16, 32) for how in sized for name in get_args(CollectiveName)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("servers", "name", "options"),
    commands(),
    ids=lambda value: "".join(value) if isinstance(value, tuple) else None,
)
def test_programs_are_found_and_verify(servers: int, name: str, options: tuple[str, ...], tmp_path: Path) -> None:
    topology = topology_of(servers, tmp_path)
    made = hetesynth("synth", topology, "--coll", name, *options, "--json", "-o", tmp_path / "made")
    assert made.returncode == 0, made.stderr
    told = json.loads(made.stdout)
    assert told["steps"] >= told["lower_bound"] > 0
    programs = sorted(tmp_path.glob("made*.xml"))
    assert programs
    for program in programs:
        judged = hetesynth("verify", program, "--target", "portable")
        assert judged.returncode == 0, judged.stdout + judged.stderr
