"""The plot of bandwidth against size: every curve on it, told apart, in either scheme, hostile names as text."""

from __future__ import annotations

import math
import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest

from hetesynth.report.size_plot import COLOURS, DASHES, ON_DARK, size_plot

SVG = "{http://www.w3.org/2000/svg}"
SIZES = [1000 * 4**k for k in range(11)]


def drawn(count: int) -> ElementTree.Element:
    curves = {f"way <{k}>": [(size, size / (1 + k + size / 1000)) for size in SIZES] for k in range(count)}
    curves["bound"] = [(size, 2 * size / (1 + size / 1000)) for size in SIZES]
    return ElementTree.fromstring(size_plot("a & b", curves, [5000]))


def test_every_curve_has_a_look_of_its_own_and_its_name() -> None:
    paths = [p for p in drawn(32).iter(f"{SVG}path") if p.find(f"{SVG}title") is not None]
    looks = {(p.get("class"), p.get("stroke-dasharray")) for p in paths}
    assert len(paths) == 33 == len(looks)
    names = {t.text for t in drawn(32).iter(f"{SVG}text")}
    assert {f"way <{k}>" for k in range(32)} | {"bound", "a & b"} <= names


def test_neighbours_differ_without_colours() -> None:
    paths = [p for p in drawn(8).iter(f"{SVG}path") if p.find(f"{SVG}title") is not None]
    assert all(a.get("stroke-dasharray") != b.get("stroke-dasharray") for a, b in pairwise(paths))
    assert len(DASHES) == 4


def luminance(colour: str) -> float:
    parts = (int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5))
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize(("colours", "ground"), [(COLOURS, "#ffffff"), (ON_DARK, "#0d1117")])
def test_curves_stand_out_from_the_ground(colours: tuple[str, ...], ground: str) -> None:
    """WCAG asks for 3:1 of graphics."""
    for colour in colours:
        low, high = sorted((luminance(colour), luminance(ground)))
        assert (high + 0.05) / (low + 0.05) >= 3
    assert len(COLOURS) == len(ON_DARK)


def test_a_curve_rises_where_its_bandwidth_does() -> None:
    path = next(p for p in drawn(1).iter(f"{SVG}path") if p.find(f"{SVG}title") is not None)
    points = [tuple(map(float, p)) for p in re.findall(r"([\d.]+) ([\d.]+)", path.get("d") or "")]
    assert len(points) == len(SIZES)
    steps = {round(b[0] - a[0], 0) for a, b in pairwise(points)}
    assert len(steps) <= 2 and math.isclose(sum(steps) / len(steps), points[1][0] - points[0][0], abs_tol=1)
    assert points[0][1] > points[4][1] and all(b[1] <= a[1] for a, b in pairwise(points))


def test_nothing_is_not_plotted() -> None:
    with pytest.raises(ValueError, match="nothing to plot"):
        size_plot("x", {"a": [(1000, 0.0)]})
