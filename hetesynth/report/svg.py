"""A schedule as a static picture: the cluster with its rates, and what crosses it step by step.

In: a topology, a problem and a schedule. Out: SVG text, the same bytes for the same input. White background, so
that it can be read wherever it is shown; says everything in text too (title and description).
"""

from __future__ import annotations

from collections import Counter
from xml.sax.saxutils import escape

from hetesynth.diagnostics import visible
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.topology import Topology
from hetesynth.report.drawing import LINE, Drawing, WireCurve, drawing, label

INK, FAINT, FRAME = "#1f2933", "#b8c2cc", "#8795a1"
HUES = ("#0b6e99", "#c2410c", "#2f7d32", "#7b3f8c", "#a16207", "#be185d", "#0f766e", "#4338ca")
HEAD = 46.0
MAX_PANELS = 12
XML_WHITE = frozenset("\t\n\r")


def schedule_svg(topology: Topology, problem: Problem, schedule: Schedule, title: str, columns: int = 3) -> str:
    """One panel for each of the first ``MAX_PANELS`` steps; colours tell the server a chunk comes from."""
    drawn = drawing(topology)
    steps = schedule.steps()[:MAX_PANELS]
    columns = max(1, min(columns, len(steps)))
    rows = -(-len(steps) // columns)
    width, panel = drawn.width * columns, drawn.height + LINE * 2
    height = HEAD + panel * rows + 8
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_n(width)} {_n(height)}" width="{_n(width)}" '
        f'height="{_n(height)}" role="img" aria-labelledby="t d" '
        'font-family="system-ui, Helvetica, Arial, sans-serif" font-size="11">',
        f'<title id="t">{_clean(title)}</title>',
        f'<desc id="d">{_clean(_described(schedule))}</desc>',
        f'<rect width="{_n(width)}" height="{_n(height)}" fill="#ffffff"/>',
        f'<text x="16" y="20" font-size="15" font-weight="600" fill="{INK}">{_clean(title)}</text>',
        _legend(topology),
        f'<defs><g id="wires">{_wires(drawn)}</g><g id="parts">{_parts(topology, drawn)}</g></defs>',
    ]
    for number, transfers in enumerate(steps):
        plural = "" if len(transfers) == 1 else "s"
        x, y = drawn.width * (number % columns), HEAD + panel * (number // columns)
        parts.append(f'<g transform="translate({_n(x)} {_n(y)})">')
        parts.append(
            f'<text x="16" y="14" font-size="13" font-weight="600" fill="{INK}">Step {number + 1}'
            f'<tspan font-weight="400"> · {len(transfers)} transfer{plural}</tspan></text>'
        )
        parts.append(f'<g transform="translate(0 {_n(LINE)})"><use href="#wires"/>')
        parts.append(_traffic(topology, problem, drawn, transfers))
        parts.append('<use href="#parts"/></g></g>')
    return "\n".join([*parts, "</svg>", ""])


def _described(schedule: Schedule) -> str:
    counts = [len(step) for step in schedule.steps()]
    said = ", ".join(f"step {i + 1}: {count}" for i, count in enumerate(counts[:MAX_PANELS]))
    more = f"; the first {MAX_PANELS} of {len(counts)} steps" if len(counts) > MAX_PANELS else ""
    return f"Transfers by step. {said}{more}."


def _legend(topology: Topology) -> str:
    """Which colour is which server, and what a number on a GPU means."""
    parts = [f'<text x="16" y="38" fill="{INK}">Chunks of']
    for k, server in enumerate(_servers(topology)[: len(HUES)]):
        parts.append(f'<tspan fill="{_hue(k)}" font-weight="600" dx="6">{_clean(server or "the server")}</tspan>')
    more = " and others" if len(_servers(topology)) > len(HUES) else ""
    parts.append(f'<tspan dx="6">{more} A line is a wire in use, wider with more chunks.</tspan></text>')
    return "".join(parts)


def _servers(topology: Topology) -> list[str]:
    return list(dict.fromkeys(topology.servers))


def _hue(index: int) -> str:
    return HUES[index % len(HUES)]


def _wires(drawn: Drawing) -> str:
    """Frames, captions and wires: what traffic is drawn on."""
    parts = []
    for server in drawn.servers:
        b = server.box
        parts.append(
            f'<rect x="{_n(b.x)}" y="{_n(b.y)}" width="{_n(b.width)}" height="{_n(b.height)}" rx="8" '
            f'fill="#f7f9fb" stroke="{FRAME}"/>'
        )
        for k, line in enumerate(server.captions):
            weight = ' font-weight="600"' if k == 0 else ""
            parts.append(
                f'<text x="{_n(b.x + 10)}" y="{_n(server.caption_y + k * LINE)}" font-size="10.5" fill="{INK}"'
                f"{weight}>{_clean(line)}</text>"
            )
    return "".join([*parts, *(_path(curve, FAINT, 0.8) for curve in drawn.wires)])


def _parts(topology: Topology, drawn: Drawing) -> str:
    """GPUs, NICs, buses, switches and their names."""
    parts = []
    for i, (vertex, box) in enumerate(zip(topology.vertices, drawn.vertices, strict=True)):
        x, y = box.middle
        fill = INK if vertex.kind == "gpu" else "#e4e9ee"
        parts.append(
            f'<rect x="{_n(box.x)}" y="{_n(box.y)}" width="{_n(box.width)}" height="{_n(box.height)}" rx="3" '
            f'fill="{fill}" stroke="{FRAME}" stroke-width="0.8"/>'
            f'<text x="{_n(x)}" y="{_n(y + 3.5)}" text-anchor="middle" font-size="{10 if box.width > 40 else 9}" '
            f'fill="{"#ffffff" if vertex.kind == "gpu" else INK}">{_clean(label(topology, i, box))}</text>'
        )
    return "".join(parts)


def _traffic(topology: Topology, problem: Problem, drawn: Drawing, transfers: list[Transfer]) -> str:
    """Wires in use in one step, once for each server whose chunks cross them, beside each other."""
    order = {name: k for k, name in enumerate(_servers(topology))}
    crossing: Counter[tuple[int, int]] = Counter()
    for t in transfers:
        origin = problem.collective.chunks[t.chunk].block[0]
        for wire in topology.links[t.link].wires:
            crossing[wire, order[topology.vertices[origin].server]] += 1
    return "".join(
        _path(drawn.wires[wire], _hue(server), min(4.0, 0.9 + 0.45 * count), 0.85)
        for (wire, server), count in sorted(crossing.items())
    )


def _path(c: WireCurve, colour: str, width: float, opacity: float = 1.0) -> str:
    shown = f' opacity="{opacity}"' if opacity < 1 else ""
    return (
        f'<path d="M{_n(c.x1)} {_n(c.y1)}Q{_n(c.cx)} {_n(c.cy)} {_n(c.x2)} {_n(c.y2)}" fill="none" '
        f'stroke="{colour}" stroke-width="{_n(width)}"{shown}/>'
    )


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _clean(text: str) -> str:
    """``text`` as XML; control characters are shown escaped, others that XML does not allow as a question mark."""
    return escape("".join(c if _allowed(c) else "?" for c in visible(text)))


def _allowed(c: str) -> bool:
    return c in XML_WHITE or (c >= " " and not "\ud800" <= c <= "\udfff" and c not in "\ufffe\uffff")
