"""What ``--explain`` prints: the choice in a sentence, then each rule and candidate, what became of it, and why.

In: decisions in the order in which they were made. Out: lines of text, or values for JSON. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from hetesynth.model.decisions import OVER_EFFORT, Decision
from hetesynth.model.words import counted, microseconds

if TYPE_CHECKING:
    from hetesynth.engine.artifacts import Synthesis
    from hetesynth.search.search import Ending


def explanation(synthesis: Synthesis) -> str:
    """What was chosen, what it beat, and what more effort would try, in one sentence."""
    choice, certificate = synthesis.choice, synthesis.by_steps.solution.certificate
    if choice is None:
        steps = {d.what: d.why for d in synthesis.decisions if d.why.startswith("steps: ")}
        best = next(
            (name for name, why in steps.items() if why == f"steps: {certificate.steps}"), synthesis.strategy
        )
        chosen = f"{best}, of {counted(certificate.steps, 'step')}"
        others = ", ".join(name for name in steps if name != best)
        beat = f"beat {others}" if others else "had nothing to beat"
    else:
        seconds = synthesis.program_seconds
        chosen = choice.label if seconds is None else f"{choice.label}, at {microseconds(seconds)}"
        beat = "had nothing to beat" if choice.tried == 1 else f"is the quickest of {choice.tried}"
        if choice.runner_up is not None:
            beat = f"beat {choice.runner_up[0]}, at {microseconds(choice.runner_up[1])}"
            beat += f", and {choice.tried - 2} more" if choice.tried > 2 else ""
    more = _more_effort(synthesis.decisions, synthesis.ending)
    if choice is None and certificate.proven_optimal:
        more = "more effort would find no fewer: the bound is met"
    return f"chosen was {chosen}, which {beat}; {more}"


def atlas_explanation(index: dict[str, Any], decisions: Sequence[Decision]) -> str:
    """The same of an atlas: its candidates, and how many others were tried."""
    labels = list(dict.fromkeys(entry["candidate"] for entry in index["ranges"]))
    tried = {d.what for d in decisions if d.verdict == "tried"} - set(labels)
    beat = f"beat {len(tried)} more" if tried else "had nothing to beat"
    return f"chosen was {', '.join(labels)}, which {beat}; {_more_effort(decisions, index['ended_by'])}"


def _more_effort(decisions: Iterable[Decision], ending: Ending) -> str:
    left = list(dict.fromkeys(_name(d) for d in decisions if OVER_EFFORT in d.why))
    if left:
        return f"more effort would try {left[0]}" + (f" and {len(left) - 1} more" if len(left) > 1 else "")
    if ending in ("time", "interrupt"):
        return "it was cut short: more time would try more"
    if ending == "solver":
        return "more effort would give the solver more units"
    return "more effort would try nothing else"


def _name(decision: Decision) -> str:
    of_all = decision.what.startswith("all ")
    return f"{decision.what} of {decision.stage.rpartition(', ')[2]}" if of_all else decision.what


def decision_lines(decisions: Iterable[Decision]) -> Iterator[str]:
    """A heading for each stage, a line for each decision."""
    yield "decisions"
    for stage, group in groupby(decisions, key=lambda decision: decision.stage):
        yield f"  {stage}"
        for decision in group:
            yield f"    {decision.what}: {decision.verdict}: {decision.why}"


def decision_values(decisions: Iterable[Decision]) -> list[dict[str, str]]:
    """A list of objects with stage, what, verdict and why."""
    return [decision.plain() for decision in decisions]
