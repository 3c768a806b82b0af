"""Predictions as a table and as plain values for JSON.

In: results of commands.simulate, by their attributes. Out: strings and dictionaries. Decides nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hetesynth.model.cost import costed
from hetesynth.model.words import runtime_words, size_text

if TYPE_CHECKING:
    from hetesynth.engine.predictors import Prediction
    from hetesynth.engine.simulate import FilePredictions
    from hetesynth.model.runtime_costs import RuntimeCosts

_COLUMNS = ("size", "time us", "algbw GB/s", "busbw GB/s", "used", "bottleneck")


def simulation_summary(simulation: FilePredictions) -> dict[str, Any]:
    """The object ``simulate --json`` prints. Scripts depend on these names."""
    return {
        "file": str(simulation.path),
        "kind": simulation.kind,
        "cluster": simulation.topology.name,
        "losses": list(simulation.topology.notes),
        "collective": simulation.predictions[0].collective,
        "ranks": simulation.topology.ranks,
        "calibration": simulation.options.rates,
        "runtime_costs": _runtime(simulation) is not None,
        "alpha": simulation.options.alpha,
        "steps": simulation.options.steps if simulation.kind == "schedule" else None,
        "results": [prediction_summary(p) for p in simulation.predictions],
        "seconds_by_phase": {name: round(value, 3) for name, value in simulation.spent.items()},
    }


def _runtime(simulation: FilePredictions) -> RuntimeCosts | None:
    return costed(simulation.options.runtime, simulation.options.rates)


def prediction_summary(p: Prediction) -> dict[str, Any]:
    """One prediction: microseconds, and 10^9 bytes per second."""
    bottleneck = p.bottleneck
    return {
        "size": p.size,
        "predicted_us": p.seconds * 1e6,
        "algbw_GBps": p.algorithm_bandwidth / 1e9,
        "busbw_GBps": p.bus_bandwidth / 1e9,
        "bottleneck": None if bottleneck is None else bottleneck.name,
        "utilization": None if bottleneck is None else bottleneck.share,
        "unsteady": p.unsteady,
    }


def simulation_report(simulation: FilePredictions) -> str:
    """A title and a table."""
    first, options = simulation.predictions[0], simulation.options
    file = f"{simulation.kind} {simulation.path.name}"
    title = f"{simulation.topology.name}: {first.collective}, {first.ranks} ranks, {file}"
    steps = f", steps {options.steps}" if simulation.kind == "schedule" else ""
    costs = runtime_words(_runtime(simulation))
    lines = [title, f"  simulated, calibration {options.rates}, {costs}, alpha {options.alpha}{steps}"]
    rows = [_COLUMNS, *(_row(p) for p in simulation.predictions)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_COLUMNS) - 1)]
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row[:-1], widths, strict=True)]
        lines.append("  " + "  ".join([*cells, row[-1]]))
    unsteady = max(p.unsteady for p in simulation.predictions)
    if unsteady > 0.001:
        lines.append(f"  some loops over large buffers are extrapolated; their lengths differ by {unsteady:.1%}")
    return "\n".join(lines)


def _row(p: Prediction) -> tuple[str, ...]:
    bottleneck = p.bottleneck
    return (
        size_text(p.size),
        f"{p.seconds * 1e6:,.2f}",
        f"{p.algorithm_bandwidth / 1e9:.2f}",
        f"{p.bus_bandwidth / 1e9:.2f}",
        "-" if bottleneck is None else f"{bottleneck.share:.0%}",
        "-" if bottleneck is None else bottleneck.name,
    )
