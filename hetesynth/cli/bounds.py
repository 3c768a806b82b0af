"""``hetesynth bounds``: how good a schedule can be at best, and why."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from hetesynth.cli.options import TOPOLOGY, json_option, problem_options, request, topology_losses
from hetesynth.cli.terminal import show
from hetesynth.model.bound import LowerBound
from hetesynth.model.problem import Problem
from hetesynth.model.words import counted

if TYPE_CHECKING:
    from hetesynth.judge.bounds.judge import Recheck


@click.command(name="bounds")
@click.argument("topology", type=TOPOLOGY)
@topology_losses
@problem_options
@click.option("--check", is_flag=True, help="Recheck every bound from its witness; exit 1 when one is wrong.")
@json_option
def command(topology: os.PathLike[str], check: bool, as_json: bool, **problem: Any) -> int:
    """Print the lower bounds on the steps of a collective on the cluster in TOPOLOGY, without a search."""
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


def bounds_report(problem: Problem, bounds: list[LowerBound], rechecks: list[Recheck] | None) -> str:
    """The lines ``bounds`` prints: the best bound first, then what is wrong with any."""
    collective = problem.collective
    chunks = counted(collective.chunks_per_rank, "chunk")
    lines = [f"{collective.name}, {collective.ranks} ranks, {chunks} per rank"]
    lines.append(f"  lower bound {counted(bounds[0].steps, 'step')}")
    lines += [f"  {bound.method:<9} {bound.steps:>4}  {bound.proof}" for bound in bounds]
    if rechecks is not None:
        wrong = [violation.message for recheck in rechecks for violation in recheck.violations]
        lines += [f"  error: {message}" for message in wrong] or [
            f"  rechecked   all {len(rechecks)} from their witnesses"
        ]
    return "\n".join(lines)


def bounds_summary(problem: Problem, bounds: list[LowerBound], rechecks: list[Recheck] | None) -> dict[str, Any]:
    """The object ``bounds --json`` prints. ``rechecked`` is null where nobody asked for it."""
    checked: list[Recheck | None] = [None] * len(bounds) if rechecks is None else [*rechecks]
    return {
        "collective": problem.collective.name,
        "ranks": problem.ranks,
        "chunks": problem.collective.chunks_per_rank,
        "lower_bound": bounds[0].steps,
        "bounds": [
            {
                "steps": bound.steps,
                "method": bound.method,
                "proof": bound.proof,
                "backwards": bound.backwards,
                "witness": None if bound.witness is None else asdict(bound.witness),
                "rechecked": None if recheck is None else recheck.complete,
                "violations": [violation.message for violation in recheck.violations] if recheck else [],
            }
            for bound, recheck in zip(bounds, checked, strict=True)
        ],
    }
