"""What a schedule file asks for, refused where replaying it would take too long or too much memory.

In: a schedule document of anybody's. Out: its collective. Does not judge.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hetesynth.errors import HetesynthError
from hetesynth.model.collective import Collective
from hetesynth.search.collectives import collective

if TYPE_CHECKING:
    from hetesynth.files.schedule_json import ScheduleDocument

MAX_CHUNKS_OF_ONE_RANK = 65536
MAX_TICKS = 4_000_000


def asked_collective(document: ScheduleDocument, filename: str) -> Collective:
    """The collective; HetesynthError HS520, before it is built, when the transfers cannot possibly deliver all its
    chunks, and when there are more ticks than are replayed."""
    ranks, parts = document.ranks, document.chunks_per_rank
    blocks = {
        "broadcast": 1,
        "reduce": 1,
        "gather": ranks - 1,
        "scatter": ranks - 1,
        "alltoall": ranks * (ranks - 1),
    }
    moving = parts * blocks.get(document.collective, ranks) if ranks > 1 else 0
    if len(document.schedule.transfers) < moving or (ranks == 1 and parts > MAX_CHUNKS_OF_ONE_RANK):
        raise HetesynthError(
            f"{filename}: {len(document.schedule.transfers)} transfers cannot deliver {moving} chunks",
            code="HS520",
            help="give a schedule JSON that `hetesynth synth` or `hetesynth import` wrote",
        )
    ticks = max(document.schedule.makespan, sum(t.end - t.start for t in document.schedule.transfers))
    if ticks > MAX_TICKS:
        raise HetesynthError(
            f"{filename}: {ticks} ticks are more than the {MAX_TICKS} that are replayed",
            code="HS520",
            help="count time in steps, one for each transfer",
        )
    return collective(document.collective, ranks, parts, document.root)
