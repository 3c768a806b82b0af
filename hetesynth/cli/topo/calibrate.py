"""``hetesynth topo calibrate``: figures of links from measurements."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, astuple, replace
from pathlib import Path
from typing import Any

import click

from hetesynth.api import size_of
from hetesynth.cli.options import FILE, json_option
from hetesynth.cli.terminal import answer
from hetesynth.errors import HetesynthError
from hetesynth.files.atomic import write_all
from hetesynth.library.machine import machine_of
from hetesynth.library.times import chosen
from hetesynth.model.words import table
from hetesynth.report.size_plot import size_plot
from hetesynth.topology.calibrate.calibrate_topology import Calibrated, CalibrationRequest, calibrate
from hetesynth.topology.calibrate.fit import ALGORITHMS, Figure
from hetesynth.topology.calibrate.readers import OPERATIONS
from hetesynth.topology.language.units import parse_quantity

MOST_POINTS = 40
_CHANNELS = "The program had so many channels (NCCL_MAX_NCHANNELS): fit what one thread block copies."
_RANKS = "Ranks of the collective, where the file does not say."


@click.command(name="calibrate")
@click.argument("topology", type=FILE)
@click.argument("measurements", nargs=-1, required=True, type=FILE)
@click.option("--class", "link_class", metavar="KIND[@RATE]", help="The links that were measured, such as nvlink.")
@click.option("--operation", type=click.Choice(OPERATIONS), help="What was timed, where the file does not say.")
@click.option("--algorithm", type=click.Choice(ALGORITHMS), help="How the collective moved [default: ring].")
@click.option("--ranks", type=click.IntRange(2, 1 << 20), help=_RANKS)
@click.option("--channels", type=click.IntRange(1, 64), help=_CHANNELS)
@click.option("--sizes", metavar="SIZE..SIZE", help="Use the points in this range only.")
@click.option("--start", metavar="TIME", help="Before a collective moves anything [default: NCCL's table].")
@click.option("--hold-out", type=click.IntRange(2, 100), help="Keep every Nth size from the fit and predict it.")
@click.option("-o", "--output", type=FILE, help="The topology with the figures.")
@click.option("--plot", type=FILE, metavar="FILE.svg", help="Measured and predicted as a picture.")
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
    seconds = None if start is None else 0.0
    if start is not None and start.rstrip("munsµ ") != "0":  # nothing at all may be written with any unit or none
        seconds = float(parse_quantity(start, "time", "--start"))
    between = None
    if sizes is not None:
        low, dots, high = sizes.partition("..")
        between = (float(size_of(low, "--sizes")), float(size_of(high, "--sizes"))) if dots else (1.0, 0.0)
        if between[1] < between[0]:
            help_ = "write it like 64KB..1GB, the smaller size first"
            raise HetesynthError("--sizes takes a range", code="HS001", help=help_)
    result = calibrate(CalibrationRequest(topology, measurements, sizes=between, start=seconds, **stated))
    if stated["algorithm"] is None:
        _demand_rings(result)
    files: dict[Path, bytes] = {}
    if output is not None:
        files[output] = result.text.encode()
    if plot is not None:
        curves: dict[str, list[tuple[float, float]]] = defaultdict(list)
        for point in sorted(result.points, key=lambda point: point.size):
            curves[f"{point.series}, measured"].append((point.size, point.size / point.measured / 1e9))
            curves[f"{point.series}, predicted"].append((point.size, point.size / point.predicted / 1e9))
        title = f"{result.topology.name}: {result.links.title}"
        files[plot] = size_plot(title, curves, how="measured and predicted").encode()
    if dry_run:
        files = {}
    write_all(files)
    written = ", ".join(map(str, files)) or None
    answer(calibration_document(result, written), calibration_report(result, written), as_json=as_json)


def _demand_rings(result: Calibrated) -> None:
    """Raise HetesynthError HS849 if the library does an allreduce of one or two nodes by its switches or trees.

    Switches and trees carry other bytes than the fitted rings; from three nodes on the NICs carry the same.
    """
    machine = machine_of(result.topology)
    for series in result.series:
        if machine is None or series.operation != "allreduce" or series.ranks is None:
            continue
        gpus = min(series.ranks, machine.nodes[0].gpus)
        count = -(-series.ranks // gpus)
        if count > 2 or (count == 2 and not machine.nodes[0].nics):
            continue
        ran = replace(machine, nodes=(replace(machine.nodes[0], gpus=gpus),) * count)
        algorithm = chosen(ran, "allreduce", int(max(point.size for point in series.points))).algorithm
        if algorithm != "Ring":
            what = (
                f"{series.title}: an allreduce of {series.ranks} such GPUs goes by {algorithm}, not along rings, "
            )
            what += f"and does not tell what {result.links.title} carries"
            help_ = "measure all_gather or reduce_scatter, or run with NCCL_ALGO=Ring and say --algorithm ring"
            raise HetesynthError(what, code="HS849", help=help_)


def calibration_report(result: Calibrated, written: str | None) -> Iterator[str]:
    """Yield the figures with their uncertainty, the points with their differences, and what was written."""
    fit, links = result.fit, result.links
    yield f"{result.topology.name}: {links.title}, {len(links.links)} links"
    yield f"  alpha    {_figure(fit.alpha, 1e6, 'us')}, stated {float(links.alpha) * 1e6:g} us"
    yield f"  rate     {_figure(fit.rate, 1e-9, 'GB/s')}, stated {float(links.rate) / 1e9:g} GB/s"
    if fit.reduce is not None:
        yield f"  reduce   {_figure(fit.reduce, 1e-9, 'GB/s')}"
    if fit.floor is not None:
        yield f"  floor    {_figure(fit.floor, 1e6, 'us')}: nothing ends sooner (not written: no figure of a link)"
    if result.copy is not None:
        yield f"  copy     {_figure(result.copy, 1e-9, 'GB/s')} of one thread block; the links could do more"
    yield f"  {len(fit.residuals)} points, spread {fit.spread:.1%}, {fit.outliers} outliers"
    predicted = result.mean_off(used=False)
    if predicted is not None:
        yield f"  kept from the fit and predicted: {predicted:.1%} off on average"
    yield from (f"  note: {remark}" for remark in result.remarks)
    rows = [("size", "measured us", "predicted us", "off", "")]
    for point in result.points:
        times = f"{point.measured * 1e6:.2f}", f"{point.predicted * 1e6:.2f}", f"{point.off:+.1%}"
        rows.append((f"{point.size:.0f}", *times, "" if point.used else "predicted"))
    yield from table(rows, right=(1, 2, 3), indent="  ") if len(result.points) <= MOST_POINTS else ()
    yield f"wrote {written}" if written else "nothing is written: add -o FILE"


def _figure(figure: Figure, factor: float, unit: str) -> str:
    shown = f"{figure.value * factor:.4g} {unit}"
    if figure.stated:
        return f"{shown} (as stated)"
    return f"{shown} +- {figure.error:.1%}" if figure.error < 1 else f"cannot be told, perhaps {shown}"


def calibration_document(result: Calibrated, written: str | None) -> dict[str, Any]:
    """Return the object of ``topo calibrate --json``: seconds, bytes per second, shares."""
    fit = result.fit
    figures = {"alpha": fit.alpha, "rate": fit.rate, "reduce": fit.reduce, "floor": fit.floor, "copy": result.copy}
    return {
        "cluster": result.topology.name,
        "class": result.links.title,
        "figures": {
            name: asdict(figure) | ({"error": None} if figure.error == float("inf") else {})
            for name, figure in figures.items()
            if figure is not None
        },
        "spread": fit.spread,
        "outliers": fit.outliers,
        "mean_off_fitted": result.mean_off(used=True),
        "mean_off_predicted": result.mean_off(used=False),
        "remarks": list(result.remarks),
        "points": [
            dict(zip(("series", "size", "measured", "predicted", "fitted"), astuple(point), strict=True))
            for point in result.points
        ],
        "output": written,
    }
