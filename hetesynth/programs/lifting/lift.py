"""Lifting: any program or schedule -> what it moves, as a schedule on given links.

In: a program that its judge found right and the collective it carries out, or a problem and a schedule; and the
problem whose links and capacities to use, if there is one. Out: a ``Lifted``. Knows no judge: the caller checks
the schedule. Reading order: buffers, dataflow, accumulation, placing.

Without given links the graph is the pairs that communicate, each as wide as the most chunks the program has on it
in one tick of logical time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from hetesynth.model.collective import Collective
from hetesynth.model.problem import Arc, Problem
from hetesynth.model.program import Program
from hetesynth.model.schedule import Schedule
from hetesynth.model.target import PORTABLE
from hetesynth.policy import DEFAULT
from hetesynth.policy.lifting import LiftingPolicy
from hetesynth.programs.lifting.accumulation import Moves, moves_of
from hetesynth.programs.lifting.buffers import Buffers
from hetesynth.programs.lifting.dataflow import Flow, flow_of
from hetesynth.programs.lifting.placing import Groups, groups_of, placed
from hetesynth.programs.lifting.replay import flow_of_schedule


@dataclass(frozen=True)
class Lifted:
    """A schedule that moves what a program moves.

    ``arrivals``: chunks that the program sends. ``dropped``: those of them that brought what was there or what
    nobody uses. ``depth``: ticks of the program in logical time. ``relays``: (rank, chunk) pairs where a rank
    passes on a chunk that it neither starts nor ends with. ``pieces``: chunks of the schedule in one of the
    program.
    """

    problem: Problem
    schedule: Schedule
    arrivals: int
    dropped: int
    depth: int
    relays: int
    pieces: int = 1


def lift(
    program: Program, collective: Collective, pieces: int = 1, on: Problem | None = None,
    policy: LiftingPolicy = DEFAULT.lifting,
) -> Lifted:  # fmt: skip
    """The schedule of ``program`` on the links of ``on``, or on those it uses.

    ``collective``: what the program carries out, of the size that ``buffers.shape`` says, ``pieces`` with it.
    Raises HetesynthError: HS702 the program is not right, HS703 no schedule can say what it does, HS704 a link
    that ``on`` does not have, HS705 capacities that are too small for transfers that must go together.
    """
    buffers = Buffers(collective, pieces, in_place=program.in_place and not program.out_of_place)
    flow = flow_of(program, buffers, PORTABLE.slots(program.protocol))
    return _lifted(flow, collective, pieces, on, policy)


def lift_schedule(
    problem: Problem, schedule: Schedule, on: Problem, policy: LiftingPolicy = DEFAULT.lifting
) -> Lifted:  # fmt: skip
    """What ``schedule``, a solution of ``problem``, moves, on the links of ``on``. Raises as ``lift``."""
    return _lifted(flow_of_schedule(problem, schedule), problem.collective, 1, on, policy)


def _lifted(
    flow: Flow, collective: Collective, pieces: int, on: Problem | None, policy: LiftingPolicy
) -> Lifted:  # fmt: skip
    whole = moves_of(flow, collective)
    graph = _repeated(whole, pieces)
    groups = groups_of(graph)
    problem = replace(on, collective=collective) if on is not None else _as_used(graph, groups, collective)
    return Lifted(
        problem=problem,
        schedule=placed(graph, groups, problem, policy),
        arrivals=len(flow.arrivals),
        dropped=len(flow.arrivals) - len(whole.moves),
        depth=max((c.start + 1 for c in flow.arrivals), default=0),
        relays=_relays(whole, collective),
        pieces=pieces,
    )


def _repeated(graph: Moves, pieces: int) -> Moves:
    """Every move once for each piece of its chunk; the pieces do not wait for each other."""
    if pieces == 1:
        return graph
    count = len(graph.moves)
    moves = [replace(m, chunk=m.chunk + piece) for piece in range(pieces) for m in graph.moves]
    further = graph.nodes - count

    def node(number: int, piece: int) -> int:
        return piece * count + number if number < count else pieces * count + piece * further + number - count

    edges = [(node(u, p), node(v, p), w) for p in range(pieces) for u, v, w in graph.edges]
    return Moves(moves, pieces * graph.nodes, edges)


def _as_used(graph: Moves, groups: Groups, collective: Collective) -> Problem:
    """The pairs that communicate, as wide as one tick of the program, or one group of moves, needs."""
    width: dict[tuple[int, int], int] = {}
    ticks: dict[int, list[int]] = {}
    for i, move in enumerate(graph.moves):
        ticks.setdefault(move.tick, []).append(i)
    for together in (*ticks.values(), *groups.members):
        for pair, load in _load(graph, together).items():
            width[pair] = max(load, width.get(pair, 0))
    arcs = tuple(Arc(src, dst, width[src, dst]) for src, dst in sorted(width))
    return Problem(collective.ranks, collective.ranks, (), arcs, (), collective)


def _load(graph: Moves, moves: Iterable[int]) -> Counter[tuple[int, int]]:
    return Counter((graph.moves[i].src, graph.moves[i].dst) for i in moves)


def _relays(graph: Moves, collective: Collective) -> int:
    passing = {(m.src, m.chunk) for m in graph.moves}
    return sum(rank not in collective.pre[k] and rank not in collective.post[k] for rank, k in passing)
