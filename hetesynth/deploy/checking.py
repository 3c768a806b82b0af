"""``build --check``: what a build would change, without changing anything.

In: a manifest, a number of processes. Out: a ``BuildReport`` with ``checked``. Keys and digests tell what is
stale, missing or changed; then the judges read every file, several at a time. Nothing is written, nor is the cache
looked at, so that it works on what can only be read.
"""

from __future__ import annotations

from functools import partial

from hetesynth.deploy.build import FolderPlan, folder_plans, load_clusters
from hetesynth.deploy.cell_check import CheckedCell, by_key, each, judged
from hetesynth.deploy.folder.folder import DeployedCell, deployed
from hetesynth.deploy.folder_check import damage, folder_findings, rows_of, unnamed_folders
from hetesynth.deploy.keeping import NORMAL, Rules
from hetesynth.deploy.manifest.values import Manifest
from hetesynth.deploy.outcome import BuildReport, CellReport, Status
from hetesynth.deploy.watching import Watcher
from hetesynth.model.deadline import now


def check(
    manifest: Manifest, jobs: int, watcher: Watcher, rules: Rules = NORMAL, *, quick: bool = False
) -> BuildReport:
    """Whether a build would change anything. ``quick``: keys, digests and gates alone, no judges.

    Raises HetesynthError for topologies that are wrong.
    """
    began = now()
    plans = folder_plans(manifest, load_clusters(manifest))
    present = {plan.path: {cell.name: cell for cell in deployed(plan.path)} for plan in plans}
    reports: dict[str, CellReport] = {}
    waiting: list[CheckedCell] = []
    for plan in plans:
        _sort(plan, present[plan.path], reports, waiting)
    watcher.expected(len(manifest.cells), {one.job.key: one.job.cell.name for one in waiting})
    for report in reports.values():
        watcher.decided(report)
    judge = partial(by_key if quick else judged, rules=rules)
    for _, report in each(judge, waiting, 1 if quick else jobs):
        reports[report.cell.name] = report
        watcher.decided(report)
    findings = [
        finding
        for plan in plans
        for finding in folder_findings(plan, present[plan.path], [reports[job.cell.name] for job in plan.jobs])
    ]
    findings += unnamed_folders(manifest, plans)
    cells = tuple(reports[cell.name] for cell in manifest.cells)
    return BuildReport(
        manifest.path, manifest.output, cells, checked=True, seconds=now() - began, folders=tuple(findings)
    )


def _sort(
    plan: FolderPlan,
    present: dict[str, DeployedCell],
    reports: dict[str, CellReport],
    waiting: list[CheckedCell],
) -> None:
    """The cells of a folder: those that are not whole have their report, the others are to be judged."""
    rows = rows_of(plan.path)
    for job in plan.jobs:
        name = job.cell.name
        if name in present:
            waiting.append(CheckedCell(job, present[name]))
            continue
        reasons = damage(plan.path, rows.get(name))
        status: Status = "invalid" if reasons else "missing"
        reports[name] = CellReport(job.cell, status, job.key, messages=reasons or ("there is none",))
