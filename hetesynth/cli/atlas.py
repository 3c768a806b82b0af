"""``hetesynth atlas``: a folder with one schedule for each range of sizes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click

from hetesynth.cli.losses import topology_losses
from hetesynth.cli.options import (
    TOPOLOGY,
    NewPath,
    buffer_sizes,
    explain_option,
    json_option,
    request,
    runtime_costs_option,
    schedule_only_option,
    search_options,
    single_root_option,
    sized_problem_options,
    sizes_option,
    targets_option,
)
from hetesynth.cli.progress import watching
from hetesynth.cli.terminal import show


@click.command(name="atlas", short_help="Write one schedule for each range of sizes.")
@click.argument("topology", type=TOPOLOGY)
@topology_losses
@sized_problem_options
@sizes_option("--sizes", "Where schedules are compared", 2)
@click.option("--strategy", default="auto", show_default=True, help="Restrict what is tried to one strategy.")
@runtime_costs_option
@search_options("For the search:", "bytes")
@targets_option("Runtime to write for [default: portable]")
@single_root_option
@schedule_only_option
@click.option(
    "-o", "--output", type=NewPath(path_type=Path), required=True, metavar="DIRECTORY",
    help="A new or empty folder, or an older atlas, which is replaced.",
)  # fmt: skip
@explain_option
@json_option
def command(
    topology: os.PathLike[str], sizes: str, output: Path, explain: bool, as_json: bool, **options: Any
) -> None:  # fmt: skip
    """Write the right schedule for every size on the cluster in TOPOLOGY.

    Makes DIRECTORY with programs (a folder for each target), schedules, index.json and a plot. The ranges tile all
    sizes: minBytes and maxBytes in the files let a runtime pick. Time is simulated. The folder appears whole or
    not at all. --explain prints how the schedules were chosen, with --json under "decisions".
    """
    buffers = buffer_sizes(sizes, "--sizes", factor=2)
    from hetesynth.cli.render.atlas import atlas_report
    from hetesynth.cli.render.decisions import decision_lines, decision_values
    from hetesynth.commands.atlas import MARK, atlas, files, index
    from hetesynth.files.folders import check_replaceable, write_folder

    check_replaceable(output, MARK)
    stated = request(topology, **options)
    with watching(quiet=as_json) as progress:
        result = atlas(stated, buffers, progress)
    contents = files(result)
    write_folder(output, contents, MARK)
    summary = index(result)
    decisions = result.compilation.decisions.entries if explain else None
    if as_json:
        printed = {**summary, "directory": str(output), "files": sorted(contents)}
        explained = {} if decisions is None else {"decisions": decision_values(decisions)}
        show(json.dumps({**printed, **explained}, indent=2))
    else:
        show(atlas_report(summary, str(output), len(contents)))
        if decisions is not None:
            show("\n".join(decision_lines(decisions)))
