"""``hetesynth repair``: an old schedule and what changed in, a verified schedule and its programs out."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hetesynth import api
from hetesynth.cli.options import (
    TOPOLOGY,
    NewPath,
    Output,
    json_option,
    schedule_only_option,
    search_options,
    single_root_option,
    targets_option,
    topology_losses,
)
from hetesynth.cli.progress import watching
from hetesynth.cli.terminal import show
from hetesynth.model.words import AT_RATES, counted, microseconds, of_limit, size_text, whole_percent

if TYPE_CHECKING:
    from hetesynth.engine.repair import Repaired


@click.command(name="repair")
@click.argument("schedule", type=NewPath(path_type=Path))
@click.argument("topology", type=TOPOLOGY)
@topology_losses
@click.option(
    "--to",
    "changed",
    type=TOPOLOGY,
    metavar="FILE.dsl",
    help="The topology as it is now, in place of --without and --degrade; GPUs go by their names.",
)
@search_options("After it, the best verified schedule so far is written:", "bytes")
@targets_option("Runtime to write for [default: those of the schedule]", "target")
@single_root_option
@click.option(
    "-o",
    "--output",
    type=Output(path_type=Path),
    metavar="NAME|FILE.xml|DIRECTORY",
    help="Where to write; NAME.xml, NAME.schedule.json and so on [default: CLUSTER-COLLECTIVE-repaired here].",
)
@schedule_only_option
@json_option
def command(
    schedule: Path,
    topology: os.PathLike[str],
    changed: Path | None,
    output: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Repair SCHEDULE, a schedule JSON of the cluster in TOPOLOGY, for what is left of that cluster.

    --without and --degrade say what changed. Transfers that still hold are kept, the rest is done another way; the
    schedule and its programs pass the same judges as those of synth. Programs are made like the old winner, which
    the schedule file says, and others are tried only where that is not near the limit, so this mostly takes a
    part of the time of synth. The report says how far it is from the new bounds and how ranks were renumbered.
    """
    from hetesynth.topology.language.overridden import OverriddenFile

    if isinstance(topology, OverriddenFile) == (changed is not None):
        raise click.UsageError("say what changed: --without or --degrade, or --to, and not both")
    made_for = Path(os.fspath(topology))
    programs = {name: options[name] for name in ("target", "schedule_only")}
    named = api.output_stem(output, api.repair_suffixes(schedule, **programs))
    with watching(quiet=as_json, budget=options["time_budget"]) as progress:
        repaired = api.repair(schedule, made_for, changed or topology, progress=progress, **options)
    name = f"{repaired.synthesis.topology.name}-{repaired.document.collective}-repaired"
    paths = api.write(repaired, named or (output or Path()) / name)
    document = repair_summary(repaired, paths)
    show(json.dumps(document, indent=2) if as_json else repair_report(repaired, document))


SHOWN = 12
"""Ranks, or names, that the text lists; --json has all."""


def repair_summary(repaired: Repaired, paths: Iterable[Path]) -> dict[str, Any]:
    """The object ``repair --json`` prints. Scripts depend on these names."""
    synthesis, changes, difference = repaired.synthesis, repaired.changes, repaired.difference
    certificate, optimality = synthesis.solution.certificate, synthesis.time_optimality
    program = synthesis.program_seconds
    return {
        "cluster": synthesis.topology.name,
        "collective": repaired.document.collective,
        "losses": list(synthesis.topology.notes),
        "ranks_before": changes.before.ranks,
        "ranks": changes.after.ranks,
        "lost_gpus": list(changes.lost_gpus),
        "new_gpus": list(changes.new_gpus),
        "lost_links": changes.lost_links,
        "new_rank_of": list(changes.ranks),
        "chunks": synthesis.chunks,
        "chunks_before": repaired.document.chunks_per_rank,
        "strategy": synthesis.strategy,
        "steps_before": repaired.document.schedule.makespan,
        "steps": certificate.steps,
        "lower_bound": certificate.bound.steps,
        "bound_within_composition": synthesis.solution.within,
        "gap": certificate.gap,
        "proven_optimal": certificate.proven_optimal,
        "size": optimality.size,
        "predicted_us": None if optimality.seconds is None else optimality.seconds * 1e6,
        "program_predicted_us": None if program is None else program * 1e6,
        "bound_us": None if optimality.bound_seconds is None else optimality.bound_seconds * 1e6,
        "transfers": {
            "same": difference.same,
            "moved": difference.moved,
            "new": difference.new,
            "gone": difference.gone,
        },
        "outputs": [str(path) for path in paths],
        "cut_short": synthesis.cut_short,
        "seed": synthesis.budget.seed,
        "seconds": round(synthesis.timer.total, 3),
        "seconds_by_phase": {name: round(value, 3) for name, value in synthesis.timer.phases.items()},
    }


def repair_report(repaired: Repaired, document: dict[str, Any]) -> str:
    """Return what became of the schedule, what changed, and the files."""
    from hetesynth.engine.repair import NEAR_LIMIT

    synthesis, changes, difference = repaired.synthesis, repaired.changes, repaired.difference
    program, limit, lines = synthesis.program_seconds, synthesis.time_optimality.bound_seconds, []
    if program is not None:
        rates = "" if synthesis.request.runtime is None else AT_RATES
        near = "" if limit is None else f": {of_limit(whole_percent(100 * limit / program), rates=rates)}"
        if limit is not None and limit < NEAR_LIMIT * program:
            near += "; a fresh run may find a quicker one"
        lines.append(f"program {microseconds(program)} for {size_text(document['size'])}{near}")
    within = document["bound_within_composition"]
    phases = "" if within is None else f", {within} for a reduce-scatter followed by an allgather"
    lines += [
        f"{document['cluster']}: {document['collective']} repaired, "
        f"{counted(document['ranks'], 'rank')}, strategy {document['strategy']}",
        f"  steps        {document['steps']}  (before: {document['steps_before']})",
        f"  lower bound  {document['lower_bound']}{phases}",
    ]
    if document["losses"]:
        lines.append(f"  losses       {_some(document['losses'])}")
    if document["lost_gpus"]:
        lines.append(f"  lost         {_some(document['lost_gpus'])}: their chunks are gone")
    if document["new_gpus"]:
        lines.append(f"  new          {_some(document['new_gpus'])}")
    renumbered = [f"{old} is {new}" for old, new in enumerate(changes.ranks) if new is not None and new != old]
    if renumbered:
        lines.append(f"  ranks        {_some(renumbered)}")
    before, now = document["chunks_before"], document["chunks"]
    if before != now:
        said = f"{now} per rank (before: {before}): they are other data, so all transfers are new"
        lines.append(f"  chunks       {said}")
    lines.append(
        f"  transfers    {difference.same} as before, {difference.moved} in another step, {difference.new} new, "
        f"{difference.gone} gone"
    )
    seconds = ", ".join(f"{name} {value:.2f}" for name, value in synthesis.timer.phases.items())
    executed = "every program executed, " if synthesis.programs else ""
    lines += [
        f"  seconds      {synthesis.timer.total:.2f}  ({seconds})",
        f"  verified     schedule replayed, {executed}bound rechecked",
        *(f"  wrote        {path}" for path in document["outputs"]),
    ]
    return "\n".join(lines)


def _some(items: Iterable[object]) -> str:
    listed = [str(item) for item in items]
    more = f" and {len(listed) - SHOWN} more" if len(listed) > SHOWN else ""
    return ", ".join(listed[:SHOWN]) + more
