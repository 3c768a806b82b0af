"""A table back to a schedule: a round is a step, and chunks are followed from the input of the ranks."""

from collections import Counter

from hetesynth.model.problem import Arc, Problem
from hetesynth.model.program import BufferSlice
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.table import Table
from hetesynth.model.topology import Rank
from hetesynth.programs.layout import Layout
from hetesynth.search.collectives import collective

Place = tuple[Rank, str, int]


def lift_table(table: Table) -> tuple[Problem, Schedule]:
    """Return the problem (the pairs that communicate) and schedule of ``table``, which a judge found right."""
    goal = collective(table.collective, table.ranks, table.chunks_per_rank, table.root)
    layout = Layout(goal, in_place=False)
    chunk: dict[Place, int] = {}
    for k, pre in enumerate(goal.pre):
        for rank in pre:
            source = layout.source(rank, k)
            if source is not None:
                chunk[rank, source.buffer, source.offset] = k

    def at(rank: Rank, place: BufferSlice, j: int) -> Place:
        return rank, place.buffer, place.offset + j

    for c in table.copies:
        for j in range(c.count):
            chunk[at(c.rank, c.target, j)] = chunk[at(c.rank, c.source, j)]
    moves: list[tuple[int, int, Rank, Rank, bool]] = []
    width: Counter[tuple[Rank, Rank]] = Counter()
    for number, messages in enumerate(table.rounds):
        used: Counter[tuple[Rank, Rank]] = Counter()
        landed = []
        for m in messages:
            used[m.src, m.dst] += m.count
            landed += [(m, j, chunk[at(m.src, m.source, j)]) for j in range(m.count)]
        for m, j, k in landed:
            chunk[at(m.dst, m.landing, j)] = k
            moves.append((number, k, m.src, m.dst, m.added is not None))
        width |= used
    arcs = {pair: i for i, pair in enumerate(sorted(width))}
    links = tuple(Arc(src, dst, width[src, dst]) for src, dst in arcs)
    transfers = (Transfer(t, t + 1, k, arcs[src, dst], reduce) for t, k, src, dst, reduce in moves)
    schedule = Schedule.of(transfers, len(table.rounds))
    return Problem(goal.ranks, goal.ranks, (), links, (), goal), schedule
