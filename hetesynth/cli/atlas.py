"""``hetesynth atlas``: a folder with one schedule for each range of sizes, or for each single loss."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from hetesynth import api
from hetesynth.cli import options as shared
from hetesynth.cli.progress import watching
from hetesynth.cli.synth_report import atlas_explanation, decision_lines, warning_lines
from hetesynth.cli.terminal import answer
from hetesynth.engine.request import LOSS_KINDS
from hetesynth.model.words import clock_line, counted, microseconds, size_text

_SINGLE = "Instead for the whole cluster and for every single loss, each for one --size."
_OUTPUT = "A new or empty folder, or an atlas of the same cluster, which gets this collective too."
_LOST = "With --n-minus-1: what is lost, repeatable."


@click.command(name="atlas")
@click.argument("topology", type=shared.FILE)
@shared.topology_losses
@shared.sized_problem_options
@shared.sizes_option("--sizes", "Where schedules are compared", 2)
@click.option("--strategy", default="auto", help="Restrict what is tried to one strategy.")
@shared.runtime_costs_option
@shared.search_options("For the search:", "bytes")
@shared.targets_option("Runtime to write for [default: portable]")
@shared.single_root_option
@shared.always_option
@shared.schedule_only_option
@click.option("--n-minus-1", "single", is_flag=True, help=_SINGLE)
@click.option("--losses", "kinds", type=click.Choice(LOSS_KINDS), multiple=True, default=LOSS_KINDS, help=_LOST)
@shared.size_option
@click.option("-o", "--output", type=shared.NewPath(), required=True, metavar="DIRECTORY", help=_OUTPUT)
@click.option("--replace", is_flag=True, help="An older atlas in DIRECTORY is replaced, whatever it is of.")
@shared.explain_option
@shared.json_option
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
    an older one of the same collective is replaced.

    With --n-minus-1 the folder has what synth writes, and the same for every GPU, NIC, link between two GPUs and
    server lost, repaired from it. Losses that leave the same cluster but for names share one: index.json says
    which rank is which there.
    """
    from hetesynth.deploy.atlas_destination import destination_of
    from hetesynth.files.folder_index import ATLAS, LOSSES

    context = click.get_current_context()
    default = click.core.ParameterSource.DEFAULT
    stated = {option: context.get_parameter_source(option) is not default for option in ("sizes", "size", "kinds")}
    if single and (stated["sizes"] or explain):
        raise click.UsageError("--n-minus-1 makes schedules for one --size: it excludes --sizes and --explain")
    if not single and (stated["size"] or stated["kinds"]):
        raise click.UsageError("--size and --losses go with --n-minus-1; ranges are made for --sizes")
    request = api.request(topology, name, **options)
    place = destination_of(output, replace, request, LOSSES if single else ATLAS)
    with watching(quiet=as_json) as progress:
        if single:
            losses = api.single_losses(topology, name, losses=kinds, progress=progress, **options)
            contents, document = place.write(losses.files), losses.index
        else:
            by_size = api.atlas(topology, name, sizes=sizes, progress=progress, **options)
            contents, document = place.write(by_size.files), by_size.index
    document = {**document, **place.told(contents)}
    if explain:
        decisions = by_size.compilation.decisions.entries
        chosen = atlas_explanation(document, decisions)
        document |= {"explanation": chosen, "decisions": [decision.plain() for decision in decisions]}
    added = f"; {place.words}" if place.words else ""
    wrote = f"  wrote        {len(contents)} files into {place.folder}{added}"
    lines = losses_lines(document, wrote) if single else atlas_lines(document, wrote)
    answer(document, lines, as_json=as_json)


def atlas_lines(index: dict[str, Any], wrote: str) -> Iterator[str]:
    """Yield the verdict, then the ranges, a line each."""
    costs = "counted" if index["runtime_costs"] else "left out"
    yield index["verdict"]
    yield f"{index['cluster']}: {index['collective']}, {index['ranks']} ranks, simulated, runtime costs {costs}"
    for entry in index["ranges"]:
        end = "any size" if entry["high"] is None else size_text(entry["high"])
        yield f"  {size_text(entry['low']):>9} to {end}: {entry['candidate']}, {entry['steps']} steps"
        limit = entry["mscclpp_max_bytes"]
        plans = any(".mscclpp." in file for file in entry["files"]) or limit is None
        covered = limit == entry["max_bytes"] and entry is not index["ranges"][-1]
        if "mscclpp" not in index["targets"] or covered or not plans:
            continue
        blocks = " a rank" if index["collective"] in ("gather", "scatter") else ""
        reach = "have 32-bit offsets, too few here" if limit is None else f"end at {size_text(limit)}{blocks}"
        yield f"               plans for MSCCL++ {reach}"
    if index["left_to_library"]:
        sizes = ", ".join(map(size_text, index["left_to_library"]))
        yield f"  no program   the library is quicker, which calls are left to: {sizes}"
    yield from (f"  fits no file {row['candidate']}: {row['reason']}" for row in index["unfit"])
    if index["cut_short"]:
        yield "  cut short    more time may find quicker ones"
    if index["decided_by_clock"]:
        yield f"  clock        {clock_line(index['decided_by_clock'])}"
    yield wrote
    yield from warning_lines(index["warnings"])
    if "explanation" in index:
        yield from (index["explanation"], *decision_lines(index["decisions"]))
    if index["runtime_advice"] is not None:
        yield f"  next         {index['runtime_advice']}"


def losses_lines(index: dict[str, Any], wrote: str) -> Iterator[str]:
    """Yield how many losses share a schedule, the worst beside the whole cluster, and those without a schedule."""
    losses = index["losses"]
    repaired = [entry for entry in losses if "steps" in entry]
    alike = sum("like" in entry for entry in losses)
    yield f"{index['cluster']}: {index['collective']}, each of {counted(len(losses), 'part')} lost"
    yield f"  whole        {_figures(index['whole'])}"
    yield f"  repaired     {len(repaired)}; {alike} more are like these but for names"
    if repaired:
        worst = max(repaired, key=lambda entry: (entry["program_predicted_us"] or 0.0, entry["steps"]))
        yield f"  worst        without {worst['without']}: {_figures(worst)}"
    yield from (f"  none         without {e['without']}: {e['refusal']}" for e in losses if "refusal" in e)
    yield wrote


def _figures(entry: dict[str, Any]) -> str:
    program = entry["program_predicted_us"]
    steps = f"{counted(entry['steps'], 'step')}, lower bound {entry['lower_bound']}"
    return steps if program is None else f"program {microseconds(program / 1e6)}, {steps}"
