"""``hetesynth repair``: an old schedule and what changed in, a verified schedule and its programs out."""

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
    Output,
    json_option,
    schedule_only_option,
    search_options,
    single_root_option,
    targets_of,
    targets_option,
)
from hetesynth.cli.progress import watching
from hetesynth.cli.synth import check_folder, named_stem
from hetesynth.cli.terminal import show
from hetesynth.model.problem import Budget


@click.command(name="repair", short_help="Repair a schedule after a GPU, a NIC or a link is lost.")
@click.argument("schedule", type=NewPath(path_type=Path))
@click.argument("topology", type=TOPOLOGY)
@topology_losses
@click.option(
    "--to", "changed", type=TOPOLOGY, metavar="FILE.dsl",
    help="The topology as it is now, in place of --without and --degrade; GPUs go by their names.",
)  # fmt: skip
@search_options("After it, the best verified schedule so far is written:", "bytes")
@targets_option("Runtime to write for [default: those of the schedule]")
@single_root_option
@click.option(
    "-o", "--output", type=Output(path_type=Path), metavar="NAME|FILE.xml|DIRECTORY",
    help="Where to write; NAME.xml, NAME.schedule.json and so on [default: CLUSTER-COLLECTIVE-repaired here].",
)  # fmt: skip
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
    part of the time of synth. The report says how far it is from the new bounds, how ranks were renumbered, and
    what each rank sends and receives now that it did not before.
    """
    from hetesynth.cli.render.repair import repair_report, repair_summary
    from hetesynth.engine.artifacts import write
    from hetesynth.engine.repair import RepairRequest, repair, suffixes_of

    budget = Budget(options["time_budget"], options["seed"], effort=options["effort"])
    asked = RepairRequest(
        schedule=schedule, before=_before(topology, changed), after=changed or topology, budget=budget,
        targets=targets_of(options["targets"]) if options["targets"] else (),
        schedule_only=options["schedule_only"], single_root=options["single_root"],
    )  # fmt: skip
    check_folder(output)
    named = named_stem(output, suffixes_of(asked))
    with watching(quiet=as_json, budget=budget.seconds) as progress:
        repaired = repair(asked, progress)
    stem = named or (output or Path()) / _name(repaired.synthesis.topology.name, repaired.document.collective)
    paths = write(repaired.synthesis, stem)
    if as_json:
        show(json.dumps(repair_summary(repaired, paths), indent=2))
    else:
        show(repair_report(repaired, paths))


def _before(topology: os.PathLike[str], changed: Path | None) -> Path:
    """The file of the cluster that the schedule was made for. click.UsageError where nothing changed."""
    from hetesynth.topology.language.overridden import OverriddenFile

    losses = isinstance(topology, OverriddenFile)
    if losses == (changed is not None):
        raise click.UsageError("say what changed: --without or --degrade, or --to, and not both")
    return Path(os.fspath(topology))


def _name(cluster: str, collective: str) -> str:
    return f"{cluster}-{collective}-repaired"
