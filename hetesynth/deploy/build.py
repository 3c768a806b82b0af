"""A manifest to its folders: what is stale is made, nothing else, and every folder appears whole."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from hetesynth.deploy.cache import Cache
from hetesynth.deploy.cell_check import CheckedCell, by_key, each, judged, objections
from hetesynth.deploy.figures import named
from hetesynth.deploy.folder.cells import DeployedCell
from hetesynth.deploy.folder.folder import MARK, cells_of, deployed, differs, folder_contents, index_of
from hetesynth.deploy.job import Job, job, pickled
from hetesynth.deploy.keeping import Decision, decided, failed, settled
from hetesynth.deploy.manifest.values import Manifest
from hetesynth.deploy.outcome import BuildReport, CellReport, FolderFinding, Status, Watcher
from hetesynth.deploy.workers import Failed, Scheduler
from hetesynth.errors import HetesynthError
from hetesynth.files.folders import INDEX, check_replaceable, tidy_folder, update_folder
from hetesynth.files.regular_files import read_regular
from hetesynth.model.deadline import now
from hetesynth.model.target import target
from hetesynth.model.topology import Topology
from hetesynth.topology.believable import load_topology

SOUND = frozenset({"current", "kept"})


@dataclass(frozen=True, slots=True)
class LoadedCluster:
    """A cluster of the manifest as it was read."""

    topology: Topology
    pickled: bytes = field(repr=False)
    sha256: str


def load_clusters(manifest: Manifest) -> dict[str, LoadedCluster]:
    """Every cluster by its name. Raises HetesynthError for files that are wrong."""
    clusters = {}
    for entry in manifest.clusters:
        topology = load_topology(entry.source)
        clusters[entry.name] = LoadedCluster(topology, *pickled(topology))
    return clusters


@dataclass(frozen=True, slots=True)
class FolderPlan:
    """A folder and the jobs whose results it is to hold, in the order of the manifest."""

    path: Path
    cluster: LoadedCluster
    target: str
    jobs: tuple[Job, ...]

    def contents(self, cells: tuple[DeployedCell, ...]) -> dict[str, bytes]:
        """The files of the folder with ``cells`` in it."""
        return folder_contents(self.cluster.topology, self.cluster.sha256, target(self.target), cells)


def folder_plans(manifest: Manifest, clusters: Mapping[str, LoadedCluster]) -> tuple[FolderPlan, ...]:
    """Return each folder of ``manifest`` with the jobs whose results it is to hold."""
    grouped: dict[tuple[str, str], list[Job]] = {}
    for cell in manifest.cells:
        cluster = clusters[cell.cluster]
        entry = job(cell, cluster.pickled, cluster.sha256, manifest.cells)
        grouped.setdefault((cell.cluster, cell.target), []).append(entry)
    return tuple(
        FolderPlan(manifest.folder(name, runtime), clusters[name], runtime, tuple(jobs))
        for (name, runtime), jobs in grouped.items()
    )


def build(
    manifest: Manifest,
    scheduler: Scheduler,
    cache: Cache,
    watcher: Watcher,
    *,
    accept_worse: bool = False,
    jobs: int = 1,
) -> BuildReport:
    """Make each stale cell, and deploy it unless it is worse than the older one. After Ctrl-C finished cells are
    kept, and the others are ``unfinished``. ``jobs``: processes that judge what the cache has. Raises
    HetesynthError for topologies that are wrong, HS880 where a folder cannot be written, and HS881 where anybody
    may write into the cache."""
    began = now()
    cache.check()
    plans = folder_plans(manifest, load_clusters(manifest))
    for plan in plans:
        tidy_folder(plan.path)
    cache.tidy()
    work = _Build(manifest, plans, cache, watcher, accept_worse, jobs)
    interrupted = False
    try:
        work.run(scheduler)
    except KeyboardInterrupt:
        interrupted = True
        for entry in (entry for plan in plans for entry in plan.jobs):
            unfinished = CellReport(entry.cell, "unfinished", entry.key, messages=("Ctrl-C came first",))
            work.reports.setdefault(entry.cell.name, unfinished)
    return BuildReport(
        manifest.path,
        manifest.output,
        tuple(work.reports[cell.name] for cell in manifest.cells),
        written=tuple(work.written),
        warnings=tuple(work.warnings),
        interrupted=interrupted,
        seconds=now() - began,
    )


@dataclass
class _Build:
    manifest: Manifest
    plans: tuple[FolderPlan, ...]
    cache: Cache
    watcher: Watcher
    accept_worse: bool
    judging: int
    reports: dict[str, CellReport] = field(default_factory=dict)
    written: list[Path] = field(default_factory=list)
    warnings: dict[str, None] = field(default_factory=dict)
    decided: dict[str, DeployedCell] = field(default_factory=dict)

    def run(self, scheduler: Scheduler) -> None:
        """Decide all cells and write all folders."""
        work: dict[str, tuple[Job, FolderPlan, DeployedCell | None]] = {}
        for plan in self.plans:
            standing = self._standing(plan)
            work |= {job.key: (job, plan, standing.get(job.cell.name)) for job in plan.jobs}
        unsettled = []
        for entry, _, old in work.values():
            decision = settled(entry, old, self.accept_worse)
            if decision is None:
                unsettled.append((entry, old))
            else:  # the folder says what was decided
                self._decide(decision)
        stale = self._not_kept(unsettled)
        self.watcher.expected(len(self.manifest.cells), {entry.key: entry.cell.name for entry in stale})
        for plan in self.plans:
            if not self._is_written(plan):  # before the work where its result cannot be written
                with _writing(plan.path):
                    plan.path.parent.mkdir(parents=True, exist_ok=True)
                    check_replaceable(plan.path, MARK)
        for outcome in scheduler.run(stale, self.watcher) if stale else ():
            entry, plan, old = work[outcome.key]
            if isinstance(outcome, Failed):
                self._decide(failed(entry, f"{outcome.code}: {outcome.message}", old))
            else:
                self._decide(decided(entry, outcome, old, accept_worse=self.accept_worse, cached=False))
            self._is_written(plan)

    def _standing(self, plan: FolderPlan) -> dict[str, DeployedCell]:
        """Return the folder's cells by name, without those that differ from the cache and that judges refuse."""
        cells = {cell.name: cell for cell in deployed(plan.path)}
        for entry in plan.jobs:
            old = cells.get(entry.cell.name)
            kept = self.cache.get(old.made_for) if old is not None and old.key == entry.key else None
            if old is None or kept is None:
                continue
            if old.made_for == old.key and (old.record, old.files) == (kept.record, kept.files):
                continue
            checked = judged(CheckedCell(entry, old))
            if checked.status == "invalid":
                self._warn(f"{old.name} was changed, and does not stay: {checked.messages[0]}")
                del cells[old.name]
        return cells

    def _not_kept(self, unsettled: Sequence[tuple[Job, DeployedCell | None]]) -> list[Job]:
        """Decide the cells for which the cache has a result that the judges accept; return the other jobs."""
        kept = {entry.key: result for entry, _ in unsettled if (result := self.cache.get(entry.key)) is not None}
        given = [CheckedCell.given(entry, kept[entry.key]) for entry, _ in unsettled if entry.key in kept]
        wrong = {one.job.key: reasons for one, reasons in each(objections, given, self.judging)}
        for key in [key for key, reasons in wrong.items() if reasons]:
            del kept[key]
            with suppress(OSError):
                self.cache.path(key).unlink()
        stale = []
        for entry, old in unsettled:
            if entry.key in kept:
                self._decide(decided(entry, kept[entry.key], old, accept_worse=self.accept_worse, cached=True))
                continue
            if entry.key in wrong:
                why = wrong[entry.key][0]
                self._warn(f"the cache has a wrong result for {entry.cell.name}, which is made anew: {why}")
            stale.append(entry)
        return stale

    def _decide(self, decision: Decision) -> None:
        """Record the decision on a cell, and tell the watcher."""
        report, cell = decision
        self.reports[report.cell.name] = report
        if cell is not None:
            self.decided[report.cell.name] = cell
        self.watcher.decided(report)

    def _is_written(self, plan: FolderPlan) -> bool:
        """Return False if a cell is undecided; else replace the folder in one step where it differs."""
        names = [job.cell.name for job in plan.jobs]
        if not self.reports.keys() >= set(names):
            return False
        contents = plan.contents(tuple(self.decided[name] for name in names if name in self.decided))
        if differs(plan.path, contents):
            with _writing(plan.path):
                plan.path.parent.mkdir(parents=True, exist_ok=True)
                update_folder(plan.path, lambda: contents, MARK)
            self.written.append(plan.path)
        return True

    def _warn(self, message: str) -> None:
        self.watcher.warned(message)
        self.warnings[message] = None


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Turn an error inside into HetesynthError HS880, which says what is not lost."""
    try:
        yield
    except (OSError, HetesynthError) as error:
        reason, way_out = f"{folder}: {getattr(error, 'strerror', '')}", "make room, or make the folder writable"
        if isinstance(error, HetesynthError):
            reason = error.message
            way_out = way_out if isinstance(error.__cause__, OSError) else "move what is there away"
        message = f"{reason}; the folder is as it was, and finished cells are in the cache"
        help_ = f"{way_out}, and build again: it goes on from here"
        raise HetesynthError(message, code="HS880", help=help_) from error


def check(manifest: Manifest, jobs: int, watcher: Watcher, *, quick: bool = False) -> BuildReport:
    """Return a report of what a build would change. ``quick``: by keys, digests and gates alone, without judges.
    Raises HetesynthError for topologies that are wrong."""
    began = now()
    plans = folder_plans(manifest, load_clusters(manifest))
    standing = {plan.path: cells_of(plan.path) for plan in plans}
    reports: dict[str, CellReport] = {}
    waiting: list[CheckedCell] = []
    for plan in plans:
        cells, damaged = standing[plan.path]
        present = {cell.name: cell for cell in cells}
        if (plan.path / INDEX).exists() and not index_of(plan.path):
            damaged = dict.fromkeys((job.cell.name for job in plan.jobs), "the index of its folder is damaged")
        for entry in plan.jobs:
            name = entry.cell.name
            if name in present:
                waiting.append(CheckedCell(entry, present[name]))
            else:
                status: Status = "invalid" if name in damaged else "missing"
                why = damaged.get(name, "there is none")
                reports[name] = CellReport(entry.cell, status, entry.key, messages=(why,))
    watcher.expected(len(manifest.cells), {one.job.key: one.job.cell.name for one in waiting})
    for report in reports.values():
        watcher.decided(report)
    for _, report in each(by_key if quick else judged, waiting, 1 if quick else jobs):
        reports[report.cell.name] = report
        watcher.decided(report)
    findings: list[FolderFinding] = []
    for plan in plans:
        sound = all(reports[job.cell.name].status in SOUND for job in plan.jobs)
        findings += _folder_findings(plan, *standing[plan.path], sound)
    planned = {os.path.realpath(plan.path) for plan in plans}
    for depth in ("*", "*/*", "*/*/*"):  # folders of the output that the manifest does not name
        for path in sorted(manifest.output.glob(f"{depth}/{INDEX}")):
            if os.path.realpath(path.parent) not in planned and MARK in (_bytes(path) or b"")[:4096]:
                message = "the manifest does not name it; a build leaves it alone"
                findings.append(FolderFinding(path.parent, message, stale=False))
    told = tuple(reports[cell.name] for cell in manifest.cells)
    return BuildReport(
        manifest.path, manifest.output, told, checked=True, seconds=now() - began, folders=tuple(findings)
    )


def _folder_findings(
    plan: FolderPlan, cells: tuple[DeployedCell, ...], damaged: Mapping[str, str], sound: bool
) -> Iterator[FolderFinding]:
    """Yield how a folder differs from the one that a build would leave. Unless all its cells are ``sound``, a
    build writes the folder anew: then only cells and files that do not belong there count."""
    if not plan.path.is_dir():
        return
    present, names = {cell.name: cell for cell in cells}, [job.cell.name for job in plan.jobs]
    extra = [name for name in (*present, *damaged) if name not in names]
    if extra:
        yield FolderFinding(plan.path, f"cells that the manifest does not name: {named(extra)}")
    contents = plan.contents(tuple(present[name] for name in names if name in present))
    there = {path.relative_to(plan.path).as_posix(): path for path in plan.path.rglob("*") if path.is_file()}
    listed = index_of(plan.path).get("files")
    foreign = sorted(there.keys() - contents.keys() - {INDEX, *(listed if isinstance(listed, dict) else ())})
    if foreign:
        yield FolderFinding(plan.path, f"no part of it: {named(foreign)}")
    wrong = [name for name, data in contents.items() if name not in there or _bytes(there[name]) != data]
    if wrong and sound and not extra:
        yield FolderFinding(plan.path, f"not what a build would write: {named(wrong)}")


def _bytes(path: Path) -> bytes | None:
    try:
        return read_regular(path)
    except OSError:
        return None
