"""A cluster as a static picture, with its rates or with what crosses it step by step.

White background, so that it can be read wherever it is shown; says everything in text too (title and description).
"""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from xml.sax.saxutils import escape

from hetesynth.model.diagnostics import visible
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule
from hetesynth.model.topology import Topology
from hetesynth.model.words import counted
from hetesynth.report.drawing import LINE, Box, Drawing, WireCurve, drawing, label, rate_range, shortened

HEAD, ROW_OF_LEGEND = 46.0, 16.0
MAX_PANELS = 12
MOST_TITLE = 80  # letters
LEAST_WIDTH = 480.0  # with room for such a title
INK, FAINT, FRAME = "#1f2933", "#b8c2cc", "#8795a1"
HUES = ("#0b6e99", "#c2410c", "#2f7d32", "#7b3f8c", "#a16207", "#be185d", "#0f766e", "#4338ca")
FILLS = {"gpu": INK, "cpu": "#f5e3c3", "numa": "#faf0de", "pcie": "#d3e6ef", "router": "#dcebd3"}  # others: PART
PART, PANEL = "#e4e9ee", "#f7f9fb"


def _picture(width: float, height: float, title: str, description: str, parts: Sequence[str]) -> str:
    """Return a picture: its size, title and description, a white ground, the title drawn, and ``parts``."""
    size = f'width="{px(width)}" height="{px(height)}"'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {px(width)} {px(height)}" {size} role="img" '
            'aria-labelledby="t d" font-family="system-ui, Helvetica, Arial, sans-serif" font-size="11">',
            f'<title id="t">{clean(title)}</title>\n<desc id="d">{clean(description)}</desc>',
            f'<rect {size} fill="#ffffff"/>',
            f'<text x="16" y="20" font-size="15" font-weight="600" fill="{INK}">{clean(title)}</text>',
            *parts,
            "</svg>\n",
        ]
    )


def _frames(drawn: Drawing, wires: str) -> str:
    """Return the frames of the servers, ``wires`` over them, and the captions of the servers on top."""
    parts = [*(_box(server.box, 8, PANEL) for server in drawn.servers), wires]
    look = f'font-weight="600" fill="{INK}" stroke="{PANEL}" stroke-width="3" paint-order="stroke"'
    for server in drawn.servers:
        at = f'x="{px(server.box.x + 10)}" y="{px(server.caption_y)}"'
        parts.append(f"<text {at} {look}>{clean(server.caption)}</text>")
    return "".join(parts)


def _box(b: Box, round_: int, fill: str) -> str:
    size = f'width="{px(b.width)}" height="{px(b.height)}" rx="{round_}"'
    return f'<rect x="{px(b.x)}" y="{px(b.y)}" {size} fill="{fill}" stroke="{FRAME}" stroke-width="0.8"/>'


def _parts(topology: Topology, drawn: Drawing) -> str:
    """Return the boxes of GPUs, NICs, buses and switches with their names."""
    parts = []
    for i, (vertex, box) in enumerate(zip(topology.vertices, drawn.vertices, strict=True)):
        x, y = box.middle
        look = f'text-anchor="middle" font-size="9" fill="{"#ffffff" if vertex.kind == "gpu" else INK}"'
        name = f'<text x="{px(x)}" y="{px(y + 3.5)}" {look}>{clean(label(topology, i, box))}</text>'
        parts.append(_box(box, 3, FILLS.get(vertex.kind, PART)) + name)
    return "".join(parts)


def _wire(c: WireCurve, colour: str, width: float, more: str = "") -> str:
    """Return a wire as an SVG path."""
    course = f"M{px(c.x1)} {px(c.y1)}Q{px(c.cx)} {px(c.cy)} {px(c.x2)} {px(c.y2)}"
    return f'<path d="{course}" fill="none" stroke="{colour}" stroke-width="{px(width)}"{more}/>'


def px(value: float) -> str:
    """Return a length in pixels, to a tenth."""
    return f"{value:.1f}".removesuffix(".0")


def clean(text: str) -> str:
    """Return ``text`` as XML; control characters are escaped, others that XML does not allow become ``?``."""
    return escape("".join("?" if c in "\ufffe\uffff" else c for c in visible(text)))


