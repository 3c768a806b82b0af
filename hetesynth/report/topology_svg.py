"""A cluster as a static picture: servers, hardware, wires coloured by kind, with their rates.

In: a topology. Out: SVG text, the same bytes for the same input.
"""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

from hetesynth.model.topology import Topology
from hetesynth.model.words import counted
from hetesynth.report.drawing import drawing, rate_range
from hetesynth.report.svg_parts import HUES, INK, clean, frames_and_wires, opening, parts_and_names, px

HEAD = 30.0
ROW_OF_LEGEND = 16.0
LEGEND_LETTER = 6.2
TITLE_LETTER = 9.0
MOST_TITLE = 80  # letters
LEAST_WIDTH = 260.0


def topology_svg(topology: Topology) -> str:
    """The picture of ``topology`` with a legend: a colour for each kind of wire."""
    drawn = drawing(topology)
    kinds = list(dict.fromkeys(wire.kind for wire in topology.wires))
    hues = {kind: HUES[k % len(HUES)] for k, kind in enumerate(kinds)}
    name = topology.name if len(topology.name) <= MOST_TITLE else topology.name[: MOST_TITLE - 1] + "…"
    title = f"{name}: {counted(topology.ranks, 'GPU')}"
    width = max(drawn.width, LEAST_WIDTH, TITLE_LETTER * len(title) + 32)
    rows = _legend_rows(topology, kinds, width - 32)
    head = HEAD + ROW_OF_LEGEND * len(rows)
    said = f"{title}, {counted(len(set(topology.servers)), 'server')}; " + "; ".join(
        words for row in rows for _, words in row
    )
    parts = opening(width, head + drawn.height + 8, title, said)
    for k, row in enumerate(rows):
        x = 16.0
        for kind, words in row:
            y = HEAD + ROW_OF_LEGEND * k + 6
            parts.append(
                f'<line x1="{px(x)}" y1="{px(y)}" x2="{px(x + 18)}" y2="{px(y)}" stroke="{hues[kind]}" '
                f'stroke-width="2.5"/><text x="{px(x + 23)}" y="{px(y + 4)}" fill="{INK}">{clean(words)}</text>'
            )
            x += _legend_width(words)
    parts.append(f'<g transform="translate({px((width - drawn.width) / 2)} {px(head)})">')
    parts.append(frames_and_wires(drawn, [hues[wire.kind] for wire in topology.wires]))
    parts.append(parts_and_names(topology, drawn))
    return "\n".join([*parts, "</g>", "</svg>", ""])


def _legend_width(words: str) -> float:
    return 23 + LEGEND_LETTER * len(words) + 14


def _legend_rows(topology: Topology, kinds: list[str], width: float) -> list[list[tuple[str, str]]]:
    """Kind and words of each entry, in rows that fit."""
    rates: dict[str, set[Fraction]] = defaultdict(set)
    for wire in topology.wires:
        if wire.bandwidth is not None:
            rates[wire.kind].add(wire.bandwidth * wire.lanes)
    rows: list[list[tuple[str, str]]] = [[]]
    room = width
    for kind in kinds:
        words = f"{kind} {rate_range(rates[kind])} GB/s" if rates[kind] else f"{kind} (never limits)"
        if rows[-1] and _legend_width(words) > room:
            rows.append([])
            room = width
        rows[-1].append((kind, words))
        room -= _legend_width(words)
    return rows
