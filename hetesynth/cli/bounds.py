"""``hetesynth bounds``: how good a schedule can be at best, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from hetesynth.cli.options import TOPOLOGY, json_option, problem_options, request


@click.command(name="bounds", short_help="Print the lower bounds and how each is proved.")
@click.argument("topology", type=TOPOLOGY)
@problem_options
@json_option
def command(topology: Path, as_json: bool, **problem: Any) -> None:
    """Print the lower bounds on the steps of a collective on the cluster in TOPOLOGY, without a search."""
    from hetesynth import pipeline
    from hetesynth.report.text import bounds_report, bounds_summary

    wanted = request(topology, **problem)
    found = pipeline.bounds(wanted)
    if as_json:
        click.echo(json.dumps(bounds_summary(*found), indent=2))
    else:
        click.echo(bounds_report(*found))
