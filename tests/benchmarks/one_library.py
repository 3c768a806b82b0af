"""docs/benchmarks_building.md: what ``hetesynth build`` makes of a manifest of five clusters.

``PYTHONPATH=tests python tests/benchmarks/one_library.py`` takes an hour. Every
file is simulated anew from its bytes, beside all files of its collective and beside what a library takes. It ends
with 1 where one is slower than either, by more than 1 %, at one of 12 sizes.
"""

from __future__ import annotations

import argparse
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from statistics import geometric_mean

from benchmarks.machine import load, machine
from benchmarks.tables import csv_text, markdown
from hetesynth.deploy.compute import cell_request
from hetesynth.deploy.folder.cells import ProgramFile, program_at
from hetesynth.deploy.folder.folder import deployed
from hetesynth.deploy.manifest.reader import read_manifest
from hetesynth.deploy.manifest.values import Cell, Manifest
from hetesynth.engine.predictors import CostOptions, PlanPredictor, contents_predictor
from hetesynth.engine.time_verdict import ALIKE, library_seconds
from hetesynth.model.collective import ROOTED
from hetesynth.model.cost import runtime_bytes
from hetesynth.model.target import target
from hetesynth.model.topology import Topology
from hetesynth.programs.mscclpp.lower import largest_call
from hetesynth.topology.language import load_topology

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path("tests") / "benchmarks" / "manifest"
EDITED = "gen001.dsl"
SIZES = [1000 * 4**k for k in range(11)] + [4_096_000_000]
"""1 KB to 4 GB."""

HEAD = ["cluster", "target", "collective", "files", "left", "dominated", "slower", "missed", "factor"]
TEXT = """# Benchmarks of builds

What `hetesynth build` makes of [a manifest](../tests/benchmarks/manifest/hetesynth.toml) of five clusters of 12
and 16 GPUs: AllGather, AllReduce and AllToAll, three ranges of sizes, for rccl-6 and mscclpp, 90 cells. Written
by `PYTHONPATH=tests python tests/benchmarks/one_library.py`.

Every file is read back and simulated at 12 sizes from 1 KB to 4 GB. Of {files} files none that runs should be
more than 1 % slower than another file of its collective, nor than the library: {wrong} sizes are. {left} sizes
are left to the library, {missed} of them though a file is quicker. Files are {factor} times as fast as the
library (least, mean). [data/benchmarks_building.csv](data/benchmarks_building.csv) has a row for each cluster,
target and collective.

Time on the wall and of the processor, with `--jobs {jobs}`:

{runs}

Measured on: {facts}.
"""


Sizes = list[tuple[int, float]]
"""Bytes, and how many times the time that another way takes."""


@dataclass
class Checked:
    """Of the files of a collective: how many, and how they do at ``SIZES``."""

    files: int = 0
    left: list[int] = field(default_factory=list)
    missed: list[int] = field(default_factory=list)
    factors: list[float] = field(default_factory=list)
    dominated: Sizes = field(default_factory=list)
    slower: Sizes = field(default_factory=list)


