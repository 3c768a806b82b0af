"""``hetesynth strategies``: what may be asked for with ``--strategy``."""

import click

from hetesynth.cli.options import json_option
from hetesynth.cli.terminal import answer
from hetesynth.model.collective import COLLECTIVE_NAMES, PERSONALIZED
from hetesynth.model.words import table
from hetesynth.search.auto import FOR_A_SIZE
from hetesynth.search.registry import ROWS, TO_EVERYBODY


@click.command(name="strategies")
@json_option
def command(as_json: bool) -> None:
    """List the strategies: what each counts, the collectives it takes, whether auto tries it, and its source.

    Those that count seconds need --size. "auto" in the fourth column: synth --size tries it by itself.
    """
    tried = {attempt.strategy for attempt in FOR_A_SIZE} | {"steady-state"}
    groups = {COLLECTIVE_NAMES: "all", PERSONALIZED: "personalized", TO_EVERYBODY: "to everybody"}
    document, rows = [], [("name", "counts", "collectives", "--size", "what it does", "source")]
    for row in ROWS:
        document.append(
            {
                "name": row.name,
                "objective": row.objective,
                "collectives": list(row.accepts),
                "needs_size": row.objective == "time",
                "candidate": row.name in tried,
                "library": row.library,
                "summary": row.summary,
                "source": row.source,
            }
        )
        collectives = groups.get(row.accepts) or ", ".join(row.accepts)
        auto = "auto" if row.name in tried else "-"
        rows.append((row.name, row.objective, collectives, auto, row.summary, row.source))
    answer(document, table(rows), as_json=as_json)
