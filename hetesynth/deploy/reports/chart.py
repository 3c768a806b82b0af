"""By how much programs changed since the last run, as a small chart.

In: cells. Out: SVG inside of HTML, or a sentence where nothing changed. Colours are those of the page's styles.
"""

from __future__ import annotations

from collections.abc import Sequence

from hetesynth.deploy.outcome import CellReport
from hetesynth.deploy.reports.figures import SHOWN_PERCENT, change_percent, percent_text
from hetesynth.deploy.reports.words import one_line
from hetesynth.model.words import counted
from hetesynth.report.size_plot import text_markup

MAX_BARS = 20
ROW, BAR, NAMES, SIDE, VALUE = 22, 12, 330, 150, 70
LONGEST_NAME = 46


def change_chart(cells: Sequence[CellReport]) -> str:
    """A bar for each of the largest changes: to the left quicker, to the right slower."""
    compared = [(change, cell) for cell in cells if (change := change_percent(cell)) is not None]
    changed = sorted((c for c in compared if abs(c[0]) >= SHOWN_PERCENT), key=lambda pair: -abs(pair[0]))
    if not compared:
        return "<p>No program is compared: there was no last run.</p>"
    if not changed:
        return f"<p>No program takes another time than in the last run ({counted(len(compared), 'cell')}).</p>"
    bars = changed[:MAX_BARS]
    more = f" The {MAX_BARS} largest of {len(changed)}." if len(changed) > len(bars) else ""
    same = len(compared) - len(changed)
    width, height = NAMES + 2 * (SIDE + VALUE), ROW * len(bars) + 8
    scale = SIDE / max(abs(change) for change, _ in bars)
    rows = [_bar(k, change, cell, scale) for k, (change, cell) in enumerate(bars)]
    middle = NAMES + SIDE + VALUE
    return (
        f'<figure><svg viewBox="0 0 {width} {height}" role="img" aria-label="Change of the program time by cell">'
        f'<line class="axis" x1="{middle}" x2="{middle}" y1="0" y2="{height}"/>{"".join(rows)}</svg>'
        f"<figcaption>Program time against the last run: quicker to the left, slower to the right. "
        f"{same} of {len(compared)} are the same.{more}</figcaption></figure>"
    )


def _bar(row: int, change: float, cell: CellReport, scale: float) -> str:
    middle, length = NAMES + SIDE + VALUE, max(1.0, abs(change) * scale)
    y = row * ROW + 4
    quicker = change < 0
    x = middle - length if quicker else middle
    at = middle - length - 6 if quicker else middle + length + 6
    name = one_line(cell.cell.name)
    short = name if len(name) <= LONGEST_NAME else f"...{name[3 - LONGEST_NAME :]}"
    return (
        f'<g><title>{text_markup(name)}: {percent_text(change)}</title><text class="name" x="{NAMES - 8}" '
        f'y="{y + BAR}">{text_markup(short)}</text><rect class="{"quicker" if quicker else "slower"}" '
        f'x="{x:.1f}" y="{y + 1}" width="{length:.1f}" height="{BAR}"/><text class="value" x="{at:.1f}" '
        f'y="{y + BAR}" text-anchor="{"end" if quicker else "start"}">{percent_text(change)}</text></g>'
    )
