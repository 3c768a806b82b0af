"""A project of one cluster and one cell, built in this process, so that tests may change what comes out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from support.small_projects import RING, tree

from hetesynth.deploy.build import build, check, folder_plans, load_clusters
from hetesynth.deploy.cache import Cache, CellResult, as_kept
from hetesynth.deploy.compute import compute, provenance
from hetesynth.deploy.job import Job
from hetesynth.deploy.manifest.reader import read_manifest
from hetesynth.deploy.manifest.values import Gates, Manifest
from hetesynth.deploy.outcome import BuildReport, CellReport, Watcher
from hetesynth.deploy.workers import Failed, Outcome, made

MANIFEST = """[defaults]
collectives = ["allgather"]
sizes = ["64KB..16MB"]
targets = ["rccl-6"]

[[cluster]]
topology = "three.dsl"
"""
Change = Callable[[CellResult], CellResult]


class Here:
    """Runs jobs in this process; ``change``: of each result. None: every job fails."""

    def __init__(self, change: Change | None = lambda result: result) -> None:
        self.change = change
        self.names: list[str] = []

    def run(self, jobs: Sequence[Job], watcher: Watcher) -> Iterator[Outcome]:
        for job in jobs:
            self.names.append(job.cell.name)
            if self.change is None:
                yield Failed(job.key, "no program fits", "HS502")
            else:
                yield self.change(compute(job))


class Cached:
    """Runs jobs in this process, as a worker does, with the cache in ``folder``; those whose cell's name has
    ``fails`` in it fail."""

    def __init__(self, folder: Path | None = None, fails: str = "nothing") -> None:
        self.folder, self.fails = folder, fails
        self.names: list[str] = []

    def run(self, jobs: Sequence[Job], watcher: Watcher) -> Iterator[Outcome]:
        for job in jobs:
            self.names.append(job.cell.name)
            failed = Failed(job.key, "no program fits", "HS502")
            yield failed if self.fails in job.cell.name else made(job, self.folder, lambda *_: None)


class Project:
    """One cluster of three GPUs in a ring, and one cell."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.gates = Gates()
        self.cluster(25)
        (folder / "hetesynth.toml").write_text(MANIFEST)

    def cluster(self, rate: float) -> None:
        """All links at ``rate`` GB/s."""
        (self.folder / "three.dsl").write_text(RING.format(name="three", gpus=3, last=2, rate=rate))

    def edit_cluster(self, old: str, new: str) -> None:
        path = self.folder / "three.dsl"
        path.write_text(path.read_text().replace(old, new))

    @property
    def deployed(self) -> Path:
        """The folder of its cluster and target."""
        return self.folder / "schedules/three/rccl-6"

    def check(self, jobs: int = 1, *, quick: bool = False) -> BuildReport:
        return check(self.manifest, jobs, Watcher(), quick=quick)

    @property
    def manifest(self) -> Manifest:
        manifest = read_manifest(self.folder / "hetesynth.toml")
        return replace(manifest, cells=tuple(replace(cell, gates=self.gates) for cell in manifest.cells))

    def build(self, runner: Here, accept_worse: bool = False, cache: str = "cache") -> CellReport:
        return self.built(runner, accept_worse, cache).cells[0]

    def built(self, runner: Here, accept_worse: bool = False, cache: str = "cache") -> BuildReport:
        return build(self.manifest, runner, Cache(self.folder / cache), Watcher(), accept_worse=accept_worse)

    @property
    def job(self) -> Job:
        """Of its cell."""
        manifest = self.manifest
        return folder_plans(manifest, load_clusters(manifest))[0].jobs[0]

    def made_by(self, strategy: str) -> CellResult:
        """What the cell would be if it were made by ``strategy``; in all else like a result of its job."""
        job = self.job
        other = replace(job.cell, options=replace(job.cell.options, strategy=strategy))
        result = compute(replace(job, cell=other))
        return replace(
            result, key=job.key, record=as_kept({**result.record, "options": provenance(job)["options"]})
        )

    @property
    def row(self) -> dict[str, Any]:
        """The row of the cell in the index."""
        index = json.loads((self.folder / "schedules/three/rccl-6/index.json").read_text())
        rows: list[dict[str, Any]] = index["cells"]
        return rows[0]

    @property
    def programs(self) -> set[str]:
        return {name for name in tree(self.folder / "schedules") if name.startswith("three/rccl-6/algorithms/")}
