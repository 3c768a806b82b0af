"""``hetesynth synth``: topology in, verified schedule and programs out."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import click

from hetesynth.cli.options import TOPOLOGY, json_option, problem_options, request
from hetesynth.cli.progress import watching
from hetesynth.errors import HetesynthError


@click.command(name="synth", short_help="Synthesize a schedule and write the program.")
@click.argument("topology", type=TOPOLOGY)
@problem_options
@click.option("--strategy", default="auto", show_default=True, help="auto, greedy, direct, cegis or whole.")
@click.option(
    "--time-budget", type=click.FloatRange(0, min_open=True), default=60.0, show_default=True, metavar="SECONDS",
    help="After it, the best verified schedule so far is written with its gap.",
)  # fmt: skip
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Same seed, same bytes.")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), metavar="FILE.xml|DIRECTORY",
    help="Where to write [default: CLUSTER-COLLECTIVE.xml here].",
)  # fmt: skip
@click.option("--schedule-only", is_flag=True, help="Write the schedule as JSON and no programs.")
@click.option(
    "--max-peers", type=click.IntRange(1), metavar="N",
    help="Ranks that a rank may send to, and receive from [default: none up to 64 ranks, then 48].",
)  # fmt: skip
@json_option
def command(
    topology: Path,
    strategy: str,
    time_budget: float,
    seed: int,
    output: Path | None,
    schedule_only: bool,
    max_peers: int | None,
    as_json: bool,
    **problem: Any,
) -> None:
    """Synthesize a schedule for the cluster in TOPOLOGY.

    Writes the MSCCL XML (out of place and, where the collective has it, in place) and the schedule as JSON next
    to it, after both judges have passed them. Ctrl-C and the time budget keep the best verified schedule so far.
    """
    if math.isnan(time_budget):
        raise click.BadParameter("must be a number of seconds", param_hint="--time-budget")
    from hetesynth.pipeline import synthesis as pipeline
    from hetesynth.report.text import synthesis_report, synthesis_summary

    wanted = request(
        topology,
        strategy=strategy,
        time_budget=time_budget,
        seed=seed,
        schedule_only=schedule_only,
        max_peers=max_peers,
        **problem,
    )
    _check_writable(output)
    with watching(quiet=as_json) as progress:
        made = pipeline.synthesize(wanted, progress)
    stem = _stem(output, made.topology.name, wanted.collective, wanted.chunks)
    paths = pipeline.write(made, stem)
    if as_json:
        click.echo(json.dumps(synthesis_summary(made, paths), indent=2))
    else:
        click.echo(synthesis_report(made, paths))


def _check_writable(output: Path | None) -> None:
    """Fail before the search, not after it."""
    directory = Path() if output is None else output if output.is_dir() else output.parent
    if not directory.is_dir():
        raise HetesynthError(
            f"{directory} is not a directory", code="HS501", help="create it first, or choose another -o"
        )
    from hetesynth.emitter.outputs import check_writable

    check_writable(directory)


def _stem(output: Path | None, cluster: str, collective: str, chunks: int) -> Path:
    """The common part of all output paths."""
    name = f"{cluster}-{collective}" + (f"-c{chunks}" if chunks > 1 else "")
    if output is None:
        return Path(name)
    if output.is_dir():
        return output / name
    return output.with_suffix("") if output.suffix == ".xml" else output
