"""``hetesynth bounds``: how good a schedule can be at best, and why."""

from __future__ import annotations

import json
import os
from typing import Any

import click

from hetesynth import api
from hetesynth.cli.options import TOPOLOGY, json_option, problem_options, topology_losses
from hetesynth.cli.terminal import show
from hetesynth.model.words import counted


@click.command(name="bounds")
@click.argument("topology", type=TOPOLOGY)
@topology_losses
@problem_options
@click.option("--check", is_flag=True, help="Recheck every bound from its witness; exit 1 when one is wrong.")
@json_option
def command(topology: os.PathLike[str], name: Any, check: bool, as_json: bool, **options: Any) -> int:
    """Print the lower bounds on the steps of a collective on the cluster in TOPOLOGY, without a search."""
    document = api.bounds_document(topology, name, check=check, **options)
    show(json.dumps(document, indent=2) if as_json else bounds_report(document, check=check))
    return int(any(bound["violations"] for bound in document["bounds"]))


def bounds_report(document: dict[str, Any], *, check: bool) -> str:
    """The lines ``bounds`` prints: the best bound first, then what is wrong with any."""
    bounds, chunks = document["bounds"], counted(document["chunks"], "chunk")
    lines = [
        f"{document['collective']}, {document['ranks']} ranks, {chunks} per rank",
        f"  lower bound {counted(document['lower_bound'], 'step')}",
        *(f"  {bound['method']:<9} {bound['steps']:>4}  {bound['proof']}" for bound in bounds),
    ]
    if check:
        wrong = [message for bound in bounds for message in bound["violations"]]
        lines += [f"  error: {m}" for m in wrong] or [f"  rechecked   all {len(bounds)} from their witnesses"]
    return "\n".join(lines)
