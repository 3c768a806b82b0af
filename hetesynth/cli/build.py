"""``hetesynth build``: the schedules of a manifest, made where they are stale."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hetesynth.cli.build_reports import build_report_options, reported_failures, show_reports
from hetesynth.errors import HetesynthError

if TYPE_CHECKING:
    from hetesynth.deploy.manifest.values import Manifest
    from hetesynth.deploy.outcome import BuildReport


@click.command(name="build", short_help="Make the schedules of a manifest, where they are stale.")
@click.argument("manifest", type=click.Path(path_type=Path), default="hetesynth.toml")
@click.option("--jobs", type=click.IntRange(1, 256), help="Processes [default: as many as there are cores].")
@click.option(
    "--scheduler", metavar="ADDRESS",
    help="A Dask cluster makes the cells: the address of its scheduler, such as tcp://host:8786.",
)  # fmt: skip
@click.option(
    "--cache", type=click.Path(path_type=Path), metavar="FOLDER", envvar="HETESYNTH_CACHE",
    help="Where results are kept, for builds on any machine [default: the manifest's, else ~/.cache/hetesynth].",
)  # fmt: skip
@click.option("--accept-worse", is_flag=True, help="Deploy what is made, though what is there is better.")
@click.option("--check", is_flag=True, help="Write nothing; end with 1 where a build would change anything.")
@click.option("--quick", is_flag=True, help="With --check: compare keys and digests, run no judge.")
@build_report_options
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
    worse than what is there is kept aside.
    """
    from hetesynth.cli.render.build import build_text, check_text
    from hetesynth.deploy.manifest.reader import read_manifest
    from hetesynth.deploy.reports.write import demand_outside, report_options
    from hetesynth.processes import processors

    _demand_one_use(accept_worse=accept_worse, check=check, quick=quick)
    if scheduler is not None and (jobs is not None or check):
        other = "--check runs here" if check else "--jobs is of processes here"
        raise click.UsageError(f"{other}; with --scheduler the cluster's workers make the cells")
    processes = jobs or processors()
    options = report_options(**reports, jobs=processes)
    with reported_failures(manifest, options, checked=check):
        stated = read_manifest(manifest)
        demand_outside(options, {stated.folder(cell.cluster, cell.target) for cell in stated.cells})
        if check:
            report = _check(stated, processes, quick=quick)
        else:
            report = _build(stated, scheduler, processes, cache, accept_worse=accept_worse)
    show_reports(report, options, stated, check_text(report, quick=quick) if check else build_text(report))
    if report.interrupted:
        return 3
    return 0 if report.ok else 1


def _demand_one_use(*, accept_worse: bool, check: bool, quick: bool) -> None:
    if quick and not check:
        raise HetesynthError("--quick is for --check", code="HS853", help="add --check, or leave --quick out")
    if check and accept_worse:
        raise HetesynthError(
            "--check deploys nothing, so --accept-worse has no meaning", code="HS854", help="leave one of them out"
        )


def _build(
    manifest: Manifest, address: str | None, processes: int, folder: Path | None, *, accept_worse: bool
) -> BuildReport:
    """What was made where it was stale, by the scheduler at ``address`` or by ``processes`` here."""
    from hetesynth.cli.building import watching_build
    from hetesynth.deploy.build import build
    from hetesynth.deploy.cache import Cache, default_cache
    from hetesynth.deploy.dask_cluster import DaskCluster
    from hetesynth.deploy.keeping import Rules
    from hetesynth.deploy.workers import LocalProcesses, Scheduler
    from hetesynth.policy import DEFAULT

    store = Cache(folder or manifest.cache or default_cache())
    scheduler: Scheduler = LocalProcesses(processes, store.folder)
    if address is not None:
        scheduler = DaskCluster(address, store.folder)
    with watching_build(quiet=False) as watcher:
        return build(manifest, scheduler, store, watcher, Rules(DEFAULT, accept_worse), processes)


def _check(manifest: Manifest, jobs: int, *, quick: bool) -> BuildReport:
    """What a build would change."""
    from hetesynth.cli.building import watching_build
    from hetesynth.deploy.build import check

    with watching_build(quiet=False) as watcher:
        return check(manifest, jobs, watcher, quick=quick)
