"""Draw a schedule: who receives which chunk in which step. Makes the picture of the README.

python docs/pictures/make.py examples/h20_4p8/topo.dsl docs/pictures/h20_4p8.svg
"""

from __future__ import annotations

import sys
from pathlib import Path
from xml.sax.saxutils import escape

from hetesynth.model.problem import Budget
from hetesynth.pipeline import Request, Synthesis, synthesize

CELL, LEFT, TOP, GAP = 26, 108, 64, 10
COLOURS = ("#0b3c5d", "#1d7874", "#e0a030", "#c8553d", "#7b3f8c", "#4f6d2f", "#8a8a8a", "#333333")
OWN = "#d9dde3"


def picture(made: Synthesis) -> str:
    """An SVG: a row per GPU, a column per chunk, coloured by the step in which the chunk arrives."""
    topology, problem = made.topology, made.problem
    servers = [topology.vertices[r].server for r in range(problem.ranks)]
    breaks = [r for r in range(1, problem.ranks) if servers[r] != servers[r - 1]]

    def at(index: int) -> int:
        return index * CELL + GAP * sum(b <= index for b in breaks)

    arrived = {(problem.arcs[t.link].dst, t.chunk): t for t in made.solution.schedule.transfers}
    width = max(600, LEFT + at(len(problem.collective.chunks)) + 24)
    height = TOP + at(problem.ranks) + 58
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="Helvetica, Arial, sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        _text(8, 22, f"{topology.name}: {problem.collective.name} in {made.solution.certificate.steps} steps, "
              f"lower bound {made.solution.certificate.bound.steps}", bold=True),
        _text(8, 44, "Row: GPU. Column: chunk, by owner. Number: step of arrival. Framed: from another server."),
    ]  # fmt: skip
    for rank in range(problem.ranks):
        y = TOP + at(rank)
        parts.append(_text(8, y + 17, topology.vertices[rank].name))
        for k, chunk in enumerate(problem.collective.chunks):
            x = LEFT + at(chunk.block[0])
            transfer = arrived.get((rank, k))
            if transfer is None:
                parts.append(_cell(x, y, OWN, "", framed=False))
                continue
            framed = servers[problem.arcs[transfer.link].src] != servers[rank]
            parts.append(
                _cell(x, y, COLOURS[transfer.start % len(COLOURS)], str(transfer.start + 1), framed=framed)
            )
    parts.append(_legend(made.solution.certificate.steps, TOP + at(problem.ranks) + 14))
    return "\n".join([*parts, "</svg>", ""])


def _cell(x: int, y: int, fill: str, label: str, *, framed: bool) -> str:
    frame = ' stroke="#111111" stroke-width="2.5"' if framed else ""
    box = f'<rect x="{x + 2}" y="{y + 2}" width="{CELL - 4}" height="{CELL - 4}" rx="3" fill="{fill}"{frame}/>'
    text = f'<text x="{x + CELL // 2}" y="{y + 17}" fill="#ffffff" text-anchor="middle">{label}</text>'
    return box + (text if label else "")


def _legend(steps: int, y: int) -> str:
    parts = [_cell(LEFT, y, OWN, "", framed=False), _text(LEFT + CELL + 4, y + 17, "own")]
    for step in range(steps):
        x = LEFT + 80 + step * 80
        parts.append(_cell(x, y, COLOURS[step % len(COLOURS)], str(step + 1), framed=False))
        parts.append(_text(x + CELL + 4, y + 17, "step"))
    return "\n".join(parts)


def _text(x: int, y: int, text: str, *, bold: bool = False) -> str:
    weight = ' font-weight="bold" font-size="14"' if bold else ""
    return f'<text x="{x}" y="{y}" fill="#222222"{weight}>{escape(text)}</text>'


if __name__ == "__main__":
    source, target = Path(sys.argv[1]), Path(sys.argv[2])
    target.write_text(picture(synthesize(Request(source, "allgather", budget=Budget(60.0)))))
