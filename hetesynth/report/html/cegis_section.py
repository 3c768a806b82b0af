"""The section of the page that says how CEGIS got to a schedule: markup that needs no script.

In: a ``CegisRun``, whose names are anybody's. Out: safe markup.
"""

from __future__ import annotations

from collections.abc import Iterable

from hetesynth.report.cegis_run import CegisRun, Cell, GridRow, Snapshot, Snapshots
from hetesynth.report.html.markup import text_markup as _text

_LEGEND = (
    ("some", "part of the capacity, or chunks that arrive"),
    ("full", "full"),
    ("over", "more than the capacity, or a chunk that breaks a law"),
    ("here", "the checkpoint: steps before it are frozen"),
)
_LOOKS = {"Iteration": "text", "What": "text", "Counterexamples": "words text", "Z3 said": "text"}  # else numbers


def cegis_section(run: CegisRun) -> str:
    """The section."""
    said = "".join(f"<p>{_text(sentence)}</p>\n" for sentence in run.said)
    heads = "".join(f'<th scope="col"{_look(head)}>{_text(head)}</th>' for head in run.heads)
    rows = "".join(f"<tr>{_cells(run.heads, row)}</tr>\n" for row in run.rows)
    table = f"<table><thead><tr>{heads}</tr></thead>\n<tbody>\n{rows}</tbody></table>"
    return (
        '<section id="cegis" aria-labelledby="cegis-h">\n<h2 id="cegis-h">How CEGIS got there</h2>\n'
        f'{said}<div class="scroll" tabindex="0" role="group" aria-label="Iterations">{table}</div>\n'
        f"{_legend() if run.phases else ''}{''.join(map(_phase, run.phases))}</section>\n"
    )


def _cells(heads: Iterable[str], row: Iterable[str]) -> str:
    """An iteration."""
    return "".join(f"<td{_look(head)}>{_text(text)}</td>" for head, text in zip(heads, row, strict=True))


def _look(head: str) -> str:
    """The class of a column of the table."""
    return f' class="{_LOOKS[head]}"' if head in _LOOKS else ""


def _legend() -> str:
    items = "".join(f'<span><i class="{mark}"></i>{text}</span>' for mark, text in _LEGEND)
    return f'<p class="legend">{items}</p>\n'


def _phase(phase: Snapshots) -> str:
    head = f"<h3>{_text(phase.phase)}</h3>\n" if phase.phase else ""
    said = f'<p class="quiet">{_text(phase.said)}</p>\n' if phase.said else ""
    return f'{head}{said}<div class="snapshots">\n{"".join(map(_snapshot, phase.shown))}</div>\n'


def _snapshot(snapshot: Snapshot) -> str:
    said = f"<p>{_text(snapshot.said)}</p>\n" if snapshot.said else ""
    ranks = _grid(snapshot, "Rank: chunks that arrive", snapshot.ranks)
    return (
        f'<div class="snapshot"><h4>{_text(snapshot.title)}</h4>\n{said}'
        f"{_grid(snapshot, 'Resource: chunks of its capacity', snapshot.resources)}"
        f"<details><summary>What arrives where</summary>\n{ranks}</details></div>\n"
    )


def _grid(snapshot: Snapshot, what: str, rows: Iterable[GridRow]) -> str:
    here = [step == snapshot.checkpoint for step in range(1, snapshot.steps + 1)]
    heads = "".join(
        f'<th scope="col"{_here(marked)}>{step}{" checkpoint" if marked else ""}</th>'
        for step, marked in enumerate(here, 1)
    )
    body = "".join(
        f'<tr><th scope="row">{_text(row.name)}</th>{"".join(map(_cell, row.cells))}</tr>\n' for row in rows
    )
    return (
        f'<div class="scroll"><table class="grid"><thead><tr><th scope="col">{what}</th>{heads}</tr></thead>\n'
        f"<tbody>{body}</tbody></table></div>\n"
    )


def _here(marked: bool) -> str:
    return ' class="here"' if marked else ""


def _cell(cell: Cell) -> str:
    full = f' title="{_text(cell.all)}"' if cell.all != cell.text else ""
    mark = f' class="{cell.mark}"' if cell.mark else ""
    return f"<td{mark}{full}>{_text(cell.text)}</td>"