def main() -> None:
    """The page."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--built", type=Path, help="the manifest of an earlier build, which is checked alone")
    stated = parser.parse_args()
    if stated.built is not None:
        raise SystemExit(report(read_manifest(stated.built))[1] > 0)
    before = load()
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        shutil.copytree(ROOT / "examples", place / "examples")
        shutil.copytree(ROOT / FOLDER, place / FOLDER)
        runs = [
            _build("fresh", place, stated.jobs), _build("nothing changed", place, stated.jobs),
            _build("`--check`", place, stated.jobs, "--check"),
            _build("`--check --quick`", place, stated.jobs, "--check", "--quick"),
        ]  # fmt: skip
        everything, wrong = report(read_manifest(place / FOLDER / "hetesynth.toml"))
        topology = place / FOLDER / EDITED
        topology.write_text(f"# a comment\n{topology.read_text()}")
        runs.append(_build(f"a comment in {EDITED}", place, stated.jobs))
        text = topology.read_text()  # its first rate in GB/s doubled
        topology.write_text(
            re.sub(r"(\d+(?:\.\d+)?)(\s*GB/s)", lambda r: f"{2 * float(r[1]):g}{r[2]}", text, count=1)
        )
        runs.append(_build(f"a rate in {EDITED}", place, stated.jobs))
    shown = [(name, f"{wall:.1f}", f"{processor:.1f}", str(made)) for name, wall, processor, made in runs]
    facts = machine() | {"highspy": version("highspy"), "load": f"{before}, {load()}"}
    text = TEXT.format(
        files=everything.files, wrong=wrong, left=len(everything.left), missed=len(everything.missed),
        factor=_figures(everything)[5], jobs=stated.jobs,
        runs=markdown(("run", "seconds", "processor s", "cells made"), shown),
        facts=", ".join(f"{what} {value}" for what, value in facts.items()),
    )  # fmt: skip
    (ROOT / "docs" / "benchmarks_building.md").write_text(text)
    raise SystemExit(wrong > 0)


def _build(what: str, place: Path, jobs: int, *options: str) -> tuple[str, float, float, int]:
    """What was done, seconds on the wall and of the processor, and cells that were not in the cache before."""

    def entries() -> int:
        return sum(1 for _ in (place / "cache").rglob("*.cell"))

    def processor() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    before, spent, began = entries(), processor(), time.perf_counter()
    command = [sys.executable, "-m", "hetesynth", "build", str(place / FOLDER / "hetesynth.toml")]
    process = subprocess.run(
        [*command, "--jobs", str(jobs), "--cache", str(place / "cache"), *options],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    if process.returncode != 0:
        raise SystemExit(f"{what}: {process.stdout}{process.stderr}")
    return what, time.perf_counter() - began, processor() - spent, entries() - before


def report(manifest: Manifest) -> tuple[Checked, int]:
    """Write the table of what is deployed, print what is wrong; the sum of all, and how many sizes are wrong."""
    clusters = {entry.name: load_topology(entry.source) for entry in manifest.clusters}
    cells: dict[tuple[str, str, str], list[Cell]] = defaultdict(list)
    for cell in manifest.cells:
        cells[cell.cluster, cell.target, cell.collective].append(cell)
    everything, wrong, rows = Checked(), [], []
    for at, (cell, *_) in cells.items():
        one = checked(cell, clusters[cell.cluster], manifest.folder(cell.cluster, cell.target))
        everything.files += one.files
        for name, values in vars(one).items():
            if name != "files":
                getattr(everything, name).extend(values)
        wrong += [f"{' '.join(at)}: {size} bytes, {share:.3f}" for size, share in (*one.dominated, *one.slower)]
        rows.append([*at, *_figures(one)])
    (ROOT / "docs" / "data" / "benchmarks_building.csv").write_text(csv_text(HEAD, rows))
    print("\n".join(wrong))
    return everything, len(wrong)


def _figures(one: Checked) -> list[str]:
    factors = f"{min(one.factors):.2f}, {geometric_mean(one.factors):.2f}" if one.factors else "-"
    counts = [str(len(what)) for what in (one.left, one.dominated, one.slower, one.missed)]
    return [str(one.files), *counts, factors]


def checked(cell: Cell, topology: Topology, folder: Path) -> Checked:
    """The files of the cluster, target and collective of ``cell`` in ``folder``."""
    runtime, options = target(cell.target), CostOptions.of(cell_request(cell, topology))
    root = (cell.options.root or 0) if cell.collective in ROOTED else None
    programs: list[ProgramFile] = []
    seconds: dict[str, dict[int, float]] = {}
    for there in deployed(folder):
        for program in there.programs:
            if there.collective != cell.collective or not program.out_of_place:
                continue
            programs.append(program)
            predictor = contents_predictor(there.files[program.name], program.name, runtime, topology, options)
            assert predictor is not None
            carries = float("inf")
            if isinstance(predictor, PlanPredictor):
                carries = largest_call(predictor.collective, predictor.plan.gpus)
            seconds[program.name] = {
                size: predictor.predict(size).seconds
                for size in SIZES
                if runtime_bytes(cell.collective, topology.ranks, size) <= carries
            }
    found = Checked(files=len(programs))
    for size in SIZES:
        name = program_at(programs, runtime_bytes(cell.collective, topology.ranks, size), (0, 0))
        library = library_seconds(topology, cell.collective, root, options, size)
        best = min((times[size] for times in seconds.values() if size in times), default=float("inf"))
        if name is None:
            found.left.append(size)
            found.missed += [size] if best < library else []
            continue
        took = seconds[name][size]
        found.factors += [library / took] if library < float("inf") else []
        found.dominated += [(size, took / best)] if took > best * (1 + ALIKE) else []
        found.slower += [(size, took / library)] if library < took * (1 - ALIKE) else []
    return found


if __name__ == "__main__":
    main()
