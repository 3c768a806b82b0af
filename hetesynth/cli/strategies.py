"""``hetesynth strategies``: what may be asked for with ``--strategy``."""

from __future__ import annotations

import json

import click

from hetesynth.cli.options import json_option
from hetesynth.cli.terminal import show
from hetesynth.search.registry import ROWS


@click.command(name="strategies", short_help="List the strategies.")
@json_option
def command(as_json: bool) -> None:
    """List the strategies: what each counts, the collectives it takes, whether auto tries it, and its source.

    Those that count seconds need --size. "auto" in the fourth column: synth --size tries it by itself. s/transfer:
    what a search costs on one core for each transfer, as a power of ten (docs/strategies.md).
    """
    from hetesynth.cli.render.strategies import strategies_document, strategies_report

    show(json.dumps(strategies_document(ROWS), indent=2) if as_json else strategies_report(ROWS))
