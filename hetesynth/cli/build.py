"""``hetesynth build``: the schedules of a manifest, made where they are stale."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from hetesynth.cli.options import FILE, json_option
from hetesynth.cli.progress import warned
from hetesynth.cli.terminal import show
from hetesynth.deploy.cache import Cache, default_cache
from hetesynth.deploy.manifest.reader import read_manifest
from hetesynth.deploy.manifest.values import Manifest
from hetesynth.deploy.outcome import BuildReport, CellReport, Watcher
from hetesynth.deploy.reports import write
from hetesynth.deploy.reports.words import ATTENTION, WAYS_OUT, counts_text, one_line, reason
from hetesynth.deploy.workers import LocalProcesses
from hetesynth.errors import HetesynthError
from hetesynth.model.deadline import now
from hetesynth.model.words import counted
from hetesynth.processes import processors

SHOWN_OF_A_STATUS = 10
SILENT = 30.0  # seconds after which a log says what is being done; CI systems end jobs that say nothing for long
_ANNOTATIONS = (
    "Findings where a forge shows them, repeatable: github (workflow commands), gitlab=FILE (Code Quality), "
    "sarif=FILE."
)
_CACHE = "Where results are kept, for builds on any machine [default: the manifest's, else ~/.cache/hetesynth]."
_DASK = "A Dask cluster makes the cells: the address of its scheduler, such as tcp://host:8786."


@click.command(name="build")
@click.argument("manifest", type=FILE, default="hetesynth.toml")
@click.option("--jobs", type=click.IntRange(1, 256), help="Processes [default: as many as there are cores].")
@click.option("--scheduler", metavar="ADDRESS", help=_DASK)
@click.option("--cache", type=FILE, metavar="FOLDER", envvar="HETESYNTH_CACHE", help=_CACHE)
@click.option("--accept-worse", is_flag=True, help="Deploy what is made, though what is there is better.")
@click.option("--check", is_flag=True, help="Write nothing; end with 1 where a build would change anything.")
@click.option("--quick", is_flag=True, help="With --check: compare keys and digests, run no judge.")
@json_option
@click.option("--junit", type=FILE, metavar="FILE", help="JUnit XML: a suite a folder, a case a cell.")
@click.option("--annotations", multiple=True, metavar="FORGE[=FILE]", help=_ANNOTATIONS)
@click.option("--markdown", type=FILE, metavar="FILE", help="A summary; - is standard output.")
@click.option("--pages", type=FILE, metavar="FOLDER", help="HTML: an index, and a report for each cell.")
def command(
    manifest: Path,
    jobs: int | None,
    scheduler: str | None,
    cache: Path | None,
    accept_worse: bool,
    check: bool,
    quick: bool,
    **reports: Any,
) -> int:
    """Make every schedule of MANIFEST that is stale, and nothing else.

    A schedule is stale where its cluster, its options, hetesynth or a solver changed: a comment in a topology
    file changes nothing. What was made once for the same content is taken from the cache, byte for byte. The
    folder of a cluster and a target appears whole; a build that was killed goes on where it was. What is made and
    worse than what is there is not deployed.
    """
    from hetesynth.deploy import build
    from hetesynth.deploy.dask_cluster import DaskCluster

    if quick and not check:
        raise HetesynthError("--quick is for --check", code="HS853", help="add --check, or leave --quick out")
    if check and accept_worse:
        raise HetesynthError(
            "--check deploys nothing, so --accept-worse has no meaning", code="HS854", help="leave one of them out"
        )
    if scheduler is not None and (jobs is not None or check):
        other = "--check runs here" if check else "--jobs is of processes here"
        raise click.UsageError(f"{other}; with --scheduler the cluster's workers make the cells")
    processes = jobs or processors()
    options = write.report_options(**reports, jobs=processes)
    watcher = _Lines()
    try:
        stated = read_manifest(manifest)
        write.demand_outside(options, {stated.folder(cell.cluster, cell.target) for cell in stated.cells})
        if check:
            report = build.check(stated, processes, watcher, quick=quick)
        else:
            store = Cache(cache or stated.cache or default_cache())
            local = LocalProcesses(processes, store.folder)
            workers = local if scheduler is None else DaskCluster(scheduler, store.folder)
            report = build.build(stated, workers, store, watcher, accept_worse=accept_worse, jobs=processes)
    except HetesynthError as error:  # it is in the reports too
        if options.any:
            findings = write.failure_findings(error, manifest)
            show_reports(BuildReport(manifest, manifest.parent, (), findings, checked=check), options)
        raise
    show_reports(report, options, stated, build_text(report, check=check, quick=quick))
    if report.interrupted:
        return 3
    return 0 if report.ok else 1


def show_reports(
    report: BuildReport, options: write.ReportOptions, manifest: Manifest | None = None, text: str = ""
) -> None:
    """Write the reports; print the one that goes to standard output, or else ``text``. Commands go to standard
    error where standard output is a report: a forge reads both."""
    if options.any and manifest is not None and not report.findings:
        report = replace(report, findings=write.topology_findings(manifest))
    output, commands, written = write.write_reports(report, options, manifest)
    if text and not options.talks:
        output = "\n".join([text, *(f"wrote {path}" for path in written)])
    if output:
        show(output)
    for line in commands:
        show(line, err=options.talks)


class _Lines(Watcher):
    """A watcher that shows on standard error that a build lives: a line for each cell that was to be made, and one
    on the work in hand after ``SILENT`` seconds without any. Each warning is said once."""

    def __init__(self) -> None:
        self._warnings: set[str] = set()
        self._names: dict[str, str] = {}
        self._made = 0
        self._started = self._said_at = now()

    def warned(self, message: str) -> None:
        if message not in self._warnings:
            self._warnings.add(message)
            warned(message)

    def expected(self, cells: int, stale: Mapping[str, str]) -> None:
        self._names = dict(stale)
        if stale:
            self._say(f"{cells} cells, {len(stale)} to make")

    def working(self, key: str, what: str) -> None:
        if now() - self._said_at >= SILENT:
            self._say(f"{self._made} of {len(self._names)} made; {self._names.get(key, key[:8])}: {what}")

    def decided(self, report: CellReport) -> None:
        if report.key in self._names:
            self._made += 1
            self._say(f"{self._made} of {len(self._names)} {report.cell.name}: {report.status}")

    def _say(self, text: str) -> None:
        self._said_at = now()
        show(f"{self._said_at - self._started:.0f} s: {text}", err=True)


def build_text(report: BuildReport, *, check: bool = False, quick: bool = False) -> str:
    """Return the text of a report, without cells that are as they should be; for a ``check`` whether a build would
    change anything, and what was looked at to say so."""
    if check:
        looked = "every schedule replayed, every program executed"
        looked = "keys and digests compared, no judge asked" if quick else looked
        ended = f"{'all current' if report.ok else 'a build would change this'} ({looked})"
    elif report.written:
        ended = f"wrote {counted(len(report.written), 'folder')}: {', '.join(map(str, report.written))}"
    else:
        ended = f"{report.output}: every folder is as it was"
    return "\n".join([one_line(counts_text(report)), *_attention(report), one_line(ended)])


def _attention(report: BuildReport) -> Iterator[str]:
    for status in ATTENTION:
        cells = [cell for cell in report.cells if cell.status == status]
        if cells:
            yield f"{status}: {WAYS_OUT[status]}"
            yield from _listed([(cell.cell.name, reason(cell)) for cell in cells])
    for title, stale in (("folders", True), ("folders that a build leaves alone", False)):
        findings = [finding for finding in report.folders if finding.stale == stale]
        if findings:
            yield f"{title}:"
            yield from _listed([(str(finding.folder), one_line(finding.message)) for finding in findings])
    notes = [cell for cell in report.cells if cell.messages and cell.status not in ATTENTION]
    if notes:
        yield "notes:"
        yield from _listed([(cell.cell.name, f"{cell.status}: {reason(cell)}") for cell in notes])


def _listed(rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Names and reasons, indented, so that no name begins a line that a forge takes for a command."""
    for name, why in rows[:SHOWN_OF_A_STATUS]:
        yield f"  {one_line(name)}{': ' if why else ''}{why}"
    if len(rows) > SHOWN_OF_A_STATUS:
        yield f"  and {len(rows) - SHOWN_OF_A_STATUS} more (--json lists all)"
