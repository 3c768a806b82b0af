"""``hetesynth simulate``: what a schedule or a program takes, size by size."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click

from hetesynth.cli.losses import topology_losses
from hetesynth.cli.options import (
    TOPOLOGY,
    buffer_sizes,
    json_option,
    report_options,
    runtime_costs_option,
    sizes_option,
)
from hetesynth.cli.terminal import show
from hetesynth.model.calibration import CALIBRATION_NAMES
from hetesynth.model.cost import ALPHA_READINGS
from hetesynth.model.runtime_costs import NCCL_TABLES
from hetesynth.model.target import PORTABLE, target


@click.command(name="simulate", short_help="Predict the time of a schedule or a program.")
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("topology", type=TOPOLOGY)
@topology_losses
@sizes_option("--size", "Of the collective's buffer", 4)
@click.option(
    "--calibration", type=click.Choice(CALIBRATION_NAMES),
    help="measured: rates that published runs reach, the default with runtime costs; spec: the figures of the "
    "topology, the default without; nccl: derated as NCCL does; raw: signalling rates, no overheads.",
)  # fmt: skip
@click.option(
    "--alpha", type=click.Choice(ALPHA_READINGS), default="overlap", show_default=True,
    help="Whether alpha is a pure delay or holds the link.",
)  # fmt: skip
@click.option(
    "--steps", type=click.Choice(["data", "order", "barrier"]), default="order", show_default=True,
    help="What a transfer of a schedule waits for: its data, earlier steps on its wires too, or all of them.",
)  # fmt: skip
@click.option(
    "--target", "name", default=PORTABLE.name, show_default=True, metavar="NAME",
    help="Whose messages an MSCCL XML has; those of portable are the shortest.",
)  # fmt: skip
@runtime_costs_option
@report_options
@json_option
def command(
    file: Path,
    topology: os.PathLike[str],
    sizes: str,
    page: Path | None,
    trace: Path | None,
    name: str,
    as_json: bool,
    runtime_costs: bool,
    **options: Any,
) -> None:
    """Predict what FILE, a schedule JSON, MSCCL XML or MSCCL++ plan, takes on the cluster in TOPOLOGY.

    Links are shared max-min fairly on the physical graph. Of a program, thread blocks, channels, FIFO slots and
    the loops over a large buffer are simulated, and what a runtime costs: the start of a kernel and the rate at
    which a thread block copies, by NCCL's and RCCL's tables (never with calibration raw). Bandwidths follow
    nccl-tests: algorithm bandwidth is size / time, bus bandwidth that times the factor of the collective. Time is
    simulated, not measured.
    """
    buffers, runtime = buffer_sizes(sizes, "--size"), target(name)
    from hetesynth.cli.render.simulate import simulation_report, simulation_summary
    from hetesynth.engine.predictors import CostOptions
    from hetesynth.engine.simulate import simulate_file

    costs = CostOptions(**options, runtime=NCCL_TABLES if runtime_costs else None)
    written: list[Path] = []
    if page is not None or trace is not None:
        from hetesynth.engine.page.report import check_reports, report_of_file, write_reports

        check_reports(page, trace)
        written = write_reports(report_of_file(file, topology, buffers, costs, target=runtime), page, trace)
    simulation = simulate_file(file, topology, buffers, costs, runtime)
    if as_json:
        show(json.dumps(simulation_summary(simulation), indent=2))
    else:
        show("\n".join([simulation_report(simulation), *(f"  wrote {path}" for path in written)]))
