"""``hetesynth compare``: strategies beside each other, size by size."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from hetesynth import api
from hetesynth.cli import options as shared
from hetesynth.cli.progress import watching
from hetesynth.cli.terminal import answer
from hetesynth.model.words import clock_line, size_text, table

_STRATEGIES = (
    "Strategies of synth; auto is what synth --size would choose, or what was found for another of the sizes "
    "where that is quicker."
)


@click.command(name="compare")
@click.argument("topology", type=shared.FILE)
@shared.topology_losses
@shared.sized_problem_options
@shared.sizes_option("--sizes", "Of the collective's buffer", 4)
@click.option("--strategies", metavar="NAME[,NAME]", default="auto,ring,double-tree", help=_STRATEGIES)
@shared.rings_option
@shared.runtime_costs_option
@shared.search_options("For all strategies together:", "table")
@click.option("--plot", type=shared.NewPath(".svg"), metavar="FILE.svg", help="Draw bandwidth against size.")
@shared.json_option
def command(
    topology: os.PathLike[str],
    name: Any,
    sizes: str,
    strategies: str,
    plot: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Predict what strategies take on the cluster in TOPOLOGY: time, bandwidths, percent of the bound.

    Every strategy is given the chunks per rank that suit it best at each size, unless --chunks says how many. Time
    is simulated, not measured; ring and double-tree model what NCCL does.
    """
    names = [strategy.strip() for strategy in strategies.split(",") if strategy.strip()]
    if not names:
        raise click.BadParameter("name at least one", param_hint="--strategies")
    with watching(quiet=as_json) as progress:
        comparison = api.compare(topology, name, sizes=sizes, strategies=names, progress=progress, **options)
    wrote = [] if plot is None else comparison.write(plot)
    document = comparison.figures()
    lines = [*comparison_report(document), *(f"  wrote {path}" for path in wrote)]
    answer(document, lines, as_json=as_json)


def comparison_report(document: dict[str, Any]) -> Iterator[str]:
    """The verdict on the quickest entries, a title and a table."""
    rows = [("size", "strategy", "time us", "algbw GB/s", "busbw GB/s", "of bound", "by")]
    for result in document["results"]:
        first = size_text(result["size"]), result["strategy"]
        if result.get("predicted_us") is None:
            rows.append((*first, "-", "-", "-", "-", result["refused"] or ""))
            continue
        rates = f"{result['algbw_GBps']:.2f}", f"{result['busbw_GBps']:.2f}"
        share = f"{result['percent_of_bound']:.1f} %"
        by = result["candidate"] + ("" if result["program_simulated"] else "; its program is not simulated")
        rows.append((*first, f"{result['predicted_us']:,.2f}", *rates, share, by))
    costs = "counted" if document["runtime_costs"] else "left out"
    yield document["verdict"]
    yield f"{document['cluster']}: {document['collective']}, {document['ranks']} ranks"
    yield f"  simulated, not measured, runtime costs {costs}; of bound: the least possible time / this time"
    yield from table(rows, right=(0, 2, 3, 4, 5), indent="  ")
    if document["cut_short"]:
        yield "  cut short: more time may find quicker ones"
    if document["decided_by_clock"]:
        yield f"  {clock_line(document['decided_by_clock'])}"
