"""docs/hetecclpaper.md and its tables: the evaluation of HeteCCL beside ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks.heteccl import step_tables, time_tables
from benchmarks.heteccl.cases import all_cases
from benchmarks.heteccl.run import Entries
from benchmarks.heteccl.scores import Score, scores
from benchmarks.machine import load, machine
from benchmarks.tables import csv_text, wrapped

_HEAD = """\
# The evaluation of HeteCCL, side by side

The figures of the paper (HeteCCL, NSDI 2026) beside what hetesynth's default command reaches. Written by
`PYTHONPATH=tests python -m benchmarks heteccl` (`--only` selects).
Steps are exact and bounds proved; **times are simulated** ([model.md](model.md)), nothing was timed on GPUs. The
paper's seconds are of another machine.

"""
_RIVALS = """\
## What the others are here

All are models: programs in the same simulator, on the same clusters, with the same costs and our lowering. None
is the system itself, and a ratio below the paper's is no evidence against the paper, which measured real systems.

- **NCCL**: what it would choose, by its own formulas ([reality.md](reality.md)); **best rings**: one for each NIC,
  in the best order of GPUs, as our own program (`--strategy ring`). No library runs those.
- **TACCL**: routes balanced by load over the links of two sketches of its repository, list-scheduled; the quicker
  sketch counts. No MILP is solved.
- **TE-CCL**: **HS**, a schedule of the fewest steps with one chunk a GPU; **SE**, one greedy pass.
- **SyCCL**: not modelled.

Assumed, where the paper does not state it: buffer sizes of figures 6, 7, 13 and 15; that figures 8b and 8f to 8h
are of (4x2+8); which servers are slow ([examples](../examples/README.md)); the base clusters of figure 15; the
compute times of figure 9 (`tests/benchmarks/heteccl/training.py`).

## The data

[data/hetecclpaper](data/hetecclpaper) has a table for each figure: `table_1` (seconds of synthesis), `flood` and
`greedy` (Algorithm 1 from two starts), `equation_8` (reductions), `section_7` (4096 GPUs in pods), `figure_*` (`x
NCCL`: how many times as fast ours is; `paper`: the range that it states; `limit x NCCL`: the ratio of a program
at the proved limit) and `appendix_k` (equations 9 to 11 beside a simulated path; both leave out that the first
batch crosses the last hop). Figures 1, 4, 14 and 18 need GPUs or a licensed solver and were not made.
"""


def page(entries: Entries) -> str:
    """The whole page, or what a selection has of it."""
    cases = all_cases()
    parts = [_HEAD.strip()]
    if len(entries) < len(cases):
        parts.append(f"**Incomplete: {len(entries)} of {len(cases)} cases are measured.**")
    parts += [f"**Failed**: {entry.name}: {entry.error}" for entry in entries.values() if entry.error]
    facts = ", ".join(f"{name} {value}" for name, value in machine().items())
    seconds = sum(entry.wall for entry in entries.values())
    parts += ["\n".join(scorecard(scores(entries))), _RIVALS.strip()]
    return wrapped("\n\n".join([*parts, f"Measured in {seconds:.0f} s, load after {load()}, on: {facts}."]))


def data(entries: Entries) -> dict[str, str]:
    """The tables, by file."""
    every = (*step_tables.tables(entries), *time_tables.tables(entries))
    return {f"hetecclpaper/{name}.csv": csv_text(head.split("|"), rows) for name, head, rows in every}


def scorecard(every: Sequence[Score]) -> Iterator[str]:
    """How many of the paper's numbers are reached, then each."""
    met = sum(score.met for score in every)
    beyond = sum(score.verdict == "no: beyond the limit" for score in every)
    yield "## Scorecard"
    yield ""
    yield (
        f"{met} of the {len(every)} numbers that the paper states are reached: ours is no smaller (of seconds: no "
        "larger, with steps equal to the bound). `at the limit` is the ratio that a program at the proved limit "
        f"has to the same rival: {beyond} numbers are beyond it, so that no program reaches them against these "
        "models. Where the paper compares with NCCL, the last column is our ratio to the best rings instead."
    )
    yield ""
    yield "| figure | what | paper | ours | at the limit | reached | beside best rings |"
    yield "|---|---|---|---|---|---|---|"
    for score in every:
        ours = "not measured" if score.ours is None else _number(score.ours, score.unit)
        ceiling = "-" if score.ceiling is None else _number(score.ceiling, score.unit)
        paper = _number(score.paper, score.unit)
        rings = "-" if score.rings is None else _number(score.rings, score.unit)
        yield f"| {score.figure} | {score.what} | {paper} | {ours} | {ceiling} | {score.verdict} | {rings} |"
    reasons = dict.fromkeys(score.why for score in every if score.ours is not None and score.why)
    if reasons:
        yield ""
        yield "Where ours is smaller:"
        yield ""
        yield from (f"- {why}." for why in reasons)


def _number(value: float, unit: str) -> str:
    if unit == "s":
        return f"{value:.3g} s"
    return f"{value:.2f} x" if unit == "x" else f"{value:.1f} %"
