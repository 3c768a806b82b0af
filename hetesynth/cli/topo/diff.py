"""``hetesynth topo diff``: what changed between two topology files, and which schedules that concerns."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from hetesynth.cli.losses import topology_losses_of
from hetesynth.cli.options import TOPOLOGY, json_option
from hetesynth.cli.terminal import show, show_lines


@click.command(name="diff", short_help="Say what changed, and which schedules it concerns.")
@click.argument("before", type=TOPOLOGY)
@click.argument("after", type=TOPOLOGY)
@click.option(
    "--schedules", type=click.Path(path_type=Path), multiple=True, metavar="FOLDER|FILE",
    help="Schedules (.schedule.json), MSCCL XML and MSCCL++ plans made for BEFORE, judged on AFTER; repeatable.",
)  # fmt: skip
@json_option
@topology_losses_of("after")
def command(before: Path, after: os.PathLike[str], schedules: tuple[Path, ...], as_json: bool) -> int:
    """Say what changed from topology BEFORE to AFTER: servers, GPUs, NICs, rates, latencies, links, ranks.

    --without and --degrade say what AFTER has lost; BEFORE and AFTER may be the same file then.

    Exits 0 where nothing did, 1 where something did. The parts of both files are the same where their names are.
    """
    from hetesynth.cli.render.topo_diff import difference_document, difference_report
    from hetesynth.deploy.topo_diff import topology_difference

    difference = topology_difference(before, after, schedules)
    if as_json:
        show(json.dumps(difference_document(difference), indent=2))
    else:
        show_lines(difference_report(difference))
    return int(bool(difference.changes))
