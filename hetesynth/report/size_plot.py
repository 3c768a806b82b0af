"""Bandwidth against size as a small SVG: logarithmic both ways, legible on light and dark ground.

In: named curves of (bytes, GB/s). Out: SVG text, the same for the same curves. Knows nothing of schedules.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

WIDTH, HEIGHT = 760, 440
LEFT, RIGHT, TOP, BOTTOM = 70, 190, 40, 50
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6bb1", "#7f7f7f")
DASHES = ("", "6 3", "2 3", "8 3 2 3")
BOUND = "bound"
_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")

Curve = Sequence[tuple[int, float]]


def size_plot(title: str, curves: Mapping[str, Curve], marks: Sequence[int] = ()) -> str:
    """The picture; ``marks``: sizes with a vertical line, where one schedule takes over from another."""
    points = [p for curve in curves.values() for p in curve if p[1] > 0]
    if not points:
        raise ValueError("nothing to plot")
    x_axis = _Axis.over([x for x, _ in points], LEFT, WIDTH - RIGHT)
    y_axis = _Axis.over([y for _, y in points], HEIGHT - BOTTOM, TOP)
    floor = HEIGHT - BOTTOM
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        "<style>.t{fill:#222}.g{stroke:#bbb;stroke-width:.5}.b{stroke:#222}"
        "@media(prefers-color-scheme:dark){.t{fill:#ddd}.g{stroke:#555}.b{stroke:#ddd}}</style>",
        f'<text class="t" x="{LEFT}" y="22" font-size="14">{escape(title)}</text>',
        *_grid(x_axis, y_axis),
        *(
            f'<path class="g" stroke-dasharray="3 3" stroke-width="1" d="M{x_axis.at(m):.1f} {TOP}V{floor}"/>'
            for m in marks
        ),
    ]
    for number, (name, curve) in enumerate(curves.items()):
        lines += _curve(number, name, [(x_axis.at(x), y_axis.at(y)) for x, y in curve if y > 0])
    return "\n".join([*lines, "</svg>", ""])


class _Axis:
    """Logarithms of ``low`` to ``high`` on pixels ``first`` to ``last``."""

    def __init__(self, low: float, high: float, first: float, last: float) -> None:
        self.low, self.high = math.log10(low), math.log10(high)
        self.first, self.last = first, last

    @classmethod
    def over(cls, values: Sequence[float], first: float, last: float) -> _Axis:
        low, high = min(values), max(values)
        return cls(low / 1.1, high * 1.1, first, last)

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


def _grid(x_axis: _Axis, y_axis: _Axis) -> list[str]:
    bottom, right = HEIGHT - BOTTOM, WIDTH - RIGHT
    lines = []
    for x in x_axis.ticks():
        at = f"{x_axis.at(x):.1f}"
        lines.append(f'<path class="g" d="M{at} {TOP}V{bottom}"/>')
        lines.append(f'<text class="t" x="{at}" y="{bottom + 18}" text-anchor="middle">{_bytes(x)}</text>')
    for y in y_axis.ticks():
        at = f"{y_axis.at(y):.1f}"
        lines.append(f'<path class="g" d="M{LEFT} {at}H{right}"/>')
        lines.append(f'<text class="t" x="{LEFT - 8}" y="{at}" dy="4" text-anchor="end">{y:g}</text>')
    words = "size of the buffer; GB/s of algorithm bandwidth, simulated"
    lines.append(f'<text class="t" x="{LEFT}" y="{HEIGHT - 12}">{words}</text>')
    return lines


def _curve(number: int, name: str, points: Sequence[tuple[float, float]]) -> list[str]:
    if not points:
        return []
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    y = TOP + 14 + 18 * number
    x = WIDTH - RIGHT + 14
    if name == BOUND:
        style = 'class="b" stroke-dasharray="1 3" stroke-width="1.5"'
    else:
        dash = DASHES[number // len(COLOURS) % len(DASHES)]
        style = f'stroke="{COLOURS[number % len(COLOURS)]}" stroke-width="2"' + (
            f' stroke-dasharray="{dash}"' if dash else ""
        )
    return [
        f'<path fill="none" {style} d="{path}"><title>{escape(name)}</title></path>',
        f'<path fill="none" {style} d="M{x} {y - 4}h20"/>',
        f'<text class="t" x="{x + 26}" y="{y}">{escape(name[:26])}</text>',
    ]


def _bytes(size: float) -> str:
    unit = min(len(_UNITS) - 1, max(0, round(math.log10(size)) // 3))
    return f"{size / 1000**unit:g} {_UNITS[unit]}"
