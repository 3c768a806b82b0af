"""How CEGIS got to a schedule, for the page: a table of its iterations.

Steps count from 1, as on the rest of the page; the trace and the judges count from 0.
"""

from __future__ import annotations

import re

from hetesynth.engine.artifacts import Synthesis
from hetesynth.engine.problem import CEGIS
from hetesynth.model.cegis_trace import CALLED, CegisEntry, totals
from hetesynth.model.words import counted
from hetesynth.report.contents import CegisRun

MAX_ROWS = 200  # of the table
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
        f"{counted(total.calls, 'call')} of Z3 ({total.units:,} units), whose largest model had "
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
    return CegisRun(tuple(said), HEADS, tuple(rows))


def _answer(entry: CegisEntry) -> str:
    if entry.answer is None or entry.answer in CALLED:
        return entry.answer or ""
    return f"{entry.answer}: a linear program, before Z3"


def _counterexamples(entry: CegisEntry) -> str:
    """In words, with steps from 1 on."""
    words = [re.sub(r"\bstep (\d+)", lambda m: f"step {int(m[1]) + 1}", text) for text in entry.counterexamples]
    more = entry.number - len(words)
    return "; ".join([*words, *([f"and {more} more"] if more > 0 else [])])
