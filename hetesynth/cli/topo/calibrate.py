"""``hetesynth topo calibrate``: figures of links from measurements."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from hetesynth.cli.options import TOPOLOGY, buffer_size, json_option
from hetesynth.cli.terminal import show, show_lines
from hetesynth.errors import HetesynthError
from hetesynth.topology.calibrate.measurements import ALGORITHMS, OPERATIONS


@click.command(name="calibrate", short_help="Fit latencies and rates to measurements.")
@click.argument("topology", type=TOPOLOGY)
@click.argument("measurements", nargs=-1, required=True, type=click.Path(path_type=Path))
@click.option("--class", "link_class", metavar="KIND[@RATE]", help="The links that were measured, such as nvlink.")
@click.option("--operation", type=click.Choice(OPERATIONS), help="What was timed, where the file does not say.")
@click.option("--algorithm", type=click.Choice(ALGORITHMS), help="How the collective moved [default: ring].")
@click.option(
    "--ranks", type=click.IntRange(2, 1 << 20), help="Ranks of the collective, where the file does not say."
)
@click.option(
    "--channels", type=click.IntRange(1, 64),
    help="The program had so many channels (NCCL_MAX_NCHANNELS): fit what one thread block copies.",
)  # fmt: skip
@click.option("--sizes", metavar="SIZE..SIZE", help="Use the points in this range only.")
@click.option("--start", metavar="TIME", help="Before a collective moves anything [default: NCCL's table].")
@click.option("--hold-out", type=click.IntRange(2, 100), help="Keep every Nth size from the fit and predict it.")
@click.option("-o", "--output", type=click.Path(path_type=Path), help="The topology with the figures.")
@click.option("--plot", type=click.Path(path_type=Path), metavar="FILE.svg", help="The differences as a picture.")
@click.option("--dry-run", is_flag=True, help="Print, and write nothing.")
@json_option
def command(
    topology: Path,
    measurements: tuple[Path, ...],
    sizes: str | None,
    start: str | None,
    output: Path | None,
    plot: Path | None,
    dry_run: bool,
    as_json: bool,
    **stated: Any,
) -> None:
    """Fit alpha, the rate and the reduction's rate of a class of links in TOPOLOGY to MEASUREMENTS.

    Reads the output of nccl-tests, rccl-tests, OSU, perftest (ib_write_bw, ib_write_lat), nvbandwidth (JSON), and
    CSV (size,us). The formulas are in docs/calibration.md. With -o the topology is written again with the fitted
    figures and a comment that says where each came from.
    """
    from hetesynth.cli.render.calibration import calibration_document, calibration_report, residual_series
    from hetesynth.files.atomic import write_all
    from hetesynth.report.residual_plot import residual_plot
    from hetesynth.topology.calibrate.calibrate_topology import CalibrationRequest, calibrate

    request = CalibrationRequest(topology, measurements, sizes=_range(sizes), start=_start(start), **stated)
    result = calibrate(request)
    files: dict[Path, bytes] = {}
    if output is not None:
        files[output] = result.text.encode()
    if plot is not None:
        title = f"{result.topology.name}: {result.links.title}"
        files[plot] = residual_plot(title, residual_series(result)).encode()
    if files and not dry_run:
        write_all(files)
    shown = ", ".join(map(str, files)) if files and not dry_run else None
    if as_json:
        show(json.dumps(calibration_document(result, shown), indent=2))
    else:
        show_lines(calibration_report(result, (float(result.links.alpha), float(result.links.rate)), shown))


def _start(text: str | None) -> float | None:
    """Seconds; nothing at all may be written with any unit or none."""
    if text is None or text.rstrip("munsµ ") == "0":
        return None if text is None else 0.0
    from hetesynth.topology.language.quantity import parse_quantity

    return float(parse_quantity(text, "time", "--start"))


def _range(text: str | None) -> tuple[float, float] | None:
    if text is None:
        return None
    low, dots, high = text.partition("..")
    if not dots:
        raise HetesynthError("--sizes takes a range", code="HS001", help="write it like 64KB..1GB")
    least, most = buffer_size(low, "--sizes"), buffer_size(high, "--sizes")
    if most < least:
        raise HetesynthError("--sizes ends before it begins", code="HS001", help="write the smaller size first")
    return float(least), float(most)
