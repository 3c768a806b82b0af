"""Measured against predicted times as a small SVG: sizes on a logarithmic axis, differences in percent."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from hetesynth.report.size_plot import size_label, text_markup

WIDTH, HEIGHT = 800, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 250, 48, 46
COLOURS = ("#0072b2", "#d55e00", "#00795a", "#a84f86", "#9a6a00", "#6a4fa3")
_LEAST_RANGE = 5.0  # percent, so that a good fit looks like one

Points = Sequence[tuple[float, float]]


def residual_plot(title: str, series: Mapping[str, Points]) -> str:
    """The picture. Percent above zero: it took longer than predicted."""
    points = [p for of_one in series.values() for p in of_one]
    if not points:
        raise ValueError("nothing to plot")
    low, high = math.log10(min(x for x, _ in points)), math.log10(max(x for x, _ in points))
    low, high = (low, high) if high > low else (low - 0.5, high + 0.5)
    most = max(_LEAST_RANGE, *(abs(y) for _, y in points)) * 1.05

    def across(size: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (math.log10(size) - low) / (high - low)

    def down(percent: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (most - percent) / (2 * most)

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="12">',
        f"<title>{text_markup(title)}</title>",
        "<style>.t{fill:#222}.g{stroke:#bbb;stroke-width:.5}.z{stroke:#555}"
        "@media(prefers-color-scheme:dark){.t{fill:#ddd}.g{stroke:#555}.z{stroke:#aaa}}</style>",
        f'<text class="t" x="{LEFT}" y="20" font-size="14">{text_markup(title)}</text>',
        f'<text class="t" x="{LEFT}" y="{TOP - 8}">measured over predicted, percent off</text>',
    ]
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    step = 10 ** math.floor(math.log10(most))
    step = step if most / step >= 2 else step / 2
    for k in range(-int(most / step), int(most / step) + 1):
        y = down(k * step)
        lines.append(f'<path class="{"g" if k else "z"}" d="M{LEFT} {y:.1f}H{right}"/>')
        lines.append(f'<text class="t" x="{LEFT - 6}" y="{y:.1f}" dy="4" text-anchor="end">{k * step:g}</text>')
    for exponent in range(math.ceil(low), math.floor(high) + 1):
        x = across(10.0**exponent)
        lines.append(f'<path class="g" d="M{x:.1f} {TOP}V{bottom}"/>')
        size = size_label(10.0**exponent)
        lines.append(f'<text class="t" x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">{size}</text>')
    for number, (name, of_one) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        row, column = TOP + 10 + 18 * number, right + 16
        lines += [
            f'<circle fill="{colour}" cx="{across(size):.1f}" cy="{down(percent):.1f}" r="3"/>'
            for size, percent in of_one
        ]
        lines.append(f'<circle fill="{colour}" cx="{column}" cy="{row}" r="4"/>')
        lines.append(f'<text class="t" x="{column + 10}" y="{row + 4}">{text_markup(name[-36:])}</text>')
    return "\n".join([*lines, "</svg>", ""])
