"""``hetesynth bounds``: how good a schedule can be at best, and why."""

from __future__ import annotations

import json
import os
from typing import Any

import click

from hetesynth.cli.losses import topology_losses
from hetesynth.cli.options import TOPOLOGY, json_option, problem_options, request
from hetesynth.cli.terminal import show


@click.command(name="bounds", short_help="Print the lower bounds and how each is proved.")
@click.argument("topology", type=TOPOLOGY)
@topology_losses
@problem_options
@click.option("--check", is_flag=True, help="Recheck every bound from its witness; exit 1 when one is wrong.")
@json_option
def command(topology: os.PathLike[str], check: bool, as_json: bool, **problem: Any) -> int:
    """Print the lower bounds on the steps of a collective on the cluster in TOPOLOGY, without a search."""
    from hetesynth.cli.render.synth import bounds_report, bounds_summary
    from hetesynth.engine.problem import bounds, recheck_bound

    stated = request(topology, **problem)
    goal, all_bounds = bounds(stated)
    seconds = stated.policy.compile.recheck_seconds
    rechecks = [recheck_bound(goal, bound, seconds) for bound in all_bounds] if check else None
    if as_json:
        show(json.dumps(bounds_summary(goal, all_bounds, rechecks), indent=2))
    else:
        show(bounds_report(goal, all_bounds, rechecks))
    return int(any(recheck.violations for recheck in rechecks or ()))
