"""Bandwidth against size as a small SVG, legible on light and dark ground."""

import math
from collections.abc import Mapping, Sequence
from html import escape

from hetesynth.model.diagnostics import visible

WIDTH = 800
COLOURS = ("#0072b2", "#d55e00", "#00795a", "#a84f86", "#9a6a00", "#2176a8", "#6a4fa3", "#5f5f5f")
ON_DARK = ("#4fb3ee", "#ff8a3d", "#2fcf9f", "#e79bc6", "#f0b93c", "#8fd0f5", "#b9a1e6", "#b5b5b5")
DASHES = ("", "7 3", "10 3 2 3", "4 2")  # so that curves are told apart without colours too
BOUND = "bound"
_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")

Curve = Sequence[tuple[float, float]]


def size_plot(title: str, curves: Mapping[str, Curve], marks: Sequence[float] = (), how: str = "simulated") -> str:
    """Return the SVG; ``marks``: sizes with a vertical line, where one schedule takes over from another."""
    points = [p for curve in curves.values() for p in curve if p[1] > 0]
    if not points:
        raise ValueError("nothing to plot")
    height, left, right, top, floor = 440, 70, WIDTH - 230, 56, 390
    x_axis = _Axis([x for x, _ in points], left, right)
    y_axis = _Axis([y for _, y in points], floor, top)
    light = "".join(f".c{k}{{stroke:{colour}}}" for k, colour in enumerate(COLOURS))
    dark = "".join(f".c{k}{{stroke:{colour}}}" for k, colour in enumerate(ON_DARK))
    style = (
        f".t{{fill:#222}}.g{{stroke:#bbb;stroke-width:.5}}.b{{stroke:#222}}{light}"
        f"@media(prefers-color-scheme:dark){{.t{{fill:#ddd}}.g{{stroke:#555}}.b{{stroke:#ddd}}{dark}}}"
    )
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        'font-family="system-ui, sans-serif" font-size="12">',
        f"<title>{text_markup(title)}</title>",
        f"<style>{style}</style>",
        f'<text class="t" x="{left}" y="22" font-size="14">{text_markup(title)}</text>',
    ]
    for x in x_axis.ticks():
        at = f"{x_axis.at(x):.1f}"
        lines.append(f'<path class="g" d="M{at} {top}V{floor}"/>')
        lines.append(f'<text class="t" x="{at}" y="{floor + 18}" text-anchor="middle">{size_label(x)}</text>')
    for y in y_axis.ticks():
        at = f"{y_axis.at(y):.1f}"
        lines.append(f'<path class="g" d="M{left} {at}H{right}"/>')
        lines.append(f'<text class="t" x="{left - 8}" y="{at}" dy="4" text-anchor="end">{y:g}</text>')
    lines.append(f'<text class="t" x="{right}" y="{height - 12}" text-anchor="end">Size of the buffer</text>')
    lines.append(f'<text class="t" x="{left}" y="{top - 8}">GB/s of algorithm bandwidth, {how}</text>')
    lines += [
        f'<path class="g" stroke-dasharray="3 3" stroke-width="1" d="M{x_axis.at(m):.1f} {top}V{floor}"/>'
        for m in marks
    ]
    for number, (name, curve) in enumerate(curves.items()):
        path = "L".join(f"{x_axis.at(x):.1f} {y_axis.at(y):.1f}" for x, y in curve if y > 0)
        if not path:
            continue
        look = 'class="b" stroke-dasharray="1 3" stroke-width="1.5"'
        if name != BOUND:
            dash = DASHES[(number + number // len(COLOURS)) % len(DASHES)]
            look = f'class="c{number % len(COLOURS)}" stroke-width="2"'
            look += f' stroke-dasharray="{dash}"' if dash else ""
        column, row = right + 14, top + 14 + 18 * number
        lines += [
            f'<path fill="none" {look} d="M{path}"><title>{text_markup(name)}</title></path>',
            f'<path fill="none" {look} d="M{column} {row - 4}h24"/>',
            f'<text class="t" x="{column + 30}" y="{row}">{text_markup(name[:32])}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])


class _Axis:
    """A logarithmic axis from pixel ``first`` to ``last``, with a tenth of room on both sides of ``values``."""

    def __init__(self, values: Sequence[float], first: float, last: float) -> None:
        self.low, self.high = math.log10(min(values) / 1.1), math.log10(max(values) * 1.1)
        self.first, self.last = first, last

    def at(self, value: float) -> float:
        """Return the pixel of ``value``."""
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return self.first + share * (self.last - self.first)

    def ticks(self) -> list[float]:
        """Return the powers of ten on the axis; if there are fewer than two, also 2 and 5 times powers of ten."""
        exponents = range(math.floor(self.low), math.ceil(self.high) + 1)
        tens = [10.0**e for e in exponents if self.low <= e <= self.high]
        some = [m * 10.0**e for e in exponents for m in (1, 2, 5)]
        return tens if len(tens) > 1 else [value for value in some if self.low <= math.log10(value) <= self.high]


def size_label(size: float) -> str:
    """Return ``size`` for an axis, in powers of 1000: ``64 KB``."""
    unit = min(len(_UNITS) - 1, max(0, round(math.log10(size)) // 3))
    return f"{size / 1000**unit:g} {_UNITS[unit]}"


def text_markup(text: str) -> str:
    """Return ``text`` as markup; control characters and lone surrogates are shown escaped."""
    return escape(visible(text))
