"""A manifest to its folders: what is stale is made, nothing else, and every folder appears whole.

In: a manifest, a scheduler, a cache. Out: a ``BuildReport``. A folder is exchanged in one step once all of its
cells are decided, so that a build that is killed leaves older folders and newer ones, each of one piece; results
that were made are in the cache, and the next build goes on from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hetesynth.building.aside import keep_aside, read_aside
from hetesynth.building.cache import Cache
from hetesynth.building.job import Job, job, pickled
from hetesynth.building.keeping import NORMAL, Decision, Rules, aside_folder, decided, failed, settled
from hetesynth.building.outcome import BuildReport, CellReport
from hetesynth.building.result import CellResult
from hetesynth.building.standing import Place
from hetesynth.building.workers import Failed, Outcome, Scheduler
from hetesynth.deployment.folder import MARK, DeployedCell, Deployment, deployed, differs
from hetesynth.files.folders import check_replaceable, write_folder
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

    def at(self, entry: Job) -> Place:
        """Where the cell of ``entry`` is."""
        return Place(entry.cell, self.cluster.topology, self.cluster.sha256, self.path)


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


def build(
    manifest: Manifest, scheduler: Scheduler, cache: Cache, told: Told, rules: Rules = NORMAL
) -> BuildReport:  # fmt: skip
    """Make what is stale. Raises HetesynthError where nothing can be written."""
    plans = folder_plans(manifest, load_clusters(manifest))
    for plan in plans:
        plan.path.parent.mkdir(parents=True, exist_ok=True)
        check_replaceable(plan.path, MARK)
    return _Build(manifest, plans, cache, told, rules).run(scheduler)


@dataclass
class _Build:
    manifest: Manifest
    plans: tuple[FolderPlan, ...]
    cache: Cache
    told: Told
    rules: Rules
    reports: dict[str, CellReport] = field(default_factory=dict)
    written: list[Path] = field(default_factory=list)
    decided: dict[str, DeployedCell] = field(default_factory=dict)
    aside: dict[str, CellResult | None] = field(default_factory=dict)

    def run(self, scheduler: Scheduler) -> BuildReport:
        before = {plan.path: {cell.name: cell for cell in deployed(plan.path)} for plan in self.plans}
        jobs = {job.key: (job, plan) for plan in self.plans for job in plan.jobs}
        stale = []
        for entry, plan in jobs.values():
            old = before[plan.path].get(entry.cell.name)
            decision = settled(plan.at(entry), entry.key, old, self.rules)
            if decision is not None:
                self._decide(decision)
                continue
            result = self.cache.get(entry.key)
            if result is None:
                stale.append(entry)
            else:
                self._decide(decided(plan.at(entry), result, old, self.rules, cached=True))
        for plan in self.plans:
            self._write_when_decided(plan)
        for outcome in scheduler.run(stale) if stale else ():
            entry, plan = jobs[outcome.key]
            self._decide(self._outcome(plan.at(entry), outcome, before[plan.path].get(entry.cell.name)))
            self._write_when_decided(plan)
        reports = tuple(self.reports[cell.name] for cell in self.manifest.cells)
        return BuildReport(self.manifest.path, self.manifest.output, reports, (), tuple(self.written))

    def _outcome(self, at: Place, outcome: Outcome, old: DeployedCell | None) -> Decision:
        if isinstance(outcome, Failed):
            return failed(at, outcome.key, f"{outcome.code}: {outcome.message}", old, self.rules)
        return decided(at, outcome, old, self.rules, cached=False)

    def _decide(self, decision: Decision) -> None:
        report = decision.report
        self.reports[report.cell.name] = report
        if decision.cell is not None:
            self.decided[report.cell.name] = decision.cell
        if decision.aside:
            self.aside[report.cell.name] = decision.result
        self.told(report, len(self.reports), len(self.manifest.cells))

    def _write_when_decided(self, plan: FolderPlan) -> None:
        if any(job.cell.name not in self.reports for job in plan.jobs):
            return
        cells = self._cells(job.cell.name for job in plan.jobs)
        deployment = Deployment(plan.cluster.topology, plan.cluster.sha256, target(plan.target), cells)
        contents = deployment.contents()
        if differs(plan.path, list(contents.items())):
            write_folder(plan.path, contents, MARK)
            self.written.append(plan.path)
        self._keep_aside(plan)

    def _keep_aside(self, plan: FolderPlan) -> None:
        """What was made and is not deployed; from this build, its folder or the cache."""
        jobs = [job for job in plan.jobs if job.cell.name in self.aside]
        folder = self.manifest.output / aside_folder(plan.jobs[0].cell)
        earlier = read_aside(folder) if jobs else {}
        results = (self.aside[job.cell.name] or earlier.get(job.key) or self.cache.get(job.key) for job in jobs)
        keep_aside(folder, [result for result in results if result is not None])

    def _cells(self, names: Iterable[str]) -> tuple[DeployedCell, ...]:
        return tuple(self.decided[name] for name in names if name in self.decided)
