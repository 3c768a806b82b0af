"""``hetesynth topo diff``: what changed between two topology files, and which schedules that concerns."""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hetesynth.cli.options import TOPOLOGY, json_option, topology_losses_of
from hetesynth.cli.terminal import show, show_lines
from hetesynth.model.words import counted

if TYPE_CHECKING:
    from hetesynth.deploy.topo_diff import TopologyDifference
    from hetesynth.report.topology_changes import TopologyChange


@click.command(name="diff")
@click.argument("before", type=TOPOLOGY)
@click.argument("after", type=TOPOLOGY)
@click.option(
    "--schedules",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="FOLDER|FILE",
    help="Schedules (.schedule.json), MSCCL XML and MSCCL++ plans made for BEFORE, judged on AFTER; repeatable.",
)
@json_option
@topology_losses_of("after")
def command(before: Path, after: os.PathLike[str], schedules: tuple[Path, ...], as_json: bool) -> int:
    """Say what changed from topology BEFORE to AFTER: servers, GPUs, NICs, rates, latencies, links, ranks.

    --without and --degrade say what AFTER has lost; BEFORE and AFTER may be the same file then.

    Exits 0 where nothing did, 1 where something did. The parts of both files are the same where their names are.
    """
    from hetesynth.deploy.topo_diff import topology_difference

    difference = topology_difference(before, after, schedules)
    if as_json:
        show(json.dumps(difference_document(difference), indent=2))
    else:
        show_lines(difference_report(difference))
    return int(bool(difference.changes))


SHOWN_NAMES = 4
SIGNS = {"added": "+", "removed": "-", "changed": "~"}


def difference_report(difference: TopologyDifference) -> Iterator[str]:
    """The changes, then the schedules."""
    before, after, changes = difference.before, difference.after, difference.changes
    if not changes:
        yield f"{before.name} and {after.name}: the same hardware, the same ranks"
    else:
        yield (
            f"{before.name} -> {after.name}: {counted(len(changes), 'change')}; "
            f"{counted(before.ranks, 'GPU')} -> {after.ranks}"
        )
    alike: dict[tuple[str, str, str, str], list[TopologyChange]] = defaultdict(list)
    for change in changes:
        words = ("", "") if change.what.startswith("rank") else (change.before, change.after)
        alike[(change.kind, change.what, *words)].append(change)
    for (kind, what, was, is_), several in alike.items():
        ranks = what.startswith("rank")
        named = [f"{c.name} {c.before} -> {c.after}" if ranks else c.name for c in several[:SHOWN_NAMES]]
        names = ", ".join(named) + (f", ... ({len(several)} in all)" if len(several) > SHOWN_NAMES else "")
        told = f": {was} -> {is_}" if kind == "changed" and not ranks else f": {was or is_}" if was or is_ else ""
        yield f"  {SIGNS[kind]} {what} {names}".rstrip() + told
    if difference.schedules:
        counts = Counter(s.verdict for s in difference.schedules)
        yield ""
        said = ", ".join(f"{n} {verdict}" for verdict, n in counts.items())
        yield f"schedules on {after.name}: {said}"
        for standing in difference.schedules:
            yield f"  {standing.path}: {standing.verdict}" + (f": {standing.reason}" if standing.reason else "")


def difference_document(difference: TopologyDifference) -> dict[str, Any]:
    """The object of ``topo diff --json``."""
    return {
        "before": {"cluster": difference.before.name, "ranks": difference.before.ranks},
        "after": {"cluster": difference.after.name, "ranks": difference.after.ranks},
        "same": not difference.changes,
        "changes": [
            {"change": c.kind, "what": c.what, "name": c.name, "before": c.before, "after": c.after}
            for c in difference.changes
        ],
        "schedules": [
            {"file": str(s.path), "verdict": s.verdict, "runs": s.runs, "reason": s.reason}
            for s in difference.schedules
        ],
    }
