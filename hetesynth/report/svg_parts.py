"""Pieces of SVG that every picture of a cluster is made of: frames, wires, hardware with its names, text.

In: a drawing. Out: elements as text, the same for the same input.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import repeat
from xml.sax.saxutils import escape

from hetesynth.model.diagnostics import visible
from hetesynth.model.topology import Topology
from hetesynth.report.boxes import WireCurve
from hetesynth.report.drawing import LINE, Drawing, label

INK, FAINT, FRAME = "#1f2933", "#b8c2cc", "#8795a1"
HUES = ("#0b6e99", "#c2410c", "#2f7d32", "#7b3f8c", "#a16207", "#be185d", "#0f766e", "#4338ca")
FILLS = {"gpu": INK, "cpu": "#f5e3c3", "numa": "#faf0de", "pcie": "#d3e6ef", "router": "#dcebd3"}  # others: PART
PART, PANEL = "#e4e9ee", "#f7f9fb"
XML_WHITE = frozenset("\t\n\r")


def opening(width: float, height: float, title: str, description: str) -> list[str]:
    """The first elements of a picture: its size, what it says in words, a white ground and the title."""
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {px(width)} {px(height)}" width="{px(width)}" '
        f'height="{px(height)}" role="img" aria-labelledby="t d" '
        'font-family="system-ui, Helvetica, Arial, sans-serif" font-size="11">',
        f'<title id="t">{clean(title)}</title>',
        f'<desc id="d">{clean(description)}</desc>',
        f'<rect width="{px(width)}" height="{px(height)}" fill="#ffffff"/>',
        f'<text x="16" y="20" font-size="15" font-weight="600" fill="{INK}">{clean(title)}</text>',
    ]


def frames_and_wires(drawn: Drawing, colours: Sequence[str] = ()) -> str:
    """Servers with their captions, and wires: faint, or ``colours[i]`` for wire i."""
    parts = []
    for server in drawn.servers:
        b = server.box
        parts.append(
            f'<rect x="{px(b.x)}" y="{px(b.y)}" width="{px(b.width)}" height="{px(b.height)}" rx="8" '
            f'fill="{PANEL}" stroke="{FRAME}"/>'
        )
    if colours:
        return "".join([*parts, *map(wire_path, drawn.wires, colours, repeat(1.1)), *_captions(drawn)])
    return "".join([*parts, *(wire_path(curve, FAINT, 0.8) for curve in drawn.wires), *_captions(drawn)])


def _captions(drawn: Drawing) -> Iterator[str]:
    """Over the wires, with an edge in the colour of the frame, so that they can be read."""
    for server in drawn.servers:
        for k, line in enumerate(server.captions):
            weight = ' font-weight="600"' if k == 0 else ""
            yield (
                f'<text x="{px(server.box.x + 10)}" y="{px(server.caption_y + k * LINE)}" font-size="10.5" '
                f'fill="{INK}" stroke="{PANEL}" stroke-width="3" paint-order="stroke"{weight}>{clean(line)}</text>'
            )


def parts_and_names(topology: Topology, drawn: Drawing) -> str:
    """GPUs, NICs, buses, switches and their names."""
    parts = []
    for i, (vertex, box) in enumerate(zip(topology.vertices, drawn.vertices, strict=True)):
        x, y = box.middle
        fill = FILLS.get(vertex.kind, PART)
        parts.append(
            f'<rect x="{px(box.x)}" y="{px(box.y)}" width="{px(box.width)}" height="{px(box.height)}" rx="3" '
            f'fill="{fill}" stroke="{FRAME}" stroke-width="0.8"/>'
            f'<text x="{px(x)}" y="{px(y + 3.5)}" text-anchor="middle" font-size="{10 if box.width > 40 else 9}" '
            f'fill="{"#ffffff" if vertex.kind == "gpu" else INK}">{clean(label(topology, i, box))}</text>'
        )
    return "".join(parts)


def wire_path(c: WireCurve, colour: str, width: float, opacity: float = 1.0) -> str:
    """A wire as a curve."""
    shown = f' opacity="{opacity}"' if opacity < 1 else ""
    return (
        f'<path d="M{px(c.x1)} {px(c.y1)}Q{px(c.cx)} {px(c.cy)} {px(c.x2)} {px(c.y2)}" fill="none" '
        f'stroke="{colour}" stroke-width="{px(width)}"{shown}/>'
    )


def px(value: float) -> str:
    """A length, to a tenth."""
    return f"{value:.1f}".removesuffix(".0")


def clean(text: str) -> str:
    """``text`` as XML; control characters are shown escaped, others that XML does not allow as a question mark."""
    return escape(printable(text))


def printable(text: str) -> str:
    """``text`` in characters that XML has."""
    return "".join(c if _allowed(c) else "?" for c in visible(text))


def _allowed(c: str) -> bool:
    return c in XML_WHITE or (c >= " " and not "\ud800" <= c <= "\udfff" and c not in "\ufffe\uffff")
