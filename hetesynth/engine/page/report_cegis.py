"""How CEGIS got to a schedule, for the page: a table of its iterations and, where they are small, snapshots.

Steps count from 1, as on the rest of the page; the trace and the judges count from 0.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from hetesynth.engine.artifacts import Synthesis
from hetesynth.engine.problem import CEGIS
from hetesynth.model.cegis_trace import CALLED, CegisEntry, Sent, totals
from hetesynth.model.problem import Problem
from hetesynth.model.words import counted
from hetesynth.report.contents import CegisRun, Cell, GridRow, Mark, Snapshot, Snapshots
from hetesynth.search.collectives import DUAL, invert, split

MAX_ROWS = 200  # of the table
MAX_SNAPSHOTS = 6  # of a phase
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
    numbered = list(enumerate(entries, 1))
    if len(numbered) > MAX_ROWS:
        numbered = [*numbered[: MAX_ROWS // 2], *numbered[-(MAX_ROWS // 2) :]]
    rows = [
        (
            str(number),
            (f"{entry.phase}: " if entry.phase else "") + _ACTIONS[entry.action],
            str(entry.steps),
            "" if entry.checkpoint is None else str(entry.checkpoint + 1),
            _counterexamples(entry),
            _answer(entry),
            "" if entry.answer is None else f"{entry.sends:,}",
            f"{entry.units:,}" if entry.answer in CALLED else "",
        )
        for number, entry in numbered
    ]
    return CegisRun(tuple(said), HEADS, tuple(rows), tuple(_phases(synthesis)))


def _answer(entry: CegisEntry) -> str:
    if entry.answer is None or entry.answer in CALLED:
        return entry.answer or ""
    return f"{entry.answer}: a linear program, before Z3"


def _counterexamples(entry: CegisEntry) -> str:
    """In words, with steps from 1 on."""
    words = [re.sub(r"\bstep (\d+)", lambda m: f"step {int(m[1]) + 1}", text) for text in entry.counterexamples]
    more = entry.number - len(words)
    return "; ".join([*words, *([f"and {more} more"] if more > 0 else [])])


def _phases(synthesis: Synthesis) -> Iterable[Snapshots]:
    """The snapshots of each phase: the first, the last, and between them those with a counterexample or an answer
    of Z3, evenly. A search for a size tries many problems: none of them is drawn."""
    if synthesis.request.size is not None:
        return
    problem = synthesis.by_steps.problem
    backwards = "A reduction is sought as a copy run backwards: step 1 here is the last step of the schedule."
    problems = {"": (problem, "")}
    if problem.collective.name == "allreduce":
        scatter, gather, _ = split(problem)
        problems = {"reduce-scatter": (invert(scatter)[0], backwards), "allgather": (gather, "")}
    elif problem.collective.name in DUAL:
        problems = {"": (invert(problem)[0], backwards)}
    for phase, (sought, said) in problems.items():
        shown = [
            (number, entry, entry.snapshot)
            for number, entry in enumerate(synthesis.cegis, 1)
            if entry.phase == phase and entry.snapshot is not None and entry.steps <= 40
        ]
        if len(shown) > MAX_SNAPSHOTS:
            between = [drawn for drawn in shown[1:-1] if drawn[1].number or drawn[1].answer == "sat"] or shown[
                1:-1
            ]
            room = min(MAX_SNAPSHOTS - 2, len(between))
            shown = [shown[0], *(between[i * len(between) // room] for i in range(room)), shown[-1]]
        if shown:
            yield Snapshots(phase.capitalize(), said, tuple(_snapshots(sought, shown)))


def _snapshots(problem: Problem, drawn: Sequence[tuple[int, CegisEntry, tuple[Sent, ...]]]) -> Iterable[Snapshot]:
    """Of the resources the fullest of each snapshot, then the fullest of all, in the problem's order."""
    through: dict[int, list[int]] = defaultdict(list)
    for r, resource in enumerate(problem.binding_resources):
        for a in resource.arcs:
            through[a].append(r)
    # how many chunks each resource carries in each step
    loads = [Counter((r, step) for _, link, step in sent for r in through.get(link, ())) for _, _, sent in drawn]
    in_any: dict[int, float] = {}
    first: list[int] = []
    for load in loads:
        shares: dict[int, float] = {}  # the most in one step over the capacity
        for (r, _), number in load.items():
            shares[r] = max(shares.get(r, 0.0), number / problem.binding_resources[r].capacity)
        first += sorted(shares, key=lambda r: (-shares[r], r))[:1]
        in_any = {r: max(in_any.get(r, 0.0), shares.get(r, 0.0)) for r in in_any.keys() | shares.keys()}
    fullest = sorted(in_any, key=lambda r: (-in_any[r], r))
    listed = sorted(list(dict.fromkeys([*first, *fullest]))[:24])
    for (number, entry, sent), load in zip(drawn, loads, strict=True):
        resources = []
        for r in listed:
            cells, capacity = [], problem.binding_resources[r].capacity
            for step in range(entry.steps):
                many = load.get((r, step), 0)
                text = f"{many} of {capacity}" if many else ""
                mark: Mark = "over" if many > capacity else "full" if many == capacity else "some" if many else ""
                cells.append(Cell(text, mark, text))
            resources.append(GridRow(problem.binding_resources[r].name, tuple(cells)))
        fine = "No counterexample." if entry.answer is None else f"Z3: {_answer(entry)}."
        yield Snapshot(
            title=f"Iteration {number}: {_ACTIONS[entry.action]}",
            said=_counterexamples(entry) or fine,
            steps=entry.steps,
            checkpoint=None if entry.checkpoint is None else entry.checkpoint + 1,
            resources=tuple(resources),
            ranks=tuple(_arrivals(problem, sent, entry.steps)),
        )


def _arrivals(problem: Problem, sent: Sequence[Sent], steps: int) -> Iterable[GridRow]:
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
