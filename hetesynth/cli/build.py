"""``hetesynth build``: the schedules of a manifest, made where they are stale."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hetesynth.cli.terminal import show
from hetesynth.errors import HetesynthError

if TYPE_CHECKING:
    from hetesynth.manifest.values import Manifest


@click.command(name="build", short_help="Make the schedules of a manifest, where they are stale.")
@click.argument("manifest", type=click.Path(path_type=Path), default="hetesynth.toml")
@click.option("--jobs", type=click.IntRange(1, 256), help="Processes [default: as many as there are cores].")
@click.option(
    "--cache", type=click.Path(path_type=Path), metavar="FOLDER", envvar="HETESYNTH_CACHE",
    help="Where results are kept, for builds on any machine [default: the manifest's, else ~/.cache/hetesynth].",
)  # fmt: skip
@click.option("--accept-worse", is_flag=True, help="Deploy what is made, though what is there is better.")
@click.option("--check", is_flag=True, help="Write nothing; end with 1 where a build would change anything.")
@click.option("--quick", is_flag=True, help="With --check: compare keys and digests, run no judge.")
def command(
    manifest: Path, jobs: int | None, cache: Path | None, accept_worse: bool, check: bool, quick: bool
) -> int:
    """Make every schedule of MANIFEST that is stale, and nothing else.

    A schedule is stale where its cluster, its options, hetesynth or a solver changed: a comment in a topology
    file changes nothing. What was made once for the same content is taken from the cache, byte for byte. The
    folder of a cluster and a target appears whole; a build that was killed goes on where it was. What is made and
    worse than what is there is kept aside.
    """
    from hetesynth.building.build import build
    from hetesynth.building.cache import Cache, default_cache
    from hetesynth.building.keeping import Rules
    from hetesynth.building.workers import LocalProcesses, processors
    from hetesynth.cli.building import watching_build
    from hetesynth.cli.render.build import build_text
    from hetesynth.manifest.reader import read_manifest
    from hetesynth.policy import DEFAULT

    _demand_one_use(accept_worse=accept_worse, check=check, quick=quick)
    stated = read_manifest(manifest)
    if check:
        return _check(stated, jobs or processors(), quick=quick)
    store = Cache(cache or stated.cache or default_cache())
    rules = Rules(DEFAULT, accept_worse)
    with watching_build(quiet=False) as watcher:
        report = build(stated, LocalProcesses(jobs or processors(), store.folder), store, watcher, rules)
    show(build_text(report))
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


def _check(manifest: Manifest, jobs: int, *, quick: bool) -> int:
    """What a build would change, printed; 1 where there is anything."""
    from hetesynth.building.checking import check
    from hetesynth.cli.building import watching_build
    from hetesynth.cli.render.build import check_text

    with watching_build(quiet=False) as watcher:
        report = check(manifest, jobs, watcher, quick=quick)
    show(check_text(report, quick=quick))
    return 0 if report.ok else 1
