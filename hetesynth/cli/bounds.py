"""``hetesynth bounds``: how good a schedule can be at best, and why."""

import os
from collections.abc import Iterator
from typing import Any

import click

from hetesynth import api
from hetesynth.cli.options import FILE, json_option, problem_options, topology_losses
from hetesynth.cli.terminal import answer
from hetesynth.model.words import counted


@click.command(name="bounds")
@click.argument("topology", type=FILE)
@topology_losses
@problem_options
@click.option("--check", is_flag=True, help="Recheck every bound from its witness; exit 1 when one is wrong.")
@json_option
def command(topology: os.PathLike[str], name: Any, check: bool, as_json: bool, **options: Any) -> int:
    """Print the lower bounds on the steps of a collective on the cluster in TOPOLOGY, without a search."""
    document = api.bounds_document(topology, name, check=check, **options)
    answer(document, bounds_report(document, check=check), as_json=as_json)
    return int(any(bound["violations"] for bound in document["bounds"]))


def bounds_report(document: dict[str, Any], *, check: bool) -> Iterator[str]:
    """Yield the best bound, then each bound, then errors in any of them."""
    bounds, chunks = document["bounds"], counted(document["chunks"], "chunk")
    yield f"{document['collective']}, {document['ranks']} ranks, {chunks} per rank"
    yield f"  lower bound {counted(document['lower_bound'], 'step')}"
    yield from (f"  {bound['method']:<9} {bound['steps']:>4}  {bound['proof']}" for bound in bounds)
    wrong = [message for bound in bounds for message in bound["violations"]]
    yield from (f"  error: {message}" for message in wrong)
    if check and not wrong:
        yield f"  rechecked   all {len(bounds)} from their witnesses"