def schedule_svg(topology: Topology, problem: Problem, schedule: Schedule, title: str, columns: int = 3) -> str:
    """Return one panel for each of the first ``MAX_PANELS`` steps; colours tell the server a chunk comes from."""
    drawn = drawing(topology)
    every = schedule.steps()
    steps = every[:MAX_PANELS]
    columns = max(1, min(columns, len(steps)))
    panel = drawn.height + LINE * 2
    said = ", ".join(f"step {number}: {len(step)}" for number, step in enumerate(steps, 1))
    more = f"; the first {MAX_PANELS} of {len(every)} steps" if len(every) > MAX_PANELS else ""
    servers = list(dict.fromkeys(topology.servers))
    hues = {server: HUES[k % len(HUES)] for k, server in enumerate(servers)}
    legend = "".join(
        f'<tspan fill="{hues[server]}" font-weight="600" dx="6">{clean(server or "the server")}</tspan>'
        for server in servers[: len(HUES)]
    )
    others = " and others" if len(servers) > len(HUES) else ""
    faint = "".join(_wire(curve, FAINT, 0.8) for curve in drawn.wires)
    parts = [
        f'<text x="16" y="38" fill="{INK}">Chunks of{legend}'
        f'<tspan dx="6">{others} A line is a wire in use, wider with more chunks.</tspan></text>',
        f'<defs><g id="wires">{_frames(drawn, faint)}</g><g id="parts">{_parts(topology, drawn)}</g></defs>',
    ]
    for number, transfers in enumerate(steps):
        x, y = drawn.width * (number % columns), HEAD + panel * (number // columns)
        crossing: Counter[tuple[int, str]] = Counter()  # wires once for each server whose chunks cross them
        for t in transfers:
            origin = topology.vertices[problem.collective.chunks[t.chunk].block[0]].server
            crossing.update((wire, origin) for wire in topology.links[t.link].wires)
        traffic = (
            _wire(drawn.wires[wire], hues[server], min(4.0, 0.9 + 0.45 * count), ' opacity="0.85"')
            for (wire, server), count in sorted(crossing.items())
        )
        parts += [
            f'<g transform="translate({px(x)} {px(y)})">',
            f'<text x="16" y="14" font-size="13" font-weight="600" fill="{INK}">Step {number + 1}'
            f'<tspan font-weight="400"> · {counted(len(transfers), "transfer")}</tspan></text>',
            f'<g transform="translate(0 {px(LINE)})"><use href="#wires"/>{"".join(traffic)}',
            '<use href="#parts"/></g></g>',
        ]
    height = HEAD + panel * -(-len(steps) // columns) + 8
    return _picture(drawn.width * columns, height, title, f"Transfers by step. {said}{more}.", parts)


def topology_svg(topology: Topology) -> str:
    """Return the picture of ``topology`` with a legend: a colour for each kind of wire."""
    drawn = drawing(topology)
    rates: dict[str, set[Fraction]] = {wire.kind: set() for wire in topology.wires}
    for wire in topology.wires:
        if wire.bandwidth is not None:
            rates[wire.kind].add(wire.bandwidth * wire.lanes)
    hues = {kind: HUES[k % len(HUES)] for k, kind in enumerate(rates)}
    title = f"{shortened(topology.name, MOST_TITLE)}: {counted(topology.ranks, 'GPU')}"
    legend = [
        (kind, f"{kind} {rate_range(carried)} GB/s" if carried else f"{kind} (never limits)")
        for kind, carried in rates.items()
    ]
    head = HEAD + ROW_OF_LEGEND * len(legend)
    parts = []
    for k, (kind, words) in enumerate(legend):
        y = HEAD + ROW_OF_LEGEND * k - 6
        parts.append(
            f'<path d="M16 {px(y)}h18" stroke="{hues[kind]}" stroke-width="2.5"/>'
            f'<text x="39" y="{px(y + 4)}" fill="{INK}">{clean(words)}</text>'
        )
    wires = "".join(_wire(c, hues[w.kind], 1.1) for w, c in zip(topology.wires, drawn.wires, strict=True))
    parts.append(f'<g transform="translate(0 {px(head)})">{_frames(drawn, wires)}{_parts(topology, drawn)}</g>')
    words = "; ".join(words for _, words in legend)
    said = f"{title}, {counted(len(set(topology.servers)), 'server')}; {words}"
    width = max(drawn.width, LEAST_WIDTH, 9.0 * len(title) + 32)
    return _picture(width, head + drawn.height, title, said, parts)
