"""How CEGIS got to a schedule, for the page: a table of its iterations and, where they are small, snapshots.

Steps count from 1, as on the rest of the page; the trace and the judges count from 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from hetesynth.engine.problem import CEGIS
from hetesynth.model.cegis_trace import CALLED, CegisEntry, Sent, totals
from hetesynth.model.problem import Problem
from hetesynth.model.words import counted
from hetesynth.report.contents import CegisRun, Cell, GridRow, Mark, Snapshot, Snapshots
from hetesynth.search.collectives import DUAL, invert, split

if TYPE_CHECKING:
    from hetesynth.engine.artifacts import Synthesis

MAX_ROWS = 200  # of the table
MAX_SNAPSHOTS = 6  # of a phase
MAX_RESOURCES = 24  # that a snapshot shows
MAX_COLUMNS = 40  # steps of a snapshot
CHUNKS_NAMED = 6  # in a cell
OTHERS = "Other techniques ran as well, and the schedule may be theirs: --explain says what became of each."

HEADS = ("Iteration", "What", "Steps", "Checkpoint", "Counterexamples", "Z3 said", "Sends in its model", "Units")
_ACTIONS = {
    "seed": "VERIFY of the first candidate",
    "fill": "greedy fills a step",
    "solve": "Z3 chooses a step",
    "whole": "Z3 chooses all steps from the checkpoint on",
}


def cegis_run(synthesis: Synthesis) -> CegisRun | None:
    """What the page shows of it; None where CEGIS did not run."""
    entries = synthesis.cegis
    if not entries:
        return None
    total = totals(entries)
    said = [
        f"{counted(total.iterations, 'iteration')} with {counted(total.counterexamples, 'counterexample')} and "
        f"{counted(total.calls, 'call')} of Z3 ({total.units:,} units). The checkpoint moved back "
        f"{counted(total.moved_back, 'time')}; Z3 was told {counted(total.laws, 'law')}; its largest model had "
        f"{total.largest_model:,} Send variables. Seconds are in the file of --log."
    ]
    if total.iterations > MAX_ROWS:
        said.append(f"The table has the first and the last {MAX_ROWS // 2} iterations; --log has all.")
    if synthesis.by_steps.strategy != CEGIS:
        said.append(OTHERS)
    rows = list(enumerate(entries, 1))
    if len(rows) > MAX_ROWS:
        rows = [*rows[: MAX_ROWS // 2], *rows[-(MAX_ROWS // 2) :]]
    return CegisRun(tuple(said), HEADS, tuple(map(_row, rows)), tuple(_phases(synthesis)))


def _row(numbered: tuple[int, CegisEntry]) -> tuple[str, ...]:
    number, entry = numbered
    asked = entry.answer is not None
    return (
        str(number),
        (f"{entry.phase}: " if entry.phase else "") + _ACTIONS[entry.action],
        str(entry.steps),
        "" if entry.checkpoint is None else str(entry.checkpoint + 1),
        _counterexamples(entry),
        _answer(entry),
        f"{entry.sends:,}" if asked else "",
        f"{entry.units:,}" if entry.answer in CALLED else "",
    )


def _answer(entry: CegisEntry) -> str:
    if entry.answer is None:
        return ""
    return entry.answer if entry.answer in CALLED else f"{entry.answer}: a linear program, before Z3"


def _counterexamples(entry: CegisEntry) -> str:
    """In words, with steps from 1 on."""
    words = [re.sub(r"\bstep (\d+)", lambda m: f"step {int(m[1]) + 1}", text) for text in entry.counterexamples]
    more = entry.number - len(words)
    return "; ".join([*words, *([f"and {more} more"] if more > 0 else [])])


# -- snapshots


def _phases(synthesis: Synthesis) -> Iterable[Snapshots]:
    """The snapshots of each phase. A search for a size tries many problems: none of them is drawn."""
    if synthesis.request.size is not None:
        return
    for phase, (problem, said) in _problems(synthesis.by_steps.problem).items():
        shown = [
            (number, entry, entry.snapshot)
            for number, entry in enumerate(synthesis.cegis, 1)
            if entry.phase == phase and entry.snapshot is not None and entry.steps <= MAX_COLUMNS
        ]
        if shown:
            yield Snapshots(phase.capitalize(), said, tuple(_snapshots(problem, _chosen(shown))))


def _problems(problem: Problem) -> dict[str, tuple[Problem, str]]:
    """The problem that CEGIS was given in each phase, and what the reader must know of it."""
    backwards = "A reduction is sought as a copy run backwards: step 1 here is the last step of the schedule."
    if problem.collective.name == "allreduce":
        scatter, gather, _ = split(problem)
        return {"reduce-scatter": (invert(scatter)[0], backwards), "allgather": (gather, "")}
    if problem.collective.name in DUAL:
        return {"": (invert(problem)[0], backwards)}
    return {"": (problem, "")}


Drawn = tuple[int, CegisEntry, tuple[Sent, ...]]


def _chosen(shown: list[Drawn]) -> list[Drawn]:
    """The first, the last, and between them those with a counterexample or an answer of Z3, evenly."""
    if len(shown) <= MAX_SNAPSHOTS:
        return shown
    between = [drawn for drawn in shown[1:-1] if drawn[1].number or drawn[1].answer == "sat"] or shown[1:-1]
    room = min(MAX_SNAPSHOTS - 2, len(between))
    return [shown[0], *(between[i * len(between) // room] for i in range(room)), shown[-1]]


def _snapshots(problem: Problem, drawn: Sequence[Drawn]) -> Iterable[Snapshot]:
    loads = [_loads(problem, sent) for _, _, sent in drawn]
    rows = _busiest(problem, loads)
    for (number, entry, sent), load in zip(drawn, loads, strict=True):
        fine = "No counterexample." if entry.answer is None else f"Z3: {_answer(entry)}."
        yield Snapshot(
            title=f"Iteration {number}: {_ACTIONS[entry.action]}",
            said=_counterexamples(entry) or fine,
            steps=entry.steps,
            checkpoint=None if entry.checkpoint is None else entry.checkpoint + 1,
            resources=tuple(_resource(problem, r, load, entry.steps) for r in rows),
            ranks=tuple(_ranks(problem, sent, entry.steps)),
        )


def _loads(problem: Problem, sent: Iterable[Sent]) -> dict[tuple[int, int], int]:
    """How many chunks each resource carries in each step."""
    through: dict[int, list[int]] = {}
    for r, resource in enumerate(problem.binding_resources):
        for a in resource.arcs:
            through.setdefault(a, []).append(r)
    chunks: dict[tuple[int, int], int] = {}
    for _, link, step in sent:
        for r in through.get(link, ()):
            chunks[r, step] = chunks.get((r, step), 0) + 1
    return chunks


def _busiest(problem: Problem, loads: Sequence[Mapping[tuple[int, int], int]]) -> list[int]:
    """The resources to show, in the problem's order: the fullest of each snapshot, then the fullest of all."""
    in_any: dict[int, float] = {}
    first: list[int] = []
    for load in loads:
        shares: dict[int, float] = {}  # the most in one step over the capacity
        for (r, _), number in load.items():
            shares[r] = max(shares.get(r, 0.0), number / problem.binding_resources[r].capacity)
        first += [_fullest(shares)[0]] if shares else []
        in_any = {r: max(in_any.get(r, 0.0), shares.get(r, 0.0)) for r in in_any.keys() | shares.keys()}
    return sorted(list(dict.fromkeys([*first, *_fullest(in_any)]))[:MAX_RESOURCES])


