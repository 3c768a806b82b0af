"""Chunks cut into parts: a collective with as many times the chunks, each so much smaller.

The parts go along together (``at_once``), or one after the other (``in_pieces``): transfer t of piece j stands at
phase(t) + j periods. That is the order in which a thread block carries out what it shares, so nothing waits behind
what is ready much later.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from hetesynth.model.collective import Chunk, Collective
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.topology import Rank


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


TICKS = 2000
"""Of a period: finer than phases are known."""


def in_pieces(
    problem: Problem, schedule: Schedule, phases: Sequence[float], pieces: int
) -> tuple[Problem, Schedule]:
    """``problem`` and ``schedule`` for ``pieces`` of every chunk; ``phases``: in periods, of ``TICKS`` each.
    Within a piece, a transfer begins after what brought its value has ended, and a rank adds at most one arriving
    value to the same chunk in a tick (HeteCCL eq. 8)."""
    transfers: list[Transfer] = []
    for piece in range(pieces):
        arrivals: dict[tuple[int, Rank], list[tuple[int, int]]] = defaultdict(list)  # (end before, end now)
        added: dict[tuple[int, Rank], int] = defaultdict(int)
        for t, phase in zip(schedule.transfers, phases, strict=True):
            src, dst = problem.arcs[t.link].src, problem.arcs[t.link].dst
            start = int((phase + piece) * TICKS)
            start = max([start, *(at for end, at in arrivals[t.chunk, src] if end <= t.start)])
            if t.reduce:
                start = max(start, added[t.chunk, dst])
                added[t.chunk, dst] = start + 1
            arrivals[t.chunk, dst].append((t.end, start + 1))
            transfers.append(Transfer(start, start + 1, t.chunk * pieces + piece, t.link, t.reduce))
    return replace(problem, collective=collective_in_pieces(problem.collective, pieces)), Schedule.of(transfers)
