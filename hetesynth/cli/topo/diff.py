"""``hetesynth topo diff``: what changed between two topology files, and which schedules that concerns."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hetesynth.cli.options import FILE, json_option, topology_losses_of
from hetesynth.cli.terminal import answer, some
from hetesynth.model.words import counted

if TYPE_CHECKING:
    from hetesynth.deploy.topo_diff import TopologyDifference

_SCHEDULES = "Schedules (.schedule.json), XML and plans made for BEFORE, judged on AFTER; repeatable."
SIGNS = {"added": "+", "removed": "-", "changed": "~"}


@click.command(name="diff")
@click.argument("before", type=FILE)
@click.argument("after", type=FILE)
@click.option("--schedules", type=FILE, multiple=True, metavar="FOLDER|FILE", help=_SCHEDULES)
@json_option
@topology_losses_of("after")
def command(before: Path, after: os.PathLike[str], schedules: tuple[Path, ...], as_json: bool) -> int:
    """Say what changed from topology BEFORE to AFTER: servers, GPUs, NICs, rates, latencies, links, ranks.

    --without and --degrade say what AFTER has lost; BEFORE and AFTER may be the same file then.

    Exits 0 where nothing did, 1 where something did. The parts of both files are the same where their names are.
    """
    from hetesynth.deploy.topo_diff import topology_difference

    document = difference_document(topology_difference(before, after, schedules))
    answer(document, difference_report(document), as_json=as_json)
    return int(not document["same"])


def difference_report(document: dict[str, Any]) -> Iterator[str]:
    """Yield the changes, equal ones in one line, then the schedules."""
    before, after, changes = document["before"], document["after"], document["changes"]
    if not changes:
        yield f"{before['cluster']} and {after['cluster']}: the same hardware, the same ranks"
    else:
        ranks = f"{counted(before['ranks'], 'GPU')} -> {after['ranks']}"
        yield f"{before['cluster']} -> {after['cluster']}: {counted(len(changes), 'change')}; {ranks}"
    alike: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for change in changes:
        was, now, name = change["before"], change["after"], change["name"]
        told = f": {was} -> {now}" if change["change"] == "changed" else f": {was or now}" if was or now else ""
        if change["what"].startswith("rank"):
            name, told = f"{name} {was} -> {now}", ""
        alike[change["change"], change["what"], told].append(name)
    for (kind, what, told), names in alike.items():
        yield f"  {SIGNS[kind]} {what} {some(names)}".rstrip() + told
    if document["schedules"]:
        counts = Counter(standing["verdict"] for standing in document["schedules"])
        yield from ("", f"schedules on {after['cluster']}: {', '.join(f'{n} {v}' for v, n in counts.items())}")
        for standing in document["schedules"]:
            reason = f": {standing['reason']}" if standing["reason"] else ""
            yield f"  {standing['file']}: {standing['verdict']}{reason}"


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
