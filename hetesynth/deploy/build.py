"""A manifest to its folders: what is stale is made, nothing else, and every folder appears whole.

In: a manifest, a scheduler, a cache. Out: a ``BuildReport``. A folder is exchanged in one step once all of its
cells are decided, so that a build that is killed leaves older folders and newer ones, each of one piece; results
that were made are in the cache, and the next build goes on from there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from hetesynth.deploy.aside import keep_aside, read_aside
from hetesynth.deploy.cache import Cache
from hetesynth.deploy.carried import Carried, carried
from hetesynth.deploy.cell_check import CheckedCell, each, judged, objections
from hetesynth.deploy.folder.folder import MARK, DeployedCell, Deployment, deployed, differs
from hetesynth.deploy.job import Job, job, pickled
from hetesynth.deploy.keeping import NORMAL, Decision, Rules, aside_folder, decided, failed, settled
from hetesynth.deploy.manifest.values import ClusterEntry, Manifest
from hetesynth.deploy.outcome import BuildReport, CellReport
from hetesynth.deploy.result import CellResult
from hetesynth.deploy.standing import Place
from hetesynth.deploy.watching import Watcher
from hetesynth.deploy.workers import Failed, Outcome, Scheduler
from hetesynth.errors import HetesynthError
from hetesynth.files.folders import check_replaceable, tidy_folder, update_folder
from hetesynth.model.deadline import now
from hetesynth.model.target import target
from hetesynth.model.topology import Topology
from hetesynth.topology.language import load_topology


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
    topology = load_topology(entry.source)
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
        return Place(entry.cell, self.cluster.topology, self.cluster.sha256)

    def contents(self, cells: tuple[DeployedCell, ...]) -> dict[str, bytes]:
        """The files of the folder with ``cells`` in it."""
        return Deployment(self.cluster.topology, self.cluster.sha256, target(self.target), cells).contents()


def carried_cells(plan: FolderPlan) -> Carried:
    """Cells of the folder that no manifest names and that a build keeps."""
    collectives = {job.cell.collective for job in plan.jobs}
    return carried(plan.path, plan.cluster.topology, plan.cluster.sha256, target(plan.target), collectives)


def folder_plans(manifest: Manifest, clusters: Mapping[str, LoadedCluster]) -> tuple[FolderPlan, ...]:
    """What each folder of ``manifest`` is to hold."""
    grouped: dict[tuple[str, str], list[Job]] = {}
    for cell in manifest.cells:
        cluster = clusters[cell.cluster]
        grouped.setdefault((cell.cluster, cell.target), []).append(
            job(cell, cluster.pickled, cluster.sha256, manifest.cells)
        )
    return tuple(
        FolderPlan(manifest.folder(name, runtime), clusters[name], runtime, tuple(jobs))
        for (name, runtime), jobs in grouped.items()
    )


def build(
    manifest: Manifest, scheduler: Scheduler, cache: Cache, watcher: Watcher, rules: Rules = NORMAL, jobs: int = 1
) -> BuildReport:
    """Make what is stale, and deploy what is not worse than what is there. After Ctrl-C what was made is kept,
    and the rest is ``unfinished``. ``jobs``: processes that judge what the cache has.

    Raises HetesynthError for topologies that are wrong, HS880 where a folder cannot be written, and HS881 where
    anybody may write into the cache.
    """
    began = now()
    cache.check()
    plans = folder_plans(manifest, load_clusters(manifest))
    for plan in plans:
        tidy_folder(plan.path)
        tidy_folder(manifest.output / aside_folder(plan.jobs[0].cell))
    cache.tidy()
    report = _Build(manifest, plans, cache, watcher, rules, jobs).run(scheduler)
    return replace(report, seconds=now() - began)


@dataclass
class _Build:
    manifest: Manifest
    plans: tuple[FolderPlan, ...]
    cache: Cache
    watcher: Watcher
    rules: Rules
    judging: int
    reports: dict[str, CellReport] = field(default_factory=dict)
    written: list[Path] = field(default_factory=list)
    warnings: dict[str, None] = field(default_factory=dict)
    decided: dict[str, DeployedCell] = field(default_factory=dict)
    aside: dict[str, CellResult | None] = field(default_factory=dict)

    def run(self, scheduler: Scheduler) -> BuildReport:
        """All cells decided and all folders written, or as far as it went until Ctrl-C."""
        interrupted = False
        try:
            self._all(scheduler)
        except KeyboardInterrupt:
            interrupted = True
            self._leave_unfinished()
        reports = tuple(self.reports[cell.name] for cell in self.manifest.cells)
        return BuildReport(
            self.manifest.path, self.manifest.output, reports, written=tuple(self.written),
            warnings=tuple(self.warnings), interrupted=interrupted,
        )  # fmt: skip

    def _all(self, scheduler: Scheduler) -> None:
        before = {plan.path: self._standing(plan) for plan in self.plans}
        jobs = {job.key: (job, plan) for plan in self.plans for job in plan.jobs}
        unsettled = [
            (entry, plan)
            for entry, plan in jobs.values()
            if not self._is_settled(plan.at(entry), entry.key, before[plan.path].get(entry.cell.name))
        ]
        stale = self._not_kept(unsettled, before)
        self.watcher.expected(len(self.manifest.cells), {entry.key: entry.cell.name for entry in stale})
        for plan in self.plans:
            if self._is_decided(plan):
                self._write(plan)
            else:
                _check(plan)
        for outcome in scheduler.run(stale, self.watcher) if stale else ():
            entry, plan = jobs[outcome.key]
            self._decide(self._outcome(plan.at(entry), outcome, before[plan.path].get(entry.cell.name)))
            if self._is_decided(plan):
                self._write(plan)

    def _standing(self, plan: FolderPlan) -> dict[str, DeployedCell]:
        """The cells of the folder, those that are no longer what was made as they were made."""
        cells = {cell.name: cell for cell in deployed(plan.path)}
        for entry in plan.jobs:
            old = cells.get(entry.cell.name)
            kept = self.cache.get(old.made_for) if old is not None and old.key == entry.key else None
            if old is None or kept is None or _is_result(old, kept):
                continue
            checked = judged(CheckedCell(entry, old), self.rules)
            if checked.status != "invalid":
                continue
            again = replace(old, key=old.made_for, record=kept.record, files=kept.files)
            if judged(CheckedCell(entry, again), self.rules).status == "invalid":
                del cells[old.name]
                continue
            self._warn(f"{old.name} was changed, and is as it was made again: {checked.messages[0]}")
            cells[old.name] = again
        return cells

    def _is_settled(self, at: Place, key: str, old: DeployedCell | None) -> bool:
        """True where the folder says what was decided, which is decided again then."""
        decision = settled(at, key, old, self.rules)
        if decision is not None:
            self._decide(decision)
        return decision is not None

    def _not_kept(
        self, unsettled: Sequence[tuple[Job, FolderPlan]], before: Mapping[Path, Mapping[str, DeployedCell]]
    ) -> list[Job]:
        """The jobs for which the cache has nothing that the judges accept; the others are decided."""
        kept = {entry.key: result for entry, _ in unsettled if (result := self.cache.get(entry.key)) is not None}
        given = [CheckedCell.given(entry, kept[entry.key]) for entry, _ in unsettled if entry.key in kept]
        judge = partial(objections, rules=self.rules)
        wrong = {one.job.key: reasons for one, reasons in each(judge, given, self.judging)}
        for key in [key for key, reasons in wrong.items() if reasons]:
            del kept[key]
            self.cache.drop(key)
        stale = []
        for entry, plan in unsettled:
            if entry.key in kept:
                old = before[plan.path].get(entry.cell.name)
                self._decide(decided(plan.at(entry), kept[entry.key], old, self.rules, cached=True))
                continue
            if entry.key in wrong:
                why = wrong[entry.key][0]
                self._warn(f"the cache has a wrong result for {entry.cell.name}, which is made anew: {why}")
            stale.append(entry)
        return stale

    def _leave_unfinished(self) -> None:
        for plan in self.plans:
            for entry in plan.jobs:
                if entry.cell.name not in self.reports:
                    report = CellReport(entry.cell, "unfinished", entry.key, messages=("Ctrl-C came first",))
                    self.reports[entry.cell.name] = report

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
        self.watcher.decided(report)

    def _is_decided(self, plan: FolderPlan) -> bool:
        return all(job.cell.name in self.reports for job in plan.jobs)

    def _write(self, plan: FolderPlan) -> None:
        """The folder in one step, if it is not what it should be."""
        if differs(plan.path, self._contents(plan)):
            with _writing(plan.path):
                plan.path.parent.mkdir(parents=True, exist_ok=True)
                update_folder(plan.path, lambda: self._contents(plan), MARK)
            self.written.append(plan.path)
        self._keep_aside(plan)

    def _keep_aside(self, plan: FolderPlan) -> None:
        """What was made and is not deployed; where an earlier build made it, from its folder or the cache."""
        jobs = [job for job in plan.jobs if job.cell.name in self.aside]
        folder = self.manifest.output / aside_folder(plan.jobs[0].cell)
        earlier = read_aside(folder) if jobs else {}
        results = (self.aside[job.cell.name] or earlier.get(job.key) or self.cache.get(job.key) for job in jobs)
        with _writing(folder):
            keep_aside(folder, [result for result in results if result is not None])

    def _contents(self, plan: FolderPlan) -> dict[str, bytes]:
        """What the folder is to hold: the cells of the manifest, and those that an atlas brought."""
        others = carried_cells(plan)
        for message in others.notes:
            self._warn(message)
        cells = tuple(self.decided[job.cell.name] for job in plan.jobs if job.cell.name in self.decided)
        return plan.contents((*cells, *others.cells))

    def _warn(self, message: str) -> None:
        self.watcher.warned(message)
        self.warnings[message] = None


def _is_result(old: DeployedCell, kept: CellResult) -> bool:
    """Whether ``old`` is still what was made; one that stayed has new times, and no proof of its steps."""
    if old.made_for == old.key:
        return old.files == kept.files and old.record == kept.record
    kinds = "steps", "programs", "warnings", "chunks"
    return old.files == kept.files and all(old.record.get(kind) == kept.record.get(kind) for kind in kinds)


def _check(plan: FolderPlan) -> None:
    """HetesynthError HS880 before the work where its result cannot be written."""
    with _writing(plan.path):
        plan.path.parent.mkdir(parents=True, exist_ok=True)
        check_replaceable(plan.path, MARK)


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Says of an error what is not lost."""
    try:
        yield
    except (OSError, HetesynthError) as error:
        coded = isinstance(error, HetesynthError)
        reason = error.message if isinstance(error, HetesynthError) else f"{folder}: {error.strerror or error}"
        unlike = coded and not isinstance(error.__cause__, OSError)
        way_out = "move what is there away" if unlike else "make room, or make the folder writable"
        raise HetesynthError(
            f"{reason}; the folder is as it was, and finished cells are in the cache",
            code="HS880",
            help=f"{way_out}, and build again: it goes on from here",
        ) from error
