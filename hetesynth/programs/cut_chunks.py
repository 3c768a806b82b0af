"""Chunks cut into parts: a collective with as many times the chunks, each so much smaller.

The parts go along together (``at_once``), or in the order of a dispatch.
"""

from dataclasses import replace

from hetesynth.model.collective import Chunk, Collective
from hetesynth.model.problem import Problem
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


def at_once(problem: Problem, schedule: Schedule, pieces: int) -> tuple[Problem, Schedule]:
    """``problem`` and ``schedule`` of chunks cut into ``pieces``, that go over the same links at once."""
    moved = (replace(t, chunk=t.chunk * pieces + j) for t in schedule.transfers for j in range(pieces))
    whole = replace(problem, collective=collective_in_pieces(problem.collective, pieces))
    return whole, Schedule.of(moved, schedule.makespan)
