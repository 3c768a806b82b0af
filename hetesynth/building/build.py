"""A manifest to its folders: what is stale is made, nothing else, and every folder appears whole.

In: a manifest, a scheduler, a cache. Out: a ``BuildReport``. A folder is exchanged in one step once all of its
cells are decided, so that a build that is killed leaves older folders and newer ones, each of one piece; results
that were made are in the cache, and the next build goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hetesynth.building.cache import Cache
from hetesynth.building.carried import carried
from hetesynth.building.job import Job, job, pickled
from hetesynth.building.outcome import BuildReport, CellReport, Status
from hetesynth.building.result import CellResult
from hetesynth.building.workers import Failed, Outcome, Scheduler
from hetesynth.deployment.folder import MARK, DeployedCell, Deployment, deployed, differs
from hetesynth.files.folders import check_replaceable, update_folder
from hetesynth.frontend import load_topology
from hetesynth.frontend.overridden import overridden
from hetesynth.manifest.values import ClusterEntry, Manifest
from hetesynth.model.target import target
from hetesynth.model.topology import Topology

Told = Callable[[CellReport, int, int], None]
"""Is told of each cell that is decided, how many are, and of how many."""


@dataclass(frozen=True, slots=True)
class LoadedCluster:
    """A cluster of the manifest as it was read."""

    topology: Topology
    pickled: bytes = field(repr=False)
    sha256: str


def load_clusters(manifest: Manifest) -> dict[str, LoadedCluster]:
    """Every cluster by its name. Raises HetesynthError for files that are wrong."""
    return {entry.name: _loaded(entry) for entry in manifest.clusters}


def _loaded(entry: ClusterEntry) -> LoadedCluster:
    file = overridden(entry.topology, entry.without, entry.degrade)
    topology = load_topology(file if file.losses else entry.topology)
    return LoadedCluster(topology, *pickled(topology))


@dataclass(frozen=True, slots=True)
class FolderPlan:
    """A folder and the jobs whose results it is to hold, in the order of the manifest."""

    path: Path
    cluster: LoadedCluster
    target: str
    jobs: tuple[Job, ...]


def folder_plans(manifest: Manifest, clusters: Mapping[str, LoadedCluster]) -> tuple[FolderPlan, ...]:
    """What each folder of ``manifest`` is to hold."""
    grouped: dict[tuple[str, str], list[Job]] = {}
    for cell in manifest.cells:
        cluster = clusters[cell.cluster]
        grouped.setdefault((cell.cluster, cell.target), []).append(job(cell, cluster.pickled, cluster.sha256))
    return tuple(
        FolderPlan(manifest.folder(name, runtime), clusters[name], runtime, tuple(jobs))
        for (name, runtime), jobs in grouped.items()
    )


def build(manifest: Manifest, scheduler: Scheduler, cache: Cache, told: Told) -> BuildReport:
    """Make what is stale. Raises HetesynthError where nothing can be written."""
    plans = folder_plans(manifest, load_clusters(manifest))
    for plan in plans:
        plan.path.parent.mkdir(parents=True, exist_ok=True)
        check_replaceable(plan.path, MARK)
    return _Build(manifest, plans, cache, told).run(scheduler)


@dataclass
class _Build:
    manifest: Manifest
    plans: tuple[FolderPlan, ...]
    cache: Cache
    told: Told
    reports: dict[str, CellReport] = field(default_factory=dict)
    written: list[Path] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)
    decided: dict[str, DeployedCell] = field(default_factory=dict)

    def run(self, scheduler: Scheduler) -> BuildReport:
        before = {plan.path: {cell.name: cell for cell in deployed(plan.path)} for plan in self.plans}
        jobs = {job.key: (job, plan) for plan in self.plans for job in plan.jobs}
        stale = []
        for entry, plan in jobs.values():
            old = before[plan.path].get(entry.cell.name)
            if old is not None and old.key == entry.key:
                self._decide(CellReport(entry.cell, "current", entry.key, old.record, old.record), old)
                continue
            result = self.cache.get(entry.key)
            if result is None:
                stale.append(entry)
            else:
                self._result(entry, result, old, cached=True)
        for plan in self.plans:
            self._write_when_decided(plan)
        for outcome in scheduler.run(stale) if stale else ():
            entry, plan = jobs[outcome.key]
            self._outcome(entry, outcome, before[plan.path].get(entry.cell.name))
            self._write_when_decided(plan)
        reports = tuple(self.reports[cell.name] for cell in self.manifest.cells)
        return BuildReport(
            self.manifest.path, self.manifest.output, reports, (), tuple(self.written), notes=tuple(self.notes)
        )

    def _outcome(self, entry: Job, outcome: Outcome, old: DeployedCell | None) -> None:
        if isinstance(outcome, Failed):
            report = CellReport(entry.cell, "failed", entry.key, messages=(f"{outcome.code}: {outcome.message}",))
            self._decide(report, old)
        else:
            self._result(entry, outcome, old, cached=False)

    def _result(self, entry: Job, result: CellResult, old: DeployedCell | None, *, cached: bool) -> None:
        previous = None if old is None else old.record
        status: Status = "cached" if cached else "built"
        cell = DeployedCell(entry.cell.name, entry.key, entry.key, result.record, result.files)
        self._decide(CellReport(entry.cell, status, entry.key, result.record, previous), cell)

    def _decide(self, report: CellReport, cell: DeployedCell | None) -> None:
        self.reports[report.cell.name] = report
        if cell is not None:
            self.decided[report.cell.name] = cell
        self.told(report, len(self.reports), len(self.manifest.cells))

    def _write_when_decided(self, plan: FolderPlan) -> None:
        if any(job.cell.name not in self.reports for job in plan.jobs):
            return
        if differs(plan.path, list(self._contents(plan).items())):
            update_folder(plan.path, lambda: self._contents(plan), MARK)
            self.written.append(plan.path)

    def _contents(self, plan: FolderPlan) -> dict[str, bytes]:
        """What the folder is to hold: the cells of the manifest, and those that an atlas brought."""
        topology, sha256, runtime = plan.cluster.topology, plan.cluster.sha256, target(plan.target)
        collectives = {job.cell.collective for job in plan.jobs}
        others = carried(plan.path, topology, sha256, runtime, collectives)
        self.notes.update(dict.fromkeys(others.notes))
        cells = self._cells(job.cell.name for job in plan.jobs)
        return Deployment(topology, sha256, runtime, (*cells, *others.cells)).contents()

    def _cells(self, names: Iterable[str]) -> tuple[DeployedCell, ...]:
        return tuple(self.decided[name] for name in names if name in self.decided)
