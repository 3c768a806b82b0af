"""A cluster as a static picture, with its rates or with what crosses it step by step; and as GraphML.

White background, so that it can be read wherever it is shown; says everything in text too (title and description).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import repeat
from xml.sax.saxutils import escape

from hetesynth.model.diagnostics import visible
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule
from hetesynth.model.topology import Topology
from hetesynth.model.words import counted
from hetesynth.report.drawing import LINE, Drawing, WireCurve, drawing, label, rate_range
from hetesynth.report.server_layout import Box

HEAD = 46.0
MAX_PANELS = 12
TOPOLOGY_HEAD = 30.0
ROW_OF_LEGEND = 16.0
LEGEND_LETTER = 6.2
TITLE_LETTER = 9.0
MOST_TITLE = 80  # letters
LEAST_WIDTH = 260.0
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
    """Return servers with their captions, and wires: faint, or ``colours[i]`` for wire i."""
    parts = [_box(server.box, 8, PANEL) + "/>" for server in drawn.servers]
    if colours:
        parts += map(wire_path, drawn.wires, colours, repeat(1.1))
    else:
        parts += [wire_path(curve, FAINT, 0.8) for curve in drawn.wires]
    for server in drawn.servers:  # over the wires, with an edge in the colour of the frame: they can be read
        for k, line in enumerate(server.captions):
            weight = ' font-weight="600"' if k == 0 else ""
            parts.append(
                f'<text x="{px(server.box.x + 10)}" y="{px(server.caption_y + k * LINE)}" font-size="10.5" '
                f'fill="{INK}" stroke="{PANEL}" stroke-width="3" paint-order="stroke"{weight}>{clean(line)}</text>'
            )
    return "".join(parts)


def _box(b: Box, round_: int, fill: str) -> str:
    return (
        f'<rect x="{px(b.x)}" y="{px(b.y)}" width="{px(b.width)}" height="{px(b.height)}" rx="{round_}" '
        f'fill="{fill}" stroke="{FRAME}"'
    )


def parts_and_names(topology: Topology, drawn: Drawing) -> str:
    """GPUs, NICs, buses, switches and their names."""
    parts = []
    for i, (vertex, box) in enumerate(zip(topology.vertices, drawn.vertices, strict=True)):
        x, y = box.middle
        parts.append(
            f'{_box(box, 3, FILLS.get(vertex.kind, PART))} stroke-width="0.8"/>'
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
    """Return ``text`` in characters that XML has."""
    return "".join(
        c if c in XML_WHITE or (c >= " " and not "\ud800" <= c <= "\udfff" and c not in "\ufffe\uffff") else "?"
        for c in visible(text)
    )


def schedule_svg(topology: Topology, problem: Problem, schedule: Schedule, title: str, columns: int = 3) -> str:
    """Return one panel for each of the first ``MAX_PANELS`` steps; colours tell the server a chunk comes from."""
    drawn = drawing(topology)
    every = schedule.steps()
    steps = every[:MAX_PANELS]
    columns = max(1, min(columns, len(steps)))
    rows = -(-len(steps) // columns)
    width, panel = drawn.width * columns, drawn.height + LINE * 2
    said = ", ".join(f"step {number}: {len(step)}" for number, step in enumerate(steps, 1))
    more = f"; the first {MAX_PANELS} of {len(every)} steps" if len(every) > MAX_PANELS else ""
    servers = list(dict.fromkeys(topology.servers))
    order = {server: k for k, server in enumerate(servers)}
    legend = [
        f'<tspan fill="{colour}" font-weight="600" dx="6">{clean(server or "the server")}</tspan>'
        for server, colour in zip(servers, HUES, strict=False)
    ]
    others = " and others" if len(servers) > len(HUES) else ""
    parts = [
        *opening(width, HEAD + panel * rows + 8, title, f"Transfers by step. {said}{more}."),
        f'<text x="16" y="38" fill="{INK}">Chunks of{"".join(legend)}'
        f'<tspan dx="6">{others} A line is a wire in use, wider with more chunks.</tspan></text>',
        f'<defs><g id="wires">{frames_and_wires(drawn)}</g>',
        f'<g id="parts">{parts_and_names(topology, drawn)}</g></defs>',
    ]
    for number, transfers in enumerate(steps):
        plural = "" if len(transfers) == 1 else "s"
        x, y = drawn.width * (number % columns), HEAD + panel * (number // columns)
        crossing: Counter[tuple[int, int]] = Counter()  # wires once for each server whose chunks cross them
        for t in transfers:
            origin = problem.collective.chunks[t.chunk].block[0]
            for wire in topology.links[t.link].wires:
                crossing[wire, order[topology.vertices[origin].server]] += 1
        traffic = (
            wire_path(drawn.wires[wire], HUES[server % len(HUES)], min(4.0, 0.9 + 0.45 * count), 0.85)
            for (wire, server), count in sorted(crossing.items())
        )
        parts += [
            f'<g transform="translate({px(x)} {px(y)})">',
            f'<text x="16" y="14" font-size="13" font-weight="600" fill="{INK}">Step {number + 1}'
            f'<tspan font-weight="400"> · {len(transfers)} transfer{plural}</tspan></text>',
            f'<g transform="translate(0 {px(LINE)})"><use href="#wires"/>',
            "".join(traffic),
            '<use href="#parts"/></g></g>',
        ]
    return "\n".join([*parts, "</svg>", ""])


def topology_svg(topology: Topology) -> str:
    """Return the picture of ``topology`` with a legend: a colour for each kind of wire."""
    drawn = drawing(topology)
    rates: dict[str, set[Fraction]] = {wire.kind: set() for wire in topology.wires}
    for wire in topology.wires:
        if wire.bandwidth is not None:
            rates[wire.kind].add(wire.bandwidth * wire.lanes)
    hues = {kind: HUES[k % len(HUES)] for k, kind in enumerate(rates)}
    name = topology.name if len(topology.name) <= MOST_TITLE else topology.name[: MOST_TITLE - 1] + "…"
    title = f"{name}: {counted(topology.ranks, 'GPU')}"
    width = max(drawn.width, LEAST_WIDTH, TITLE_LETTER * len(title) + 32)
    rows: list[list[tuple[str, str, float]]] = [[]]  # kind, words and width of each entry of the legend
    room = width - 32
    for kind, carried in rates.items():
        words = f"{kind} {rate_range(carried)} GB/s" if carried else f"{kind} (never limits)"
        wide = 23 + LEGEND_LETTER * len(words) + 14
        if rows[-1] and wide > room:
            rows.append([])
            room = width - 32
        rows[-1].append((kind, words, wide))
        room -= wide
    head = TOPOLOGY_HEAD + ROW_OF_LEGEND * len(rows)
    said = f"{title}, {counted(len(set(topology.servers)), 'server')}; " + "; ".join(
        words for row in rows for _, words, _ in row
    )
    parts = opening(width, head + drawn.height + 8, title, said)
    for k, row in enumerate(rows):
        x = 16.0
        for kind, words, wide in row:
            y = TOPOLOGY_HEAD + ROW_OF_LEGEND * k + 6
            parts.append(
                f'<line x1="{px(x)}" y1="{px(y)}" x2="{px(x + 18)}" y2="{px(y)}" stroke="{hues[kind]}" '
                f'stroke-width="2.5"/><text x="{px(x + 23)}" y="{px(y + 4)}" fill="{INK}">{clean(words)}</text>'
            )
            x += wide
    parts.append(f'<g transform="translate({px((width - drawn.width) / 2)} {px(head)})">')
    parts.append(frames_and_wires(drawn, [hues[wire.kind] for wire in topology.wires]))
    parts.append(parts_and_names(topology, drawn))
    return "\n".join([*parts, "</g>", "</svg>", ""])


def graphml(topology: Topology) -> bytes:
    """The physical multigraph: a node for each vertex by name, an edge for each direction of a wire."""
    import networkx as nx

    graph: nx.MultiDiGraph[str] = nx.MultiDiGraph(name=printable(topology.name))
    names = [printable(vertex.name) for vertex in topology.vertices]
    for index, vertex in enumerate(topology.vertices):
        rank = {"rank": index} if index < topology.ranks else {}
        words = {name: printable(getattr(vertex, name)) for name in ("server", "host", "model")}
        graph.add_node(names[index], kind=vertex.kind, **rank, **words)
    for index, wire in enumerate(topology.wires):
        values = {"lanes": wire.lanes, "latency_us": float(wire.latency * 1_000_000)}
        if wire.bandwidth is not None:
            values["gbytes_per_second"] = float(wire.bandwidth * wire.lanes / 10**9)
        graph.add_edge(names[wire.src], names[wire.dst], key=index, kind=printable(wire.kind), **values)
    return ("\n".join(nx.generate_graphml(graph)) + "\n").encode()
