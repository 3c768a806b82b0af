"""What ``topo diff`` prints: changes, alike ones in a line, and where schedules stand.

In: a difference. Out: lines of text, and a JSON document.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from hetesynth.model.words import counted

if TYPE_CHECKING:
    from hetesynth.deploy.topo_diff import TopologyDifference
    from hetesynth.report.topology_changes import TopologyChange

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
    for several in alike.values():
        yield f"  {_line(several)}"
    if difference.schedules:
        counts = Counter(s.verdict for s in difference.schedules)
        yield ""
        said = ", ".join(f"{n} {verdict}" for verdict, n in counts.items())
        yield f"schedules on {after.name}: {said}"
        for standing in difference.schedules:
            yield f"  {standing.path}: {standing.verdict}" + (f": {standing.reason}" if standing.reason else "")


def _line(several: list[TopologyChange]) -> str:
    change = several[0]
    first = several[:SHOWN_NAMES]
    named = [f"{c.name} {c.before} -> {c.after}" if c.what.startswith("rank") else c.name for c in first]
    names = ", ".join(named) + (f", ... ({len(several)} in all)" if len(several) > SHOWN_NAMES else "")
    text = f"{SIGNS[change.kind]} {change.what} {names}".rstrip()
    if change.what.startswith("rank"):
        return text
    if change.kind == "changed":
        return f"{text}: {change.before} -> {change.after}"
    words = change.before or change.after
    return f"{text}: {words}" if words else text


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
