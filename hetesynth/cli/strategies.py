"""``hetesynth strategies``: what may be asked for with ``--strategy``."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import click

from hetesynth import api
from hetesynth.cli.options import json_option
from hetesynth.cli.terminal import show, table
from hetesynth.model.collective import COLLECTIVE_NAMES, PERSONALIZED
from hetesynth.search.auto import FOR_A_SIZE
from hetesynth.search.registry import TO_EVERYBODY, StrategyRow

TRIED = {attempt.strategy for attempt in FOR_A_SIZE} | {"steady-state"}


@click.command(name="strategies")
@json_option
def command(as_json: bool) -> None:
    """List the strategies: what each counts, the collectives it takes, whether auto tries it, and its source.

    Those that count seconds need --size. "auto" in the fourth column: synth --size tries it by itself.
    """
    rows = api.strategies()
    show(json.dumps(strategies_document(rows), indent=2) if as_json else strategies_report(rows))


def strategies_document(rows: Sequence[StrategyRow]) -> list[dict[str, Any]]:
    """Return one object a row.

    ``needs_size``: the buffer's size has to be given; ``candidate``: auto tries it where a size is given.
    """
    return [
        {
            "name": row.name,
            "objective": row.objective,
            "collectives": list(row.accepts),
            "needs_size": row.objective == "time",
            "candidate": row.name in TRIED,
            "library": row.library,
            "summary": row.summary,
            "source": row.source,
        }
        for row in rows
    ]


def strategies_report(rows: Sequence[StrategyRow]) -> str:
    """Return a table with a line for each row."""
    groups = {COLLECTIVE_NAMES: "all", PERSONALIZED: "personalized", TO_EVERYBODY: "to everybody"}
    lines = [("name", "counts", "collectives", "--size", "what it does", "source")]
    lines += [
        (
            row.name,
            "steps" if row.objective == "steps" else "seconds",
            groups.get(row.accepts) or ", ".join(row.accepts),
            "auto" if row.name in TRIED else "-",
            row.summary,
            row.source,
        )
        for row in rows
    ]
    return "\n".join(table(lines))
