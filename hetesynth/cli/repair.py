"""``hetesynth repair``: an old schedule and what changed in, a verified schedule and its programs out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hetesynth import api
from hetesynth.cli import options as shared
from hetesynth.cli.progress import watching
from hetesynth.cli.terminal import answer, some
from hetesynth.engine.places import check_folder, named_stem
from hetesynth.model.target import targets_of
from hetesynth.model.words import counted
from hetesynth.topology.language.overridden import OverriddenFile

if TYPE_CHECKING:
    from hetesynth.engine.repair import Repaired

_TO = "The topology as it is now, in place of --without and --degrade; GPUs go by their names."
SHOWN = 12  # ranks, or names, that the text lists; --json has all


@click.command(name="repair")
@click.argument("schedule", type=shared.NewPath())
@click.argument("topology", type=shared.FILE)
@shared.topology_losses
@click.option("--to", "changed", type=shared.FILE, metavar="FILE.dsl", help=_TO)
@shared.search_options("After it, the best verified schedule so far is written:", "bytes")
@shared.targets_option("Runtime to write for [default: those of the schedule]")
@shared.single_root_option
@shared.always_option
@shared.size_option
@shared.output_option("NAME|FILE.xml|DIRECTORY", "CLUSTER-COLLECTIVE-repaired")
@shared.schedule_only_option
@shared.json_option
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
    from hetesynth.engine.repair import suffixes_of

    if isinstance(topology, OverriddenFile) == (changed is not None):
        raise click.UsageError("say what changed: --without or --degrade, or --to, and not both")
    targets = targets_of(options["target"]) if options["target"] else ()
    suffixes = suffixes_of(schedule, targets, schedule_only=options["schedule_only"])
    check_folder(output)
    named = named_stem(output, suffixes)
    with watching(quiet=as_json, budget=options["time_budget"]) as progress:
        repaired = api.repair(schedule, Path(topology), changed or topology, progress=progress, **options)
    name = f"{repaired.synthesis.topology.name}-{repaired.document.collective}-repaired"
    document = repair_summary(repaired, repaired.write(named or (output or Path()) / name))
    answer(document, repair_report(document), as_json=as_json)


def repair_summary(repaired: Repaired, paths: Iterable[Path]) -> dict[str, Any]:
    """The object ``repair --json`` prints. Scripts depend on these names."""
    synthesis, changes = repaired.synthesis, repaired.changes
    certificate, optimality = synthesis.solution.certificate, synthesis.time_optimality
    program = synthesis.program_seconds
    return {
        **({"verdict": None} if synthesis.verdict is None else synthesis.verdict.figures()),
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
        "runtime_costs": synthesis.request.runtime is not None,
        "predicted_us": None if optimality.seconds is None else optimality.seconds * 1e6,
        "program_predicted_us": None if program is None else program * 1e6,
        "bound_us": None if optimality.bound_seconds is None else optimality.bound_seconds * 1e6,
        "transfers": asdict(repaired.difference),
        "outputs": [str(path) for path in paths],
        "cut_short": synthesis.cut_short,
        "seed": synthesis.budget.seed,
        "seconds": round(synthesis.timer.total, 3),
        "seconds_by_phase": {name: round(value, 3) for name, value in synthesis.timer.phases.items()},
    }


def repair_report(document: dict[str, Any]) -> Iterator[str]:
    """Yield what became of the schedule, what changed, and the files."""
    from hetesynth.engine.repair import NEAR_LIMIT

    if document["verdict"] is not None:
        yield document["verdict"]
        if (document["percent_of_limit"] or 0.0) < 100 * NEAR_LIMIT:
            yield "  fresh        a fresh run may find a quicker one: hetesynth synth on what is left"
    ranks, strategy = counted(document["ranks"], "rank"), document["strategy"]
    yield f"{document['cluster']}: {document['collective']} repaired, {ranks}, strategy {strategy}"
    yield f"  steps        {document['steps']}  (before: {document['steps_before']})"
    yield f"  lower bound  {document['lower_bound']}"
    renumbered = [f"{old} is {new}" for old, new in enumerate(document["new_rank_of"]) if new not in (None, old)]
    told = {"losses": document["losses"], "lost": document["lost_gpus"], "new": document["new_gpus"]}
    for title, names in {**told, "ranks": renumbered}.items():
        if names:
            yield f"  {title:<12} {some(names, SHOWN)}"
    if document["chunks_before"] != document["chunks"]:
        before = f"(before: {document['chunks_before']}): they are other data, so all transfers are new"
        yield f"  chunks       {document['chunks']} per rank {before}"
    transfers = document["transfers"]
    yield (
        f"  transfers    {transfers['same']} as before, {transfers['moved']} in another step, "
        f"{transfers['new']} new, {transfers['gone']} gone"
    )
    executed = ", every program executed" if len(document["outputs"]) > 1 else ""
    yield f"  verified     schedule replayed{executed}, bound rechecked, in {document['seconds']:.2f} s"
    yield from (f"  wrote        {path}" for path in document["outputs"])
