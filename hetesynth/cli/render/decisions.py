"""What ``--explain`` prints: each rule and candidate, what became of it, and why.

In: decisions in the order in which they were made. Out: lines of text, or values for JSON. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby

from hetesynth.model.decisions import Decision


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
