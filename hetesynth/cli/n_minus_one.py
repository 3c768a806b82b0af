"""``hetesynth n-minus-one``: a folder with one schedule for every single loss."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from hetesynth.cli.losses import topology_losses
from hetesynth.cli.options import (
    TOPOLOGY,
    NewPath,
    json_option,
    problem_options,
    request,
    runtime_costs_option,
    schedule_only_option,
    search_options,
    single_root_option,
    targets_option,
)
from hetesynth.cli.progress import watching
from hetesynth.cli.terminal import show

if TYPE_CHECKING:
    from hetesynth.commands.n_minus_one import Kind

_KINDS = ("gpu", "nic", "link", "server")


@click.command(name="n-minus-one", short_help="Write one schedule for every single GPU, NIC, link or server lost.")
@click.argument("topology", type=TOPOLOGY)
@topology_losses
@problem_options
@click.option(
    "--losses", "kinds", type=click.Choice(_KINDS), multiple=True, default=_KINDS, show_default=True,
    help="What is lost, repeatable.",
)  # fmt: skip
@runtime_costs_option
@search_options("For each search:", "bytes")
@targets_option("Runtime to write for [default: portable]")
@single_root_option
@schedule_only_option
@click.option(
    "-o", "--output", type=NewPath(path_type=Path), required=True, metavar="DIRECTORY",
    help="A new or empty folder, or an older one of this kind, which is replaced.",
)  # fmt: skip
@json_option
def command(
    topology: os.PathLike[str], kinds: tuple[str, ...], output: Path, as_json: bool, **options: Any
) -> None:  # fmt: skip
    """Write a schedule for the cluster in TOPOLOGY and one for every single loss.

    Each is repaired from that of the whole cluster and judged like it. Losses that leave the same cluster but for
    names share one: index.json says which rank is which there. The folder appears whole or not at all.
    """
    from hetesynth.commands.n_minus_one import MARK, files, index, n_minus_one
    from hetesynth.files.folders import check_replaceable, write_folder

    check_replaceable(output, MARK)
    stated = request(topology, **options)
    with watching(quiet=as_json) as progress:
        result = n_minus_one(stated, cast("tuple[Kind, ...]", kinds), progress)
    contents = files(result)
    write_folder(output, contents, MARK)
    summary = index(result)
    if as_json:
        show(json.dumps({**summary, "directory": str(output)}, indent=2))
        return
    repaired = sum(loss.repaired is not None for loss in result.losses)
    refused = [loss for loss in result.losses if loss.refusal]
    show(f"{summary['cluster']}: {summary['collective']}, {len(result.losses)} single losses")
    alike = len(result.losses) - repaired - len(refused)
    show(f"  repaired     {repaired}; {alike} more are like these but for names")
    for loss in refused:
        show(f"  none         without {loss.name}: {loss.refusal}")
    show(f"  wrote        {output}, {len(contents)} files")
