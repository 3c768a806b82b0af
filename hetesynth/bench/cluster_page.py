"""docs/benchmarks_clusters.md: the table of programs on examples and generated clusters as markdown.

In: cells. Out: text: a summary by size and collective, then a row for each cluster. Decides nothing but the words.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence

from hetesynth.bench.cluster_cells import ClusterCell
from hetesynth.bench.machine import machine
from hetesynth.model.collective import CollectiveName
from hetesynth.report.words import size_text

SHARES = (93, 85)  # percent of the limit below which cells are counted
AS_FAST = 0.995  # as two decimals show it


def cluster_page(cells: Sequence[ClusterCell], asked: int) -> str:
    """The page; ``asked``: how many cells a whole run of this selection has."""
    budgets = sorted({cell.budget for cell in cells})
    costs = "counted" if any(cell.runtime_costs for cell in cells) else "left out"
    blocks = sorted({cell.thread_blocks for cell in cells if cell.thread_blocks is not None})
    lines = [
        "# Programs on clusters that nobody tuned for",
        "",
        "Made by `hetesynth bench --clusters`. What the default command, `synth --size`, writes on every example",
        "and on generated clusters (`hetesynth/bench/generated_clusters.py`: random, the same for the same seed).",
        "All times are those of **programs**, **simulated** on the time model of [model.md](model.md), not",
        "measured on GPUs. The limit is the bound that the command proves, the larger of throughput and latency;",
        "the library is NCCL or RCCL: the quicker of its own choice by its formulas ([reality.md](reality.md))",
        "and of its rings or sends, simulated with as many channels as pay.",
        f"`--time-budget {', '.join(f'{budget:g}' for budget in budgets)}`; what a runtime costs is {costs}; the",
        "seconds of a command are on the wall, without starting Python.",
        *([f"With {', '.join(map(str, blocks))} thread blocks a GPU, which no runtime has."] if blocks else []),
        *([f"**Incomplete**: {len(cells)} of {asked} cells."] if len(cells) < asked else []),
        "",
        "## Summary",
        "",
        "Percent of the limit. `worst three` are cells, the others are over all cells of a line.",
        "",
        f"| size | collective | cells | median | 10th percentile | worst three | "
        f"{' | '.join(f'below {share} %' for share in SHARES)} | slower than the library | no program |",
        "|---|---|---|---|---|---|" + "---|" * len(SHARES) + "---|---|",
        *_summary(cells),
    ]
    for size in _sizes(cells):
        lines += ["", f"## {size_text(size)}", "", *_table([cell for cell in cells if cell.size == size])]
    lines += [*_failures(cells), "", "## Made on", "", "| | |", "|---|---|"]
    lines += [f"| {name} | {value} |" for name, value in machine().items()]
    return "\n".join([*lines, ""])


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least ``share`` of all do not exceed (nearest rank)."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def _sizes(cells: Sequence[ClusterCell]) -> list[int]:
    return sorted({cell.size for cell in cells}, reverse=True)


def _collectives(cells: Sequence[ClusterCell]) -> list[CollectiveName]:
    """In the order in which they were measured."""
    return [*dict.fromkeys(cell.collective for cell in cells)]


def _summary(cells: Sequence[ClusterCell]) -> Iterator[str]:
    for size in _sizes(cells):
        of_size = [cell for cell in cells if cell.size == size]
        for collective in _collectives(of_size):
            yield _summary_line(size, collective, [cell for cell in of_size if cell.collective == collective])
        yield _summary_line(size, "all", of_size)


def _summary_line(size: int, name: str, cells: Sequence[ClusterCell]) -> str:
    reached = sorted((cell.percent, cell.cluster) for cell in cells if cell.percent is not None)
    shares = [share for share, _ in reached]
    slower = sum(cell.factor is not None and cell.factor < AS_FAST for cell in cells)
    compared = sum(cell.factor is not None for cell in cells)
    columns = [size_text(size), name, str(len(cells)), "-", "-", "-"]
    if shares:
        columns[3:] = f"{statistics.median(shares):.1f}", f"{percentile(shares, 0.1):.1f}"
        columns.append(", ".join(f"{share:.1f} ({cluster})" for share, cluster in reached[:3]))
    columns += [str(sum(share < least for share in shares)) for least in SHARES]
    columns += [f"{slower} of {compared}", str(len(cells) - len(shares))]
    return f"| {' | '.join(columns)} |"


def _table(cells: Sequence[ClusterCell]) -> Iterator[str]:
    collectives = _collectives(cells)
    yield "Time of the program, percent of the limit, times as fast as the library. `s`: of the slowest command."
    yield ""
    yield f"| cluster | GPUs | {' | '.join(collectives)} | s |"
    yield "|---|---|" + "---|" * len(collectives) + "---|"
    for cluster in dict.fromkeys(cell.cluster for cell in cells):
        row = {cell.collective: cell for cell in cells if cell.cluster == cluster}
        gpus = next((str(cell.gpus) for cell in row.values() if cell.gpus is not None), "-")
        walls = [cell.wall for cell in row.values() if cell.wall is not None]
        columns = [_figures(row[name]) if name in row else "-" for name in collectives]
        yield f"| {cluster} | {gpus} | {' | '.join(columns)} | {f'{max(walls):.0f}' if walls else '-'} |"


def _figures(cell: ClusterCell) -> str:
    if cell.program is None:
        return "none"
    share = "-" if cell.percent is None else f"{cell.percent:.1f} %"
    ring = "no library" if cell.factor is None else f"{cell.factor:.2f} x"
    return f"{cell.program * 1e6:,.0f} us, {share}, {ring}"


def _failures(cells: Sequence[ClusterCell]) -> Iterator[str]:
    """Why there is no program where there is none."""
    failed = [cell for cell in cells if cell.program is None]
    if failed:
        yield from ("", "## Without a program", "")
    for cell in failed:
        why = cell.error or "the command named no time of a program"
        yield f"- {cell.cluster}, {cell.collective}, {size_text(cell.size)}: {why}"
