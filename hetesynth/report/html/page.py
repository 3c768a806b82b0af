"""The page: one file with its styles, scripts and data, which loads nothing and sends nothing.

Names in it are untrusted: text is escaped, the data is JSON in which no ``<`` is left, scripts set text and never
markup, and the content security policy lets no script run but those whose hashes it names.
"""

import json
from base64 import b64encode
from collections.abc import Iterable
from hashlib import sha256
from importlib.resources import files
from itertools import accumulate
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hetesynth.model.timeline import Timeline
from hetesynth.model.topology import Topology
from hetesynth.report.contents import ProgramRun, Report, ScheduleRun
from hetesynth.report.drawing import drawing, label
from hetesynth.report.size_plot import text_markup

SCRIPTS = [
    f"{name}.js" for name in ["d3.min", "common", "scene", "gantt_rows", "gantt", "resources", "curves", "main"]
]


def html_page(report: Report) -> bytes:
    """Return the page of ``report``."""
    values = page_values(report)
    width, height = values["topology"]["width"], values["topology"]["height"]
    least, most = min(width, max(600, 0.8 * width)), 1.6 * width
    room = f"--wide: {width:.1f}; --high: {height:.1f}; --least: {least:.1f}px; --most: {most:.1f}px;"
    style = _source("page.css") + f".canvasbox {{ {room} }}\n"  # so that nothing moves when the drawing appears
    scripts = [_source(name) for name in SCRIPTS]
    scripts[0] = f"/*\n{_source('d3.LICENSE')}*/\n{scripts[0]}"  # whoever passes the page on passes d3 on
    policy = (
        f"default-src 'none'; script-src {' '.join(map(_hash, scripts))}; style-src {_hash(style)}; "
        "base-uri 'none'; form-action 'none'"
    )
    head = (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{text_markup(report.title)}</title>\n<style>{style}</style>\n</head>\n"
    )
    notes = "".join(f"<li>{text_markup(note)}</li>" for note in report.notes)
    marks = {  # what takes the place of the marks in page.html, each as safe markup
        "title": text_markup(report.title),
        "verdict": f'<p class="verdict">{text_markup(report.verdict)}</p>' if report.verdict else "",
        "facts": "".join(
            f"<div><dt>{text_markup(name)}</dt><dd>{text_markup(value)}</dd></div>" for name, value in report.facts
        ),
        "certificate": "".join(f"<p>{text_markup(sentence)}</p>" for sentence in report.certificate),
        "notes": f"<h3>Notes</h3><ul>{notes}</ul>" if notes else "",
    }
    body = _source("page.html")
    for mark, value in marks.items():
        body = body.replace(f"<!--{mark}-->", value, 1)
    data = f'<script id="data" type="application/json">{embedded(values)}</script>\n'
    code = "".join(f"<script>{script}</script>\n" for script in scripts)
    return (head + body + data + code + "</body>\n</html>\n").encode()


