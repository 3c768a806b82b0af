"""What ``synth`` prints of CEGIS, as text and as plain values for JSON.

In: the entries of a trace. Out: lines, or an object. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from hetesynth.model.cegis_totals import totals
from hetesynth.model.cegis_trace import CegisEntry
from hetesynth.model.words import counted


def cegis_lines(entries: Sequence[CegisEntry]) -> Iterable[str]:
    """A few lines; none where CEGIS did not run."""
    if not entries:
        return
    total = totals(entries)
    yield (
        f"cegis        {counted(total.iterations, 'iteration')}, "
        f"{counted(total.counterexamples, 'counterexample')}, "
        f"{counted(total.calls, 'call')} of Z3 ({total.units:,} units), {total.seconds:.2f} s"
    )
    if total.first is not None:
        phase = f"{total.first.phase}, " if total.first.phase else ""
        where = f"{phase}checkpoint {total.first.checkpoint}"
        yield f"             first counterexample ({where}): {total.first.counterexamples[0]}"
    yield (
        f"             checkpoint moved back {counted(total.moved_back, 'time')}, "
        f"{counted(total.laws, 'law')} learned, largest model {total.largest_model:,} Send variables"
    )


def cegis_values(entries: Sequence[CegisEntry]) -> dict[str, Any] | None:
    """For JSON; None where CEGIS did not run."""
    return totals(entries).plain() if entries else None
