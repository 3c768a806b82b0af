"""``hetesynth pareto``: the frontier of steps and rounds, as SCCL has it."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from hetesynth import api
from hetesynth.cli import options as shared
from hetesynth.cli.progress import watching
from hetesynth.cli.terminal import answer


@click.command(name="pareto")
@click.argument("topology", type=shared.FILE)
@shared.topology_losses
@shared.problem_options
@click.option("--up-to", "most", type=click.IntRange(1, 256), default=6, help="The most chunks per rank.")
@click.option("--extra", type=click.IntRange(0, 64), default=4, help="How many more rounds than steps (k).")
@shared.sizes_option("--sizes", "Where points are compared", 4)
@shared.search_options("For the search:", "bytes")
@shared.targets_option("Runtime to write for [default: portable]")
@shared.schedule_only_option
@click.option("-o", "--output", type=shared.NewPath(), metavar="DIRECTORY", help="A folder for the files.")
@shared.json_option
def command(
    topology: os.PathLike[str], name: Any, output: Path | None, as_json: bool, sizes: str, **options: Any
) -> None:
    """Find the frontier of steps and rounds of a collective on the cluster in TOPOLOGY.

    A step of r rounds carries r times as many chunks: few steps are quick for small buffers, few rounds a chunk
    for large ones. From the diameter up, each number of steps with the fewest rounds a chunk (SCCL, algorithm 1).
    C counts as in the paper: of an allreduce or alltoall the chunks of all blocks of a rank. --chunks is not used.
    """
    options.pop("chunks", None)
    if output is not None and output.exists() and not output.is_dir():
        raise click.UsageError(f"{output} is a file: -o takes a folder")
    with watching(quiet=as_json) as progress:
        points, files = api.pareto(topology, name, sizes=sizes, progress=progress, **options)
    if output is not None:
        from hetesynth.files.atomic import write_all

        output.mkdir(parents=True, exist_ok=True)
        write_all({output / file: data for file, data in files.items()})
    document = {"collective": name, "points": [point.plain() for point in points]}
    answer(document, _lines(points, output, len(files)), as_json=as_json)


def _lines(points: Any, output: Path | None, number: int) -> Iterator[str]:
    from hetesynth.engine.pareto import quickest

    yield "      C    S    R  rounds a chunk  rounds of the steps   found in"
    for entry in points:
        point, ways = entry.point, ",".join(map(str, entry.point.schedule.rounds))
        ratio = point.rounds / entry.counted_chunks
        unknown = f"; of {point.open} before it nothing is known" if point.open else ""
        yield (
            f"  {entry.counted_chunks:>5}{point.steps:>5}{point.rounds:>5}  {ratio:>14.3f}  {ways:<19}"
            f"  {entry.found:.1f} s{unknown}"
        )
    for size, best in quickest(points):
        yield f"  from {size:>7}  {best} is the quickest (simulated)"
    if output is not None:
        yield f"  wrote        {number} files into {output}"
