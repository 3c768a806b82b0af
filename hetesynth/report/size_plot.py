"""Bandwidth against size as a small SVG: logarithmic both ways, legible on light and dark ground."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

from hetesynth.model.diagnostics import visible

WIDTH, HEIGHT = 800, 440
LEFT, RIGHT, TOP, BOTTOM = 70, 230, 56, 50
COLOURS = ("#0072b2", "#d55e00", "#00795a", "#a84f86", "#9a6a00", "#2176a8", "#6a4fa3", "#5f5f5f")
ON_DARK = ("#4fb3ee", "#ff8a3d", "#2fcf9f", "#e79bc6", "#f0b93c", "#8fd0f5", "#b9a1e6", "#b5b5b5")
DASHES = ("", "7 3", "10 3 2 3", "4 2")  # so that curves are told apart without colours too
BOUND = "bound"
_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")

Curve = Sequence[tuple[int, float]]


def size_plot(title: str, curves: Mapping[str, Curve], marks: Sequence[int] = ()) -> str:
    """The picture; ``marks``: sizes with a vertical line, where one schedule takes over from another."""
    points = [p for curve in curves.values() for p in curve if p[1] > 0]
    if not points:
        raise ValueError("nothing to plot")
    floor = HEIGHT - BOTTOM
    x_axis = _Axis([x for x, _ in points], LEFT, WIDTH - RIGHT)
    y_axis = _Axis([y for _, y in points], floor, TOP)
    right = WIDTH - RIGHT
    light = "".join(f".c{k}{{stroke:{colour}}}" for k, colour in enumerate(COLOURS))
    dark = "".join(f".c{k}{{stroke:{colour}}}" for k, colour in enumerate(ON_DARK))
    style = (
        f".t{{fill:#222}}.g{{stroke:#bbb;stroke-width:.5}}.b{{stroke:#222}}{light}"
        f"@media(prefers-color-scheme:dark){{.t{{fill:#ddd}}.g{{stroke:#555}}.b{{stroke:#ddd}}{dark}}}"
    )
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="12">',
        f"<title>{text_markup(title)}</title>",
        f"<style>{style}</style>",
        f'<text class="t" x="{LEFT}" y="22" font-size="14">{text_markup(title)}</text>',
    ]
    for x in x_axis.ticks():
        at = f"{x_axis.at(x):.1f}"
        lines.append(f'<path class="g" d="M{at} {TOP}V{floor}"/>')
        lines.append(f'<text class="t" x="{at}" y="{floor + 18}" text-anchor="middle">{size_label(x)}</text>')
    for y in y_axis.ticks():
        at = f"{y_axis.at(y):.1f}"
        lines.append(f'<path class="g" d="M{LEFT} {at}H{right}"/>')
        lines.append(f'<text class="t" x="{LEFT - 8}" y="{at}" dy="4" text-anchor="end">{y:g}</text>')
    lines.append(f'<text class="t" x="{right}" y="{HEIGHT - 12}" text-anchor="end">Size of the buffer</text>')
    lines.append(f'<text class="t" x="{LEFT}" y="{TOP - 8}">GB/s of algorithm bandwidth, simulated</text>')
    lines += [
        f'<path class="g" stroke-dasharray="3 3" stroke-width="1" d="M{x_axis.at(m):.1f} {TOP}V{floor}"/>'
        for m in marks
    ]
    for number, (name, curve) in enumerate(curves.items()):
        lines += _curve(number, name, [(x_axis.at(x), y_axis.at(y)) for x, y in curve if y > 0])
    return "\n".join([*lines, "</svg>", ""])


class _Axis:
    """Logarithms of ``values``, with a tenth of room on both sides, on pixels ``first`` to ``last``."""

    def __init__(self, values: Sequence[float], first: float, last: float) -> None:
        self.low, self.high = math.log10(min(values) / 1.1), math.log10(max(values) * 1.1)
        self.first, self.last = first, last

    def at(self, value: float) -> float:
        """Pixels of ``value``."""
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return self.first + share * (self.last - self.first)

    def ticks(self) -> list[float]:
        """Powers of ten within; where there are fewer than two, 1, 2 and 5 times these."""
        exponents = range(math.floor(self.low), math.ceil(self.high) + 1)
        tens = [10.0**e for e in exponents if self.low <= e <= self.high]
        if len(tens) > 1:
            return tens
        return [
            m * 10.0**e for e in exponents for m in (1, 2, 5) if self.low <= math.log10(m * 10.0**e) <= self.high
        ]


def _curve(number: int, name: str, points: Sequence[tuple[float, float]]) -> list[str]:
    if not points:
        return []
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    y = TOP + 14 + 18 * number
    x = WIDTH - RIGHT + 14
    if name == BOUND:
        style = 'class="b" stroke-dasharray="1 3" stroke-width="1.5"'
    else:
        dash = DASHES[(number + number // len(COLOURS)) % len(DASHES)]
        style = f'class="c{number % len(COLOURS)}" stroke-width="2"' + (
            f' stroke-dasharray="{dash}"' if dash else ""
        )
    return [
        f'<path fill="none" {style} d="{path}"><title>{text_markup(name)}</title></path>',
        f'<path fill="none" {style} d="M{x} {y - 4}h24"/>',
        f'<text class="t" x="{x + 30}" y="{y}">{text_markup(name[:32])}</text>',
    ]


def size_label(size: float) -> str:
    """``64 KB``, in powers of 1000: for an axis."""
    unit = min(len(_UNITS) - 1, max(0, round(math.log10(size)) // 3))
    return f"{size / 1000**unit:g} {_UNITS[unit]}"


def text_markup(text: str) -> str:
    """``text`` as markup; control characters and lone surrogates are shown escaped."""
    return escape(visible(text))
