"""``hetesynth atlas``: a folder with one schedule for each range of sizes, or for each single loss."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click

from hetesynth import api
from hetesynth.cli.options import (
    TOPOLOGY,
    NewPath,
    explain_option,
    json_option,
    runtime_costs_option,
    schedule_only_option,
    search_options,
    single_root_option,
    size_option,
    sized_problem_options,
    sizes_option,
    targets_option,
    topology_losses,
)
from hetesynth.cli.progress import watching
from hetesynth.cli.synth_report import atlas_explanation, decision_lines
from hetesynth.cli.terminal import show
from hetesynth.model.words import clock_line, counted, microseconds, size_text

_KINDS = ("gpu", "nic", "link", "server")


@click.command(name="atlas")
@click.argument("topology", type=TOPOLOGY)
@topology_losses
@sized_problem_options
@sizes_option("--sizes", "Where schedules are compared", 2)
@click.option("--strategy", default="auto", show_default=True, help="Restrict what is tried to one strategy.")
@runtime_costs_option
@search_options("For the search:", "bytes")
@targets_option("Runtime to write for [default: portable]", "target")
@single_root_option
@schedule_only_option
@click.option(
    "--n-minus-1",
    "single",
    is_flag=True,
    help="Instead for the whole cluster and for every single loss, each for one --size.",
)
@click.option(
    "--losses",
    "kinds",
    type=click.Choice(_KINDS),
    multiple=True,
    default=_KINDS,
    show_default=True,
    help="With --n-minus-1: what is lost, repeatable.",
)
@size_option
@click.option(
    "-o",
    "--output",
    type=NewPath(path_type=Path),
    required=True,
    metavar="DIRECTORY",
    help="A new or empty folder, or an atlas of the same cluster, which gets this collective too.",
)
@click.option("--replace", is_flag=True, help="An older atlas in DIRECTORY is replaced, whatever it is of.")
@explain_option
@json_option
def command(
    topology: os.PathLike[str],
    name: Any,
    output: Path,
    replace: bool,
    single: bool,
    explain: bool,
    as_json: bool,
    kinds: Any,
    sizes: str,
    **options: Any,
) -> None:
    """Write the right schedule for every size on the cluster in TOPOLOGY.

    Makes DIRECTORY with programs (a folder for each target), schedules, index.json and a plot. Each range has
    the programs that are near the best there; where a library is quicker there is none. The first and the
    last range go on past the sizes asked for, where nothing is compared. minBytes and maxBytes in the files
    let a runtime pick. Time is simulated. The folder appears whole or not at all. --explain prints how the
    schedules were chosen, with --json under "decisions".

    In a DIRECTORY with an atlas of other collectives on the same cluster, for the same targets, this one is added;
    an older one of the same collective is replaced. A folder of `hetesynth build` is added to as well.

    With --n-minus-1 the folder has what synth writes, and the same for every GPU, NIC, link between two GPUs and
    server lost, repaired from it. Losses that leave the same cluster but for names share one: index.json says
    which rank is which there.
    """
    context = click.get_current_context()

    def stated(name: str) -> bool:
        return context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT

    if single and stated("sizes"):
        raise click.UsageError("--n-minus-1 makes schedules for one --size, not for --sizes")
    if single and explain:
        raise click.UsageError("--explain tells of ranges of sizes, and --n-minus-1 has none")
    if not single and (stated("size") or stated("kinds")):
        raise click.UsageError("--size and --losses go with --n-minus-1; ranges are made for --sizes")
    place = api.destination(output, topology, name, replace=replace, losses=single, **options)
    with watching(quiet=as_json) as progress:
        if single:
            losses = api.single_losses(topology, name, losses=kinds, progress=progress, **options)
            contents, document, lines = place.write(losses.files), losses.index, losses_lines(losses.index)
        else:
            atlas = api.atlas(topology, name, sizes=sizes, progress=progress, **options)
            contents, document, lines = place.write(atlas.files, atlas), atlas.index, atlas_lines(atlas.index)
    lines.append(
        f"  wrote        {len(contents)} files into {place.folder}{f'; {place.words}' if place.words else ''}"
    )
    document = {**document, **place.told(contents)}
    if not single:
        for warned in document["warnings"]:
            lines += [f"  WARNING      {warned['message']}", f"               {warned['help']}"]
        if explain:
            decisions = atlas.compilation.decisions.entries
            chosen = atlas_explanation(document, decisions)
            document |= {"explanation": chosen, "decisions": [decision.plain() for decision in decisions]}
            lines += [chosen, *decision_lines(decisions)]
        if document["runtime_advice"] is not None:
            lines.append(f"  next         {document['runtime_advice']}")
    show(json.dumps(document, indent=2) if as_json else "\n".join(lines))


def atlas_lines(index: dict[str, Any]) -> list[str]:
    """The verdict, then the ranges, a line each."""
    lines = [
        index["verdict"],
        f"{index['cluster']}: {index['collective']}, {index['ranks']} ranks, simulated, runtime costs "
        f"{'counted' if index['runtime_costs'] else 'left out'}",
    ]
    for entry in index["ranges"]:
        end = "any size" if entry["high"] is None else size_text(entry["high"])
        lines.append(f"  {size_text(entry['low']):>9} to {end}: {entry['candidate']}, {entry['steps']} steps")
        limit, last = entry["mscclpp_max_bytes"], entry is index["ranges"][-1]
        if "mscclpp" not in index["targets"] or (limit == entry["max_bytes"] and not last):
            continue
        if limit is None:
            lines.append("               without plans for MSCCL++, whose offsets have 32 bits")
        else:  # where they end before their range does, or before all sizes are covered
            blocks = " a rank" if index["collective"] in ("gather", "scatter") else ""
            reach = f"{size_text(limit)}{blocks}, as far as its 32-bit offsets reach"
            lines.append(f"               plans for MSCCL++ end at {reach}")
    if index["left_to_library"]:
        sizes = ", ".join(map(size_text, index["left_to_library"]))
        lines.append(f"  no program   the library is quicker, which calls are left to: {sizes}")
    lines += [f"  fits no file {row['candidate']}: {row['reason']}" for row in index["unfit"]]
    if index["cut_short"]:
        lines.append("  cut short    more time may find quicker ones")
    if index["decided_by_clock"]:
        lines.append(f"  clock        {clock_line(index['decided_by_clock'])}")
    return lines


def losses_lines(index: dict[str, Any]) -> list[str]:
    """How many losses share a schedule, the worst of them beside the whole cluster, and those without one."""
    losses = index["losses"]
    repaired = [entry for entry in losses if "steps" in entry]
    lines = [
        f"{index['cluster']}: {index['collective']}, each of {counted(len(losses), 'part')} lost",
        f"  whole        {_figures(index['whole'])}",
        f"  repaired     {len(repaired)}; {sum('like' in e for e in losses)} more are like these but for names",
    ]
    if repaired:
        worst = max(repaired, key=lambda entry: (entry["program_predicted_us"] or 0.0, entry["steps"]))
        lines.append(f"  worst        without {worst['without']}: {_figures(worst)}")
    return lines + [f"  none         without {e['without']}: {e['refusal']}" for e in losses if "refusal" in e]


def _figures(entry: dict[str, Any]) -> str:
    program = entry["program_predicted_us"]
    steps = f"{counted(entry['steps'], 'step')}, lower bound {entry['lower_bound']}"
    return steps if program is None else f"program {microseconds(program / 1e6)}, {steps}"
