"""A report as the values that its page reads: columns of numbers, names, places.

In: a report. Out: a dictionary that JSON can say; long columns are base64 of little-endian arrays, which are
small and need no parsing. Microseconds. Decides what is shown, not how.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hetesynth.model.collective import Collective
from hetesynth.model.timeline import Timeline
from hetesynth.model.topology import Topology
from hetesynth.report.contents import ProgramRun, Report, ScheduleRun
from hetesynth.report.drawing import drawing, label

Kind = Literal["f4", "i4", "u2"]


def column(values: Iterable[float] | NDArray[np.float64], kind: Kind) -> dict[str, str]:
    """Numbers as ``{"t": kind, "v": base64}``; ``u2`` only where all fit."""
    array = np.asarray(values if isinstance(values, np.ndarray) else list(values))
    if kind == "i4" and (not len(array) or (array.min() >= 0 and array.max() < 2**16)):
        kind = "u2"
    return {"t": kind, "v": b64encode(array.astype(f"<{kind}").tobytes()).decode("ascii")}


def page_values(report: Report) -> dict[str, Any]:
    """Everything the page shows."""
    return {
        "title": report.title,
        "size": report.size,
        "collective": None if report.collective is None else _collective(report.collective),
        "topology": _topology(report.topology),
        "run": None if report.run is None else _run(report.run),
        "program": None if report.program is None else _program(report.program),
        "sizes": list(report.sizes),
        "curves": [
            {"name": c.name, "role": c.role, "us": [round(s * 1e6, 6) for s in c.seconds]} for c in report.curves
        ],
    }


def _collective(collective: Collective) -> dict[str, Any]:
    return {
        "name": collective.name,
        "reduces": collective.reduces,
        "blocks": [list(chunk.block) for chunk in collective.chunks],
        "parts": [chunk.part for chunk in collective.chunks],
        "pre": [sorted(ranks) for ranks in collective.pre],
        "perRank": collective.chunks_per_rank,
    }


def _topology(topology: Topology) -> dict[str, Any]:
    drawn = drawing(topology)
    kinds = list(dict.fromkeys(w.kind for w in topology.wires))
    link_kinds = list(dict.fromkeys(x.kind for x in topology.links))
    limited = [i for i, w in enumerate(topology.wires) if w.bandwidth is not None]
    resource = {wire: number for number, wire in enumerate(limited)}
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
            [s.name, s.box.x, s.box.y, s.box.width, s.box.height, s.caption_y, list(s.captions)]
            for s in drawn.servers
        ],
        "kinds": kinds,
        "wires": [
            [
                w.src, w.dst, kinds.index(w.kind), resource.get(i, -1),
                None if w.bandwidth is None else float(w.bandwidth * w.lanes) / 1e9, w.lanes,
                round(float(w.latency) * 1e6, 4), c.x1, c.y1, c.cx, c.cy, c.x2, c.y2,
            ]
            for i, (w, c) in enumerate(zip(topology.wires, drawn.wires, strict=True))
        ],
        "groups": [[g.name, g.kind, float(g.bandwidth * g.lanes) / 1e9, len(g.links)] for g in topology.groups],
        "linkKinds": link_kinds,
        "links": {
            "kind": column((link_kinds.index(x.kind) for x in topology.links), "i4"),
            "src": column((x.src for x in topology.links), "i4"),
            "dst": column((x.dst for x in topology.links), "i4"),
            "first": column(_starts([x.wires for x in topology.links]), "i4"),
            "path": column((w for x in topology.links for w in x.wires), "i4"),
        },
    }  # fmt: skip


def _starts(rows: Sequence[Sequence[int]]) -> list[int]:
    starts = [0]
    for row in rows:
        starts.append(starts[-1] + len(row))
    return starts


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
    """Thread blocks, the steps of one loop, and when each ran in the loops shown."""
    words = _Words()
    last = run.tasks
    return {
        "us": run.timeline.makespan * 1e6,
        "loops": run.loops,
        "shown": run.shown,
        "blocks": [[block.rank, block.id, block.label] for block in run.blocks],
        "block": column((x.block for x in run.steps), "i4"),
        "step": column((x.step for x in run.steps), "i4"),
        "op": column([words.number(x.operation) for x in run.steps], "i4"),
        "peers": column([words.number(x.peers) for x in run.steps], "i4"),
        "src": column([words.number(x.src) for x in run.steps], "i4"),
        "dst": column([words.number(x.dst) for x in run.steps], "i4"),
        "words": words.texts,
        "chunks": column((c for x in run.steps for c in x.chunks), "i4"),
        "chunksFirst": column(_starts([x.chunks for x in run.steps]), "i4"),
        "since": column(run.since[:last] * 1e6, "f4"),
        "ready": column(run.timeline.ready[:last] * 1e6, "f4"),
        "end": column(run.timeline.end[:last] * 1e6, "f4"),
        "resources": _resources(run.timeline),
    }


class _Words:
    """Texts that occur often, each stored once."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """Which of ``texts`` is ``text``."""
        if text not in self._numbers:
            self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return self._numbers[text]