def _fullest(shares: Mapping[int, float]) -> list[int]:
    return sorted(shares, key=lambda r: (-shares[r], r))


def _resource(problem: Problem, r: int, loads: Mapping[tuple[int, int], int], steps: int) -> GridRow:
    resource = problem.binding_resources[r]
    cells = []
    for step in range(steps):
        number = loads.get((r, step), 0)
        text = f"{number} of {resource.capacity}" if number else ""
        mark: Mark = "some" if number else ""
        if number >= resource.capacity:
            mark = "over" if number > resource.capacity else "full"
        cells.append(Cell(text, mark, text))
    return GridRow(resource.name, tuple(cells))


def _ranks(problem: Problem, sent: Sequence[Sent], steps: int) -> Iterable[GridRow]:
    """What arrives at each rank; marked where it is held already, twice there, or sent by one that lacks it."""
    holds = {(k, r) for k, pre in enumerate(problem.collective.pre) for r in pre}
    arriving: dict[tuple[int, int], list[int]] = {}
    broken: set[tuple[int, int]] = set()
    for step in range(steps):
        before = set(holds)
        for chunk, link, _ in (one for one in sent if one[2] == step):
            arc = problem.arcs[link]
            if (chunk, arc.dst) in holds or (chunk, arc.src) not in before:
                broken.add((arc.dst, step))
            holds.add((chunk, arc.dst))
            arriving.setdefault((arc.dst, step), []).append(chunk)
    for rank in range(problem.ranks):
        cells = []
        for step in range(steps):
            chunks = sorted(arriving.get((rank, step), ()))
            mark: Mark = "over" if (rank, step) in broken else "some" if chunks else ""
            more = f" +{len(chunks) - CHUNKS_NAMED}" if len(chunks) > CHUNKS_NAMED else ""
            words = " ".join(map(str, chunks[:CHUNKS_NAMED])) + more
            cells.append(Cell(words, mark, " ".join(map(str, chunks))))
        yield GridRow(f"rank {rank}", tuple(cells))
