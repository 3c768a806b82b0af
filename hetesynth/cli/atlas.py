"""``hetesynth atlas``: a folder with one schedule for each range of sizes, or for each single loss."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import click

from hetesynth.cli.options import (
    TOPOLOGY,
    NewPath,
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
    topology_losses,
)
from hetesynth.cli.progress import watching
from hetesynth.cli.terminal import show
from hetesynth.deploy.folder_index import ATLAS, LOSSES
from hetesynth.model.words import clock_line, counted, microseconds, size_text

if TYPE_CHECKING:
    from hetesynth.engine.n_minus_one import Kind


_KINDS = ("gpu", "nic", "link", "server")


@click.command(name="atlas")
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
    kinds, sizes = cast("tuple[Kind, ...]", options.pop("kinds")), options.pop("sizes")
    if single:
        _single_losses(topology, kinds, (output, replace), as_json, options)
    else:
        _ranges(topology, sizes, (output, replace), explain, as_json, options)


def _ranges(
    topology: os.PathLike[str], sizes: str, place: tuple[Path, bool], explain: bool, as_json: bool,
    options: dict[str, Any],
) -> None:  # fmt: skip
    from hetesynth.engine.predictors import buffer_sizes

    buffers = buffer_sizes(sizes, "--sizes", factor=2)
    from hetesynth.cli.synth_report import atlas_explanation, decision_lines
    from hetesynth.deploy.atlas_destination import destination_of
    from hetesynth.engine.atlas import atlas, files, index

    stated = request(topology, **options)
    destination = destination_of(*place, stated, ATLAS)
    with watching(quiet=as_json) as progress:
        result = atlas(stated, buffers, progress)
    contents = destination.write(files(result), result)
    summary = index(result)
    decisions = result.compilation.decisions.entries
    explanation = atlas_explanation(summary, decisions)
    if as_json:
        document = {**summary, **destination.told(contents)}
        if explain:
            document |= {"explanation": explanation, "decisions": [decision.plain() for decision in decisions]}
        show(json.dumps(document, indent=2))
    else:
        lines = [explanation, *decision_lines(decisions)] if explain else []
        show(atlas_report(summary, str(destination.folder), len(contents), destination.words, lines))


def _single_losses(
    topology: os.PathLike[str], kinds: tuple[Kind, ...], place: tuple[Path, bool], as_json: bool,
    options: dict[str, Any],
) -> None:  # fmt: skip
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


def atlas_report(
    index: dict[str, Any], folder: str, files: int, place: str = "", decisions: Iterable[str] = ()
) -> str:
    """The verdict, then features, ranges and the frontier, a line each. ``place``: what else is in the folder;
    ``decisions``: how they were made."""
    features = index["topology"]
    bisection = features["inverse_bisection_us_per_MB"]
    lines = [
        index["verdict"],
        f"{index['cluster']}: {index['collective']}, {index['ranks']} ranks, simulated, runtime costs "
        f"{'counted' if index['runtime_costs'] else 'left out'}",
        f"  topology     diameter {counted(features['diameter_hops'], 'hop')} ({features['diameter_us']:.4g} us), "
        f"inverse bisection bandwidth {'-' if bisection is None else f'{bisection:.4g}'} us/MB",
    ]
    for entry in index["ranges"]:
        end = "any size" if entry["high"] is None else size_text(entry["high"])
        lines.append(f"  {size_text(entry['low']):>9} to {end}: {entry['candidate']}, {entry['steps']} steps")
        lines += _plans_end(index, entry)
    if index["left_to_library"]:
        sizes = ", ".join(map(size_text, index["left_to_library"]))
        lines.append(f"  no program   the library is quicker, which calls are left to: {sizes}")
    lines += [
        f"  frontier     {row['latency_us']:.4g} us + {row['us_per_MB']:.4g} us/MB: {row['candidate']}"
        f"{'' if row['in_atlas'] else ' (not needed)'}"
        for row in index["frontier"]
    ]
    lines += [f"  fits no file {row['candidate']}: {row['reason']}" for row in index["unfit"]]
    if index["cut_short"]:
        lines.append("  cut short    more time may find quicker ones")
    if index["decided_by_clock"]:
        lines.append(f"  clock        {clock_line(index['decided_by_clock'])}")
    lines.append(f"  wrote        {files} files into {folder}{f'; {place}' if place else ''}")
    for warned in index["warnings"]:
        lines += [f"  WARNING      {warned['message']}", f"               {warned['help']}"]
    lines += decisions
    if index["runtime_advice"] is not None:
        lines.append(f"  next         {index['runtime_advice']['message']}")
    return "\n".join(lines)


def _plans_end(index: dict[str, Any], entry: dict[str, Any]) -> list[str]:
    """Where plans for MSCCL++ end before their range does, or before all sizes are covered."""
    limit, most = entry["mscclpp_max_bytes"], entry["max_bytes"]
    last = entry is index["ranges"][-1]
    if "mscclpp" not in index["targets"] or (limit == most and not last):
        return []
    if limit is None:
        return ["               without plans for MSCCL++, whose offsets have 32 bits"]
    blocks = " a rank" if index["collective"] in ("gather", "scatter") else ""
    text = f"plans for MSCCL++ end at {size_text(limit)}{blocks}, as far as its 32-bit offsets reach"
    return [f"               {text}"]


def losses_report(index: dict[str, Any], folder: str, files: int, place: str = "") -> str:
    """How many losses share a schedule, the worst of them beside the whole cluster, and those without one."""
    losses, whole = index["losses"], index["whole"]
    repaired = [entry for entry in losses if "steps" in entry]
    alike = sum("like" in entry for entry in losses)
    lines = [
        f"{index['cluster']}: {index['collective']}, each of {counted(len(losses), 'part')} lost",
        f"  whole        {_figures(whole)}",
        f"  repaired     {len(repaired)}; {alike} more are like these but for names",
    ]
    if repaired:
        worst = max(repaired, key=lambda entry: (entry["program_predicted_us"] or 0.0, entry["steps"]))
        lines.append(f"  worst        without {worst['without']}: {_figures(worst)}")
    lines += [f"  none         without {e['without']}: {e['refusal']}" for e in losses if "refusal" in e]
    lines.append(f"  wrote        {files} files into {folder}{f'; {place}' if place else ''}")
    return "\n".join(lines)


def _figures(entry: dict[str, Any]) -> str:
    program = entry["program_predicted_us"]
    steps = f"{counted(entry['steps'], 'step')}, lower bound {entry['lower_bound']}"
    return steps if program is None else f"program {microseconds(program / 1e6)}, {steps}"
