"""A schedule of trees -> the same trees for several pieces of every chunk, one piece after the other.

In: a problem, a schedule, the phase of each of its transfers. Out: a problem with as many times the chunks, and a
schedule whose ticks put all transfers in one order: transfer t of piece j stands at phase(t) + j periods. That is
the order in which a thread block carries out what it shares, so nothing waits behind what is ready much later.

Within a piece, a transfer begins after what brought its value has ended, and a rank adds at most one arriving
value to the same chunk in a tick (HeteCCL eq. 8).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.topology import Rank
from hetesynth.programs.cut_chunks import collective_in_pieces


def in_pieces(
    problem: Problem, schedule: Schedule, phases: Sequence[float], pieces: int, ticks: int
) -> tuple[Problem, Schedule]:
    """``problem`` and ``schedule`` for ``pieces`` of every chunk; ``phases``: in periods, of ``ticks`` each."""
    transfers: list[Transfer] = []
    for piece in range(pieces):
        transfers += _of_piece(problem, schedule, phases, piece, pieces, ticks)
    return replace(problem, collective=collective_in_pieces(problem.collective, pieces)), Schedule.of(transfers)


def _of_piece(
    problem: Problem, schedule: Schedule, phases: Sequence[float], piece: int, pieces: int, ticks: int
) -> list[Transfer]:
    arrivals: dict[tuple[int, Rank], list[tuple[int, int]]] = defaultdict(list)  # (end in the schedule, new end)
    added: dict[tuple[int, Rank], int] = defaultdict(int)
    transfers: list[Transfer] = []
    for t, phase in zip(schedule.transfers, phases, strict=True):
        src, dst = problem.arcs[t.link].src, problem.arcs[t.link].dst
        start = int((phase + piece) * ticks)
        start = max([start, *(at for end, at in arrivals[t.chunk, src] if end <= t.start)])
        if t.reduce:
            start = max(start, added[t.chunk, dst])
            added[t.chunk, dst] = start + 1
        arrivals[t.chunk, dst].append((t.end, start + 1))
        transfers.append(Transfer(start, start + 1, t.chunk * pieces + piece, t.link, t.reduce))
    return transfers