def embedded(values: dict[str, Any]) -> str:
    """Return JSON that may stand inside a script element: nothing in it ends the element or a line."""
    text = json.dumps(values, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _hash(source: str) -> str:
    return f"'sha256-{b64encode(sha256(source.encode()).digest()).decode('ascii')}'"


def _source(name: str) -> str:
    """Return the text of a file of this package, with the line ends that a browser sees."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8").replace("\r\n", "\n")


Kind = Literal["f4", "i4", "u2"]


def column(values: Iterable[float] | NDArray[np.float64], kind: Kind) -> dict[str, str]:
    """Return numbers as ``{"t": kind, "v": base64}``; ``u2`` only where all fit."""
    array = np.asarray(values if isinstance(values, np.ndarray) else list(values))
    if kind == "i4" and (not len(array) or (array.min() >= 0 and array.max() < 2**16)):
        kind = "u2"
    return {"t": kind, "v": b64encode(array.astype(f"<{kind}").tobytes()).decode("ascii")}


def page_values(report: Report) -> dict[str, Any]:
    """Return everything that the page shows: columns of numbers, names, places; times in microseconds.

    Long columns are base64 of little-endian arrays, which are small and need no parsing.
    """
    collective = report.collective
    return {
        "title": report.title,
        "size": report.size,
        "collective": collective
        and {
            "name": collective.name,
            "reduces": collective.reduces,
            "blocks": [list(chunk.block) for chunk in collective.chunks],
            "parts": [chunk.part for chunk in collective.chunks],
            "pre": [sorted(ranks) for ranks in collective.pre],
            "perRank": collective.chunks_per_rank,
        },
        "topology": _topology(report.topology),
        "run": None if report.run is None else _run(report.run),
        "program": None if report.program is None else _program(report.program),
        "sizes": list(report.sizes),
        "curves": [
            {"name": c.name, "role": c.role, "us": [round(s * 1e6, 6) for s in c.seconds]} for c in report.curves
        ],
    }


def _topology(topology: Topology) -> dict[str, Any]:
    drawn = drawing(topology)
    kinds = list(dict.fromkeys(w.kind for w in topology.wires))
    link_kinds = list(dict.fromkeys(x.kind for x in topology.links))
    wires: list[list[Any]] = []
    limited = 0  # wires that have a rate are resources, in this order
    for wire, c in zip(topology.wires, drawn.wires, strict=True):
        resource, rate = -1, None
        if wire.bandwidth is not None:
            resource, rate = limited, float(wire.bandwidth * wire.lanes) / 1e9
            limited += 1
        latency = round(float(wire.latency) * 1e6, 4)
        named = [wire.src, wire.dst, kinds.index(wire.kind), resource, rate, wire.lanes, latency]
        wires.append([*named, c.x1, c.y1, c.cx, c.cy, c.x2, c.y2])
    return {
        "name": topology.name,
        "ranks": topology.ranks,
        "width": drawn.width,
        "height": drawn.height,
        "vertices": [
            [v.name, v.kind, v.server, v.model, label(topology, i, b), b.x, b.y, b.width, b.height]
            for i, (v, b) in enumerate(zip(topology.vertices, drawn.vertices, strict=True))
        ],
        "servers": [
            [s.name, s.box.x, s.box.y, s.box.width, s.box.height, s.caption_y, [s.caption]] for s in drawn.servers
        ],
        "kinds": kinds,
        "wires": wires,
        "groups": [[g.name, g.kind, float(g.bandwidth * g.lanes) / 1e9, len(g.links)] for g in topology.groups],
        "linkKinds": link_kinds,
        "links": {
            "kind": column((link_kinds.index(x.kind) for x in topology.links), "i4"),
            "src": column((x.src for x in topology.links), "i4"),
            "dst": column((x.dst for x in topology.links), "i4"),
            "first": column(accumulate((len(x.wires) for x in topology.links), initial=0), "i4"),
            "path": column((w for x in topology.links for w in x.wires), "i4"),
        },
    }


def _resources(timeline: Timeline) -> dict[str, Any]:
    uses = timeline.uses()
    return {
        "names": [u.name for u in uses],
        "rate": [round(u.rate / 1e9, 4) for u in uses],
        "bytes": [round(u.size) for u in uses],
        "busy": [round(u.busy * 1e6, 4) for u in uses],
        "share": [round(u.share, 6) for u in uses],
    }


def _run(run: ScheduleRun) -> dict[str, Any]:
    transfers, timeline = run.schedule.transfers, run.timeline
    n = len(transfers)
    first = timeline.graph.uses_start[: n + 1]
    return {
        "steps": run.schedule.makespan,
        "us": timeline.makespan * 1e6,
        "capacities": [s.capacity for s in run.problem.segments] if run.capacities else None,
        "start": column((t.start for t in transfers), "i4"),
        "chunk": column((t.chunk for t in transfers), "i4"),
        "link": column((t.link for t in transfers), "i4"),
        "reduce": column((t.reduce for t in transfers), "i4"),
        "begin": column(timeline.begin[:n] * 1e6, "f4"),
        "sent": column(timeline.sent[:n] * 1e6, "f4"),
        "end": column(timeline.end[:n] * 1e6, "f4"),
        "usesFirst": column(first, "i4"),
        "uses": column(timeline.graph.uses[: int(first[-1])], "i4"),
        "resources": _resources(timeline),
    }


def _program(run: ProgramRun) -> dict[str, Any]:
    """Return thread blocks, the steps of one loop, and the times of each in the loops shown, in microseconds."""
    last = run.tasks
    words: dict[str, int] = {}  # texts that occur often, each stored once
    fields = {"op": "operation", "peers": "peers", "src": "src", "dst": "dst"}
    columns = {
        name: column([words.setdefault(getattr(x, field), len(words)) for x in run.steps], "i4")
        for name, field in fields.items()
    }
    return {
        "us": run.timeline.makespan * 1e6,
        "loops": run.loops,
        "shown": run.shown,
        "blocks": [[block.rank, block.id, block.label] for block in run.blocks],
        "block": column((x.block for x in run.steps), "i4"),
        "step": column((x.step for x in run.steps), "i4"),
        **columns,
        "words": list(words),
        "chunks": column((c for x in run.steps for c in x.chunks), "i4"),
        "chunksFirst": column(accumulate((len(x.chunks) for x in run.steps), initial=0), "i4"),
        "since": column(run.since[:last] * 1e6, "f4"),
        "ready": column(run.timeline.ready[:last] * 1e6, "f4"),
        "end": column(run.timeline.end[:last] * 1e6, "f4"),
        "resources": _resources(run.timeline),
    }
