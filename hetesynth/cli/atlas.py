"""``hetesynth atlas``: a folder with one schedule for each range of sizes, or for each single loss."""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

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
    size_option,
    sized_problem_options,
    sizes_option,
    targets_option,
)
from hetesynth.cli.progress import watching
from hetesynth.cli.terminal import show
from hetesynth.deploy.folder_index import ATLAS, LOSSES

if TYPE_CHECKING:
    from hetesynth.engine.n_minus_one import Kind

_KINDS = ("gpu", "nic", "link", "server")


@click.command(name="atlas", short_help="Write one schedule for each range of sizes, or each single loss.")
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
    "--n-minus-1", "single", is_flag=True,
    help="Instead for the whole cluster and for every single loss, each for one --size.",
)  # fmt: skip
@click.option(
    "--losses", "kinds", type=click.Choice(_KINDS), multiple=True, default=_KINDS, show_default=True,
    help="With --n-minus-1: what is lost, repeatable.",
)  # fmt: skip
@size_option
@click.option(
    "-o", "--output", type=NewPath(path_type=Path), required=True, metavar="DIRECTORY",
    help="A new or empty folder, or an atlas of the same cluster, which gets this collective too.",
)  # fmt: skip
@click.option("--replace", is_flag=True, help="An older atlas in DIRECTORY is replaced, whatever it is of.")
@explain_option
@json_option
def command(
    topology: os.PathLike[str], output: Path, replace: bool, single: bool, explain: bool, as_json: bool,
    **options: Any,
) -> None:  # fmt: skip
    """Write the right schedule for every size on the cluster in TOPOLOGY.

    Makes DIRECTORY with programs (a folder for each target), schedules, index.json and a plot. Each range
    has the programs that are near the best there; where a library is quicker there is none. minBytes and maxBytes
    in the files let a runtime pick. Time is simulated. The folder appears whole or
    not at all. --explain prints how the schedules were chosen, with --json under "decisions".

    In a DIRECTORY with an atlas of other collectives on the same cluster, for the same targets, this one is added;
    an older one of the same collective is replaced. A folder of `hetesynth build` is added to as well.

    With --n-minus-1 the folder has what synth writes, and the same for every GPU, NIC, link between two GPUs and
    server lost, repaired from it. Losses that leave the same cluster but for names share one: index.json says
    which rank is which there.
    """
    _demand_options_of_one_kind(single=single, explain=explain)
    kinds, sizes = cast("tuple[Kind, ...]", options.pop("kinds")), options.pop("sizes")
    if single:
        return _single_losses(topology, kinds, (output, replace), as_json, options)
    return _ranges(topology, sizes, (output, replace), explain, as_json, options)


def _demand_options_of_one_kind(*, single: bool, explain: bool) -> None:
    """click.UsageError where an option says nothing here."""
    context = click.get_current_context()

    def stated(name: str) -> bool:
        return context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT

    if single and stated("sizes"):
        raise click.UsageError("--n-minus-1 makes schedules for one --size, not for --sizes")
    if single and explain:
        raise click.UsageError("--explain tells of ranges of sizes, and --n-minus-1 has none")
    if not single and (stated("size") or stated("kinds")):
        raise click.UsageError("--size and --losses go with --n-minus-1; ranges are made for --sizes")


def _ranges(
    topology: os.PathLike[str], sizes: str, place: tuple[Path, bool], explain: bool, as_json: bool,
    options: dict[str, Any],
) -> None:  # fmt: skip
    buffers = buffer_sizes(sizes, "--sizes", factor=2)
    from hetesynth.cli.render.atlas import atlas_report
    from hetesynth.cli.render.decisions import atlas_explanation, decision_lines, decision_values
    from hetesynth.deploy.atlas_destination import destination_of
    from hetesynth.engine.atlas import atlas, files, index

    stated = request(topology, **options)
    destination = destination_of(*place, stated, ATLAS)
    with watching(quiet=as_json) as progress:
        result = atlas(stated, buffers, progress)
    contents = destination.write(files(result), result)
    summary = index(result)
    decisions = result.compilation.decisions.entries if explain else None
    if as_json:
        explained: dict[str, Any] = {}
        if decisions is not None:
            explained = {
                "explanation": atlas_explanation(summary, decisions),
                "decisions": decision_values(decisions),
            }
        show(json.dumps({**summary, **destination.told(contents), **explained}, indent=2))
    else:
        explained_lines = (
            () if decisions is None else (atlas_explanation(summary, decisions), *decision_lines(decisions))
        )
        show(atlas_report(summary, str(destination.folder), len(contents), destination.words, explained_lines))


def _single_losses(
    topology: os.PathLike[str], kinds: tuple[Kind, ...], place: tuple[Path, bool], as_json: bool,
    options: dict[str, Any],
) -> None:  # fmt: skip
    from hetesynth.cli.render.atlas import losses_report
    from hetesynth.deploy.atlas_destination import destination_of
    from hetesynth.engine.n_minus_one import files, index, n_minus_one

    stated = dataclasses.replace(request(topology, **options), objective="time")
    destination = destination_of(*place, stated, LOSSES)
    with watching(quiet=as_json) as progress:
        result = n_minus_one(stated, kinds, progress)
    contents = destination.write(files(result))
    summary = index(result)
    if as_json:
        show(json.dumps({**summary, **destination.told(contents)}, indent=2))
    else:
        show(losses_report(summary, str(destination.folder), len(contents), destination.words))
