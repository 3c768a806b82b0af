"""Chunks cut into parts: a collective with as many times the chunks, each so much smaller.

In: a collective or a schedule, how many parts. Out: the same with every chunk cut. Knows nothing of programs.
"""

from __future__ import annotations

from dataclasses import replace

from hetesynth.model.collective import Chunk, Collective
from hetesynth.model.schedule import Schedule


def collective_in_pieces(collective: Collective, pieces: int) -> Collective:
    """``collective`` with every chunk cut into ``pieces``: those of chunk k are k x pieces and the following."""
    return replace(
        collective,
        chunks_per_rank=collective.chunks_per_rank * pieces,
        chunks=tuple(
            Chunk(chunk.index * pieces + j, chunk.block, chunk.part * pieces + j)
            for chunk in collective.chunks
            for j in range(pieces)
        ),
        pre=tuple(pre for pre in collective.pre for _ in range(pieces)),
        post=tuple(post for post in collective.post for _ in range(pieces)),
    )


def at_once(schedule: Schedule, pieces: int) -> Schedule:
    """``schedule`` for chunks cut into ``pieces``, which go over the same links in the same steps."""
    moved = (replace(t, chunk=t.chunk * pieces + j) for t in schedule.transfers for j in range(pieces))
    return Schedule.of(moved, schedule.makespan)
