"""``hetesynth build``: the schedules of a manifest, made where they are stale."""

from __future__ import annotations

from pathlib import Path

import click

from hetesynth.cli.terminal import show


@click.command(name="build", short_help="Make the schedules of a manifest, where they are stale.")
@click.argument("manifest", type=click.Path(path_type=Path), default="hetesynth.toml")
@click.option("--jobs", type=click.IntRange(1, 256), help="Processes [default: as many as there are cores].")
@click.option(
    "--cache", type=click.Path(path_type=Path), metavar="FOLDER", envvar="HETESYNTH_CACHE",
    help="Where results are kept, for builds on any machine [default: the manifest's, else ~/.cache/hetesynth].",
)  # fmt: skip
def command(manifest: Path, jobs: int | None, cache: Path | None) -> int:
    """Make every schedule of MANIFEST that is stale, and nothing else.

    A schedule is stale where its cluster, its options, hetesynth or a solver changed: a comment in a topology
    file changes nothing. What was made once for the same content is taken from the cache, byte for byte. The
    folder of a cluster and a target appears whole; a build that was killed goes on where it was.
    """
    from hetesynth.building.build import build
    from hetesynth.building.cache import Cache, default_cache
    from hetesynth.building.workers import LocalProcesses, processors
    from hetesynth.cli.building import watching_build
    from hetesynth.cli.render.build import build_text
    from hetesynth.manifest.reader import read_manifest

    stated = read_manifest(manifest)
    store = Cache(cache or stated.cache or default_cache())
    with watching_build(quiet=False) as watcher:
        report = build(stated, LocalProcesses(jobs or processors(), store.folder), store, watcher)
    show(build_text(report))
    if report.interrupted:
        return 3
    return 0 if report.ok else 1
