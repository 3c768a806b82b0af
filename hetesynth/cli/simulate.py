"""``hetesynth simulate``: what a schedule or a program takes, size by size."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hetesynth import api
from hetesynth.cli import options as shared
from hetesynth.cli.terminal import answer
from hetesynth.model.calibration import CALIBRATION_NAMES
from hetesynth.model.cost import costed
from hetesynth.model.target import PORTABLE
from hetesynth.model.words import size_text, table

if TYPE_CHECKING:
    from hetesynth.engine.simulate import FilePredictions

_CALIBRATION = (
    "measured: rates that published runs reach, the default with runtime costs; spec: the figures of the "
    "topology, the default without; nccl: derated as NCCL does; raw: signalling rates, no overheads."
)


@click.command(name="simulate")
@click.argument("file", type=shared.FILE)
@click.argument("topology", type=shared.FILE)
@shared.topology_losses
@shared.sizes_option("--size", "Of the collective's buffer", 4)
@click.option("--calibration", type=click.Choice(CALIBRATION_NAMES), help=_CALIBRATION)
@click.option("--target", default=PORTABLE.name, metavar="NAME", help="Whose messages an MSCCL XML has.")
@shared.runtime_costs_option
@shared.report_options
@shared.json_option
def command(
    file: Path,
    topology: os.PathLike[str],
    sizes: str,
    page: Path | None,
    trace: Path | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Predict what FILE, a schedule JSON, MSCCL XML or MSCCL++ plan, takes on the cluster in TOPOLOGY.

    Links are shared max-min fairly on the physical graph. Of a program, thread blocks, channels, FIFO slots and
    the loops over a large buffer are simulated, and what a runtime costs: the start of a kernel and the rate at
    which a thread block copies, by NCCL's and RCCL's tables (never with calibration raw). Bandwidths follow
    nccl-tests: algorithm bandwidth is size / time, bus bandwidth that times the factor of the collective. Time is
    simulated, not measured.
    """
    simulation = api.simulate(file, topology, sizes, page=page, trace=trace, **options)
    document = simulation_summary(simulation)
    written = (f"  wrote {path}" for path in (page, trace) if path)
    answer(document, [*simulation_lines(document), *written], as_json=as_json)


def simulation_summary(simulation: FilePredictions) -> dict[str, Any]:
    """Return the object ``simulate --json`` prints: microseconds, and 10^9 bytes per second."""
    options = simulation.options
    return {
        "file": str(simulation.path),
        "kind": simulation.kind,
        "cluster": simulation.topology.name,
        "losses": list(simulation.topology.notes),
        "collective": simulation.predictions[0].collective,
        "ranks": simulation.topology.ranks,
        "calibration": options.rates,
        "runtime_costs": costed(options.runtime, options.rates) is not None,
        "results": [
            {
                "size": p.size,
                "predicted_us": p.seconds * 1e6,
                "algbw_GBps": p.algorithm_bandwidth / 1e9,
                "busbw_GBps": p.bus_bandwidth / 1e9,
                "bottleneck": None if p.bottleneck is None else p.bottleneck.name,
                "utilization": None if p.bottleneck is None else p.bottleneck.share,
                "unsteady": p.unsteady,
            }
            for p in simulation.predictions
        ],
        "seconds_by_phase": {name: round(value, 3) for name, value in simulation.spent.items()},
    }


def simulation_lines(document: dict[str, Any]) -> Iterator[str]:
    """Yield a title and a table with a row for each size."""
    costs = "counted" if document["runtime_costs"] else "left out"
    rows = [("size", "time us", "algbw GB/s", "busbw GB/s", "used", "bottleneck")]
    for p in document["results"]:
        time, rates = f"{p['predicted_us']:,.2f}", (f"{p['algbw_GBps']:.2f}", f"{p['busbw_GBps']:.2f}")
        used = "-" if p["utilization"] is None else f"{p['utilization']:.0%}"
        rows.append((size_text(p["size"]), time, *rates, used, p["bottleneck"] or "-"))
    what = f"{document['ranks']} ranks, {document['kind']} {Path(document['file']).name}"
    yield f"{document['cluster']}: {document['collective']}, {what}"
    calibration = f"calibration {document['calibration']}, runtime costs {costs}"
    yield f"  simulated, {calibration}"
    yield from table(rows, right=range(5), indent="  ")
    unsteady = max(p["unsteady"] for p in document["results"])
    if unsteady > 0.001:
        yield f"  some loops over large buffers are extrapolated; their lengths differ by {unsteady:.1%}"
