"""``hetesynth build``: the schedules of a manifest, made where they are stale."""

from __future__ import annotations

from pathlib import Path

import click

from hetesynth.cli.terminal import show


@click.command(name="build", short_help="Make the schedules of a manifest, where they are stale.")
@click.argument("manifest", type=click.Path(path_type=Path), default="hetesynth.toml")
@click.option("--jobs", type=click.IntRange(1), help="Processes [default: as many as there are cores].")
@click.option("--cache", type=click.Path(path_type=Path), help="Where results are kept.")
def command(manifest: Path, jobs: int | None, cache: Path | None) -> int:
    """Make every schedule of MANIFEST that is stale, and nothing else."""
    from hetesynth.building.build import build
    from hetesynth.building.cache import Cache, default_cache
    from hetesynth.building.outcome import CellReport
    from hetesynth.building.workers import LocalProcesses, processors
    from hetesynth.manifest.reader import read_manifest

    stated = read_manifest(manifest)
    store = cache or stated.cache or default_cache()

    def told(report: CellReport, done: int, all_: int) -> None:
        show(f"{done}/{all_} {report.cell.name}: {report.status} {' '.join(report.messages)}", err=True)

    report = build(stated, LocalProcesses(jobs or processors(), store), Cache(store), told)
    for note in report.notes:
        show(f"note: {note}", err=True)
    show(f"{len(report.cells)} cells, {len(report.written)} folders written")
    return 0 if report.ok else 1
