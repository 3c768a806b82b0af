"""A stall in words: what ranks wait for, and who never answers.

In: for every rank what keeps it from ending. Out: a few lines.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

MAX_LINES = 16
PER_RANK = 3


def diagnosis(waits: Mapping[int, Sequence[str]]) -> tuple[str, ...]:
    """The first waits of each rank, at most ``MAX_LINES`` lines; then how many more there are."""
    each = PER_RANK if len(waits) > 2 else MAX_LINES
    lines = [f"rank {rank} {text}" for rank in sorted(waits) for text in waits[rank][:each]]
    total = sum(len(texts) for texts in waits.values())
    shown = lines[:MAX_LINES]
    if total > len(shown):
        shown.append(f"and {total - len(shown)} more waits")
    return tuple(shown)
