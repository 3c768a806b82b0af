"""Prints docs/benchmarks_building.md: how long ``hetesynth build`` takes for a manifest of 144 schedules.

``PYTHONPATH=tests python tests/benchmarks/building.py > docs/benchmarks_building.md`` takes half an hour;
``--no-cells`` leaves out the table of single cells.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from support.cell_digests import SCRIPT

from hetesynth.bench.machine import load, machine
from hetesynth.manifest.reader import read_manifest
from hetesynth.manifest.values import Manifest
from hetesynth.model.size_range import SizeRange

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path("tests") / "benchmarks" / "manifest"
EDITED = "gen001.dsl"

TEXT = """# Benchmarks of builds

Written by `PYTHONPATH=tests python tests/benchmarks/building.py`. The manifest
[hetesynth.toml](../tests/benchmarks/manifest/hetesynth.toml): 6 clusters of 8 to 24 GPUs (four examples, and the
first two of 12 to 24 that the generator makes), AllGather, AllReduce, ReduceScatter and AllToAll, sizes of 1 KB to
256 KB, to 16 MB and to 1 GB, for rccl-6 and mscclpp: 144 cells. Seconds are of the whole command on the wall,
`processor s` those of its processes together; both grow with other work on the machine.
"""


@dataclass(frozen=True)
class Run:
    """One command. ``made``: results that were not in the cache before."""

    what: str
    seconds: float
    processor: float
    made: int


def main() -> None:
    """The page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--no-cells", action="store_true")
    parser.add_argument("--keep", type=Path, help="a folder for what the fresh build wrote")
    stated = parser.parse_args()
    before = load()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        shutil.copytree(ROOT / "examples", place / "examples")
        shutil.copytree(ROOT / FOLDER, place / FOLDER)
        runs = builds(place, stated.jobs, stated.keep)
        tables = [] if stated.no_cells else cell_tables(read_manifest(place / FOLDER / "hetesynth.toml"))
    print(TEXT)
    print(f"With `--jobs {stated.jobs}`:\n\n| run | seconds | processor s | cells made |\n|---|---|---|---|")
    for run in runs:
        print(f"| {run.what} | {run.seconds:.1f} | {run.processor:.1f} | {run.made} |")
    for line in tables:
        print(line)
    print("\n## Measured on\n\n| | |\n|---|---|")
    facts = machine() | {"highspy": version("highspy"), "load before and after": f"{before}, {load()}"}
    for what, value in facts.items():
        print(f"| {what} | {value} |")


def builds(place: Path, jobs: int, keep: Path | None) -> list[Run]:
    """A fresh build, one with nothing to do, checks, one after a comment, one after an edit of one cluster."""
    topology = place / FOLDER / EDITED
    runs = [_build("fresh", place, jobs), _build("nothing changed", place, jobs)]
    if keep is not None:
        shutil.copytree(place / FOLDER / "schedules", keep)
    runs += [
        _build("`--check`", place, jobs, "--check"),
        _build("`--check --quick`", place, jobs, "--check", "--quick"),
    ]
    topology.write_text(f"# a comment\n{topology.read_text()}")
    runs.append(_build(f"a comment in {EDITED}", place, jobs))
    topology.write_text(edited(topology.read_text()))
    runs.append(_build(f"a rate in {EDITED}", place, jobs))
    return [*runs, _build("nothing changed", place, jobs)]


def edited(text: str) -> str:
    """The topology with its first rate in GB/s doubled."""
    return re.sub(r"(\d+(?:\.\d+)?)(\s*GB/s)", lambda rate: f"{2 * float(rate[1]):g}{rate[2]}", text, count=1)


def _build(what: str, place: Path, jobs: int, *options: str) -> Run:
    cache = place / "cache"
    before, spent, began = _entries(cache), _processor(), time.perf_counter()
    command = [sys.executable, "-m", "hetesynth", "build", str(place / FOLDER / "hetesynth.toml")]
    process = subprocess.run(
        [*command, "--jobs", str(jobs), "--cache", str(cache), *options], cwd=ROOT, capture_output=True, text=True
    )
    if process.returncode != 0:
        raise SystemExit(f"{what}: {process.stdout}{process.stderr}")
    seconds = time.perf_counter() - began
    return Run(what, seconds, _processor() - spent, _entries(cache) - before)


def _entries(cache: Path) -> int:
    return sum(1 for _ in cache.rglob("*.cell"))


def _processor() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def cell_tables(manifest: Manifest) -> list[str]:
    """Processor seconds of single cells, made one after the other by one process, in Markdown."""
    words = [
        [str(manifest.cluster(cell.cluster).topology), cell.collective, cell.target, [extent.low, extent.high]]
        for cell in manifest.cells
        if isinstance(extent := cell.extent, SizeRange)
    ]
    command = [sys.executable, str(SCRIPT)]
    process = subprocess.run(
        command, input=json.dumps(words), capture_output=True, text=True, check=True, cwd=ROOT
    )
    answers = [json.loads(line) for line in process.stdout.splitlines()]
    rows: dict[tuple[str, str], dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for cell, answer in zip(manifest.cells, answers, strict=True):
        rows[cell.cluster, cell.target][cell.collective].append(f"{answer['processor']:.1f}")
    collectives = list(dict.fromkeys(cell.collective for cell in manifest.cells))
    return [
        "\n## Single cells\n",
        "Processor seconds of the three ranges, made one after the other by one process: what the first cells of",
        "a cluster work out serves the others. `memory`: the most that the process has used by then.\n",
        f"| cluster | target | {' | '.join(collectives)} | memory |",
        "|---" * (len(collectives) + 3) + "|",
        *(
            f"| {cluster} | {target} | {' | '.join(', '.join(row[name]) for name in collectives)} | {most} MB |"
            for (cluster, target), row, most in _with_memory(manifest, rows, answers)
        ),
        f"\nAll: {sum(answer['processor'] for answer in answers):.0f} s, the slowest cell "
        f"{max(answer['processor'] for answer in answers):.1f} s.",
    ]


def _with_memory(
    manifest: Manifest, rows: dict[tuple[str, str], dict[str, list[str]]], answers: list[dict[str, int]]
) -> list[tuple[tuple[str, str], dict[str, list[str]], int]]:
    most: dict[tuple[str, str], int] = defaultdict(int)
    for cell, answer in zip(manifest.cells, answers, strict=True):
        at = cell.cluster, cell.target
        most[at] = max(most[at], answer["mb"])
    return [(at, row, most[at]) for at, row in rows.items()]


if __name__ == "__main__":
    main()
