"""``hetesynth compare``: strategies beside each other, size by size."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hetesynth.cli.options import (
    TOPOLOGY,
    Named,
    json_option,
    request,
    rings_option,
    runtime_costs_option,
    search_options,
    sized_problem_options,
    sizes_option,
    topology_losses,
)
from hetesynth.cli.progress import watching
from hetesynth.cli.terminal import show, table
from hetesynth.model.words import clock_line, runtime_words, size_text

if TYPE_CHECKING:
    from hetesynth.engine.compare import Comparison


@click.command(name="compare")
@click.argument("topology", type=TOPOLOGY)
@topology_losses
@sized_problem_options
@sizes_option("--sizes", "Of the collective's buffer", 4)
@click.option(
    "--strategies", metavar="NAME[,NAME]", default="auto,ring,double-tree", show_default=True,
    help="Strategies of synth; auto is what synth --size would choose, or what was found for another of the sizes "
    "where that is quicker.",
)  # fmt: skip
@rings_option
@runtime_costs_option
@search_options("For all strategies together:", "table")
@click.option("--plot", type=Named(".svg"), metavar="FILE.svg", help="Draw bandwidth against size.")
@json_option
def command(
    topology: os.PathLike[str], sizes: str, strategies: str, rings: tuple[str, ...], time_budget: float, seed: int,
    plot: Path | None, as_json: bool, **problem: Any,
) -> None:  # fmt: skip
    """Predict what strategies take on the cluster in TOPOLOGY: time, bandwidths, percent of the bound.

    Every strategy is given the chunks per rank that suit it best at each size, unless --chunks says how many. Time
    is simulated, not measured; ring and double-tree model what NCCL does.
    """
    from hetesynth.engine.predictors import buffer_sizes

    buffers = buffer_sizes(sizes, "--sizes")
    names = [name.strip() for name in strategies.split(",") if name.strip()]
    if not names:
        raise click.BadParameter("name at least one", param_hint="--strategies")
    from hetesynth.engine.compare import compare, curves

    stated = request(topology, time_budget=time_budget, seed=seed, rings=rings, **problem)
    with watching(quiet=as_json) as progress:
        comparison = compare(stated, buffers, names, progress)
    if plot is not None:
        from hetesynth.files.atomic import write_atomically
        from hetesynth.report.size_plot import size_plot

        title = f"{comparison.topology.name}: {stated.collective}, {comparison.topology.ranks} GPUs"
        write_atomically(plot, size_plot(title, curves(comparison)).encode())
    if as_json:
        show(json.dumps(comparison.figures(), indent=2))
    else:
        show(comparison_report(comparison))
        if plot is not None:
            show(f"  wrote {plot}")


def comparison_report(comparison: Comparison) -> str:
    """Return the verdict on the quickest entries, a title and a table."""
    rows = [("size", "strategy", "time us", "algbw GB/s", "busbw GB/s", "of bound", "by")]
    for entry in comparison.entries:
        if entry.time_optimality is None or entry.time_optimality.seconds is None:
            rows.append((size_text(entry.size), entry.strategy, "-", "-", "-", "-", entry.refusal))
            continue
        figures = entry.time_optimality.figures()
        rows.append(
            (
                size_text(entry.size),
                entry.strategy,
                f"{figures['predicted_us']:,.2f}",
                f"{figures['algbw_GBps']:.2f}",
                f"{figures['busbw_GBps']:.2f}",
                f"{figures['percent_of_bound']:.1f} %",
                entry.candidate if entry.simulated else f"{entry.candidate}; its program is not simulated",
            )
        )
    costs = runtime_words(comparison.request.runtime)
    lines = [
        comparison.verdict,
        f"{comparison.topology.name}: {comparison.request.collective}, {comparison.topology.ranks} ranks",
        f"  simulated, not measured, {costs}; of bound: the least possible time / this time",
        *(f"  {line}" for line in table(rows, right=(0, 2, 3, 4, 5))),
    ]
    if comparison.cut_short:
        lines.append("  cut short: more time may find quicker ones")
    if comparison.decided_by_clock:
        lines.append(f"  {clock_line(comparison.decided_by_clock)}")
    return "\n".join(lines)
