"""Which candidate's files are made, where the time that is left is not enough for those of the quickest.

In: candidates, the quickest program first; a run. Out: the same, those first whose files are made in time. Every
file that is written is lowered and judged, so what that takes is estimated before it is begun, not cut off.
"""

from __future__ import annotations

from collections.abc import Sequence

from hetesynth.autotune.program_ranking import Ranked
from hetesynth.compile.compilation import Compilation
from hetesynth.compile.time_ahead import TimeAhead, operations_of, within
from hetesynth.model.decisions import Decisions


def in_time(ranked: Sequence[Ranked], run: Compilation, record: Decisions) -> list[Ranked]:
    """Those whose files are made before the deadline; then the others, the soonest first."""
    left = run.deadline.left()
    seconds = [_seconds(entry, run) * run.deadline.pace() for entry in ranked]
    early = [entry for entry, s in zip(ranked, seconds, strict=True) if within(s, left)]
    late = [(s, place) for place, s in enumerate(seconds) if not within(s, left)]
    if not within(seconds[0], left) and len(ranked) > 1:
        why = f"its files take about {seconds[0]:.1f} s, {max(0.0, left):.1f} s are left"
        record.note(ranked[0].candidate.label, "skipped", why)
        run.budget.clock_decisions.note("files of the quickest")
    return [*early, *(ranked[place] for _, place in sorted(late))]


def _seconds(entry: Ranked, run: Compilation) -> float:
    candidate = entry.candidate
    operations = operations_of(candidate.solution.schedule, entry.steady)
    return TimeAhead.of(run.request, candidate.problem.ranks).files(operations)
