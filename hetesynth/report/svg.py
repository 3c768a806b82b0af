"""A schedule as a static picture: the cluster with its rates, and what crosses it step by step.

In: a topology, a problem and a schedule. Out: SVG text, the same bytes for the same input. White background, so
that it can be read wherever it is shown; says everything in text too (title and description).
"""

from __future__ import annotations

from collections import Counter

from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.topology import Topology
from hetesynth.report.drawing import LINE, Drawing, drawing
from hetesynth.report.svg_parts import HUES, INK, clean, frames_and_wires, opening, parts_and_names, px, wire_path

HEAD = 46.0
MAX_PANELS = 12


def schedule_svg(topology: Topology, problem: Problem, schedule: Schedule, title: str, columns: int = 3) -> str:
    """One panel for each of the first ``MAX_PANELS`` steps; colours tell the server a chunk comes from."""
    drawn = drawing(topology)
    steps = schedule.steps()[:MAX_PANELS]
    columns = max(1, min(columns, len(steps)))
    rows = -(-len(steps) // columns)
    width, panel = drawn.width * columns, drawn.height + LINE * 2
    height = HEAD + panel * rows + 8
    parts = [
        *opening(width, height, title, _described(schedule)),
        _legend(topology),
        f'<defs><g id="wires">{frames_and_wires(drawn)}</g>',
        f'<g id="parts">{parts_and_names(topology, drawn)}</g></defs>',
    ]
    for number, transfers in enumerate(steps):
        plural = "" if len(transfers) == 1 else "s"
        x, y = drawn.width * (number % columns), HEAD + panel * (number // columns)
        parts.append(f'<g transform="translate({px(x)} {px(y)})">')
        parts.append(
            f'<text x="16" y="14" font-size="13" font-weight="600" fill="{INK}">Step {number + 1}'
            f'<tspan font-weight="400"> · {len(transfers)} transfer{plural}</tspan></text>'
        )
        parts.append(f'<g transform="translate(0 {px(LINE)})"><use href="#wires"/>')
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
        parts.append(f'<tspan fill="{_hue(k)}" font-weight="600" dx="6">{clean(server or "the server")}</tspan>')
    more = " and others" if len(_servers(topology)) > len(HUES) else ""
    parts.append(f'<tspan dx="6">{more} A line is a wire in use, wider with more chunks.</tspan></text>')
    return "".join(parts)


def _servers(topology: Topology) -> list[str]:
    return list(dict.fromkeys(topology.servers))


def _hue(index: int) -> str:
    return HUES[index % len(HUES)]


def _traffic(topology: Topology, problem: Problem, drawn: Drawing, transfers: list[Transfer]) -> str:
    """Wires in use in one step, once for each server whose chunks cross them, beside each other."""
    order = {name: k for k, name in enumerate(_servers(topology))}
    crossing: Counter[tuple[int, int]] = Counter()
    for t in transfers:
        origin = problem.collective.chunks[t.chunk].block[0]
        for wire in topology.links[t.link].wires:
            crossing[wire, order[topology.vertices[origin].server]] += 1
    return "".join(
        wire_path(drawn.wires[wire], _hue(server), min(4.0, 0.9 + 0.45 * count), 0.85)
        for (wire, server), count in sorted(crossing.items())
    )
