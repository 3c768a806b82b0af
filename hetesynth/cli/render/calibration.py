"""A calibration as text and as JSON."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from hetesynth.topology.calibrate.calibrate_topology import Calibrated
from hetesynth.topology.calibrate.fit import Figure

_MOST_POINTS = 40


def calibration_report(result: Calibrated, stated: tuple[float, float], written: str | None) -> Iterator[str]:
    """Figures with their uncertainty, points with their differences, what was written."""
    fit = result.fit
    yield f"{result.topology.name}: {result.links.title}, {len(result.links.links)} links"
    yield f"  alpha    {_figure(fit.alpha, 1e6, 'us')}, stated {stated[0] * 1e6:g} us"
    yield f"  rate     {_figure(fit.rate, 1e-9, 'GB/s')}, stated {stated[1] / 1e9:g} GB/s"
    if fit.reduce is not None:
        yield f"  reduce   {_figure(fit.reduce, 1e-9, 'GB/s')}"
    if fit.floor is not None:
        yield f"  floor    {_figure(fit.floor, 1e6, 'us')}: nothing ends sooner (not written: no figure of a link)"
    if result.copy is not None:
        yield f"  copy     {_figure(result.copy, 1e-9, 'GB/s')} of one thread block; the links could do more"
    yield f"  {len(fit.residuals)} points, spread {fit.spread:.1%}, {fit.outliers} outliers"
    predicted = result.mean_off(used=False)
    if predicted is not None:
        worst = max(abs(point.off) for point in result.points if not point.used)
        yield f"  kept from the fit and predicted: {predicted:.1%} off on average, {worst:.1%} at most"
    yield from (f"  note: {remark}" for remark in result.remarks)
    yield from _table(result)
    yield f"wrote {written}" if written else "nothing is written: add -o FILE"


def _figure(figure: Figure, factor: float, unit: str) -> str:
    shown = f"{figure.value * factor:.4g} {unit}"
    if figure.stated:
        return f"{shown} (as stated)"
    return f"{shown} +- {figure.error:.1%}" if figure.error < 1 else f"cannot be told, perhaps {shown}"


def _table(result: Calibrated) -> Iterator[str]:
    if len(result.points) > _MOST_POINTS:
        return
    yield "  size          measured us   predicted us      off"
    for point in result.points:
        mark = "" if point.used else "  predicted"
        times = f"{point.measured * 1e6:12.2f} {point.predicted * 1e6:14.2f}"
        yield f"  {point.size:<12.0f} {times} {point.off:+8.1%}{mark}"


def calibration_document(result: Calibrated, written: str | None) -> dict[str, Any]:
    """The same for programs: seconds, bytes per second, shares."""
    fit = result.fit
    figures = {"alpha": fit.alpha, "rate": fit.rate, "reduce": fit.reduce, "floor": fit.floor, "copy": result.copy}
    return {
        "cluster": result.topology.name,
        "class": result.links.title,
        "figures": {
            name: {
                "value": figure.value,
                "error": figure.error if figure.error < float("inf") else None,
                "stated": figure.stated,
            }
            for name, figure in figures.items()
            if figure is not None
        },
        "spread": fit.spread,
        "outliers": fit.outliers,
        "mean_off_fitted": result.mean_off(used=True),
        "mean_off_predicted": result.mean_off(used=False),
        "remarks": list(result.remarks),
        "points": [
            {
                "series": point.series,
                "size": point.size,
                "measured": point.measured,
                "predicted": point.predicted,
                "fitted": point.used,
            }
            for point in result.points
        ],
        "output": written,
    }


def residual_series(result: Calibrated) -> dict[str, list[tuple[float, float]]]:
    """Percent off by size, for the picture."""
    series: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for point in result.points:
        title = point.series if point.used else f"{point.series} (predicted)"
        series[title].append((point.size, 100 * point.off))
    return dict(series)
