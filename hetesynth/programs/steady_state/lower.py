"""Trees -> a program in steady state.

``pieces`` of every chunk are written into the program one after the other, in the order of their phases; what is
still longer than a message loops. The messages of a pair are dealt out over its channels in order, sends and
receives have thread blocks of their own; the rest is the lowering of schedules. The caller simulates the
programs."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass

from hetesynth.errors import HetesynthError
from hetesynth.model.cost import Costs, chunk_bytes
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule
from hetesynth.model.target import Target
from hetesynth.programs.cut_chunks import in_pieces
from hetesynth.programs.layout import Layout
from hetesynth.programs.msccl.assembly import grouped, ordered
from hetesynth.programs.msccl.channels import ChannelPlan, messages
from hetesynth.programs.msccl.lower import FEWER, Lowered, LoweringOptions, lowered_as, within
from hetesynth.programs.msccl.placement import place
from hetesynth.programs.msccl.thread_blocks import BlockPlan
from hetesynth.programs.steady_state.traffic import (
    SHARED,
    TURNS,
    Division,
    Pair,
    Room,
    Traffic,
    blocks_by_rank,
    channels_of_pairs,
    fewest_channels,
    slowdown,
)

FILLING = 0.4
"""Of the time that filling the pipe takes where all that cross a resource share it: 0.2 to 0.6 of programs with a
channel for each tree, on four clusters."""


@dataclass(frozen=True, slots=True)
class Arrangement:
    """One program of those that carry out the same trees.

    ``pieces``: of every chunk, in the program. ``piece_bytes``: of one, at the size that is meant. ``division``:
    of channels among pairs. ``turn``: see ``Traffic.phases``. ``estimate``: its time over that of the fullest
    resource.
    """

    pieces: int
    piece_bytes: float
    division: Division
    turn: float
    estimate: float


def arrangements(
    problem: Problem, schedule: Schedule, costs: Costs, options: LoweringOptions, size: int
) -> list[Arrangement]:
    """The arrangements that may fit, for a buffer of ``size`` bytes, the most promising first."""
    collective = problem.collective
    whole = chunk_bytes(collective.name, collective.ranks, collective.chunks_per_rank, size)
    message = options.target.fifo(options.protocol, collective.name).slice_bytes
    traffic, room = _traffic(problem, schedule, costs, options.target), _rooms(options.target)[0]
    listed: list[Arrangement] = []
    pieces, least = 1, math.inf  # with a channel for every stream: whole chunks, and pieces that save time
    while pieces == 1 or whole / pieces >= 1 << 16:
        piece_bytes = min(whole / pieces, message)
        channels = channels_of_pairs(traffic, pieces, piece_bytes, "own", room)
        if channels is None:
            break
        if pieces == 1 or whole / pieces < message:
            filling = FILLING * traffic.longest(piece_bytes) * piece_bytes / whole
            estimate = slowdown(traffic, piece_bytes, channels) + filling
            if estimate <= 0.98 * least:
                listed.append(Arrangement(pieces, piece_bytes, "own", TURNS[0], estimate))
            least = min(least, estimate)
        pieces *= 2
    # as many as fit and are not too small; shares of that, which leave thread blocks for even connections; the
    # fewest that need no loop; one, which loops
    most = min(_most_pieces(traffic, problem, options), int(whole // options.policy.steady_least_piece))
    unlooped = -(-int(whole) // message)
    numbers = [int(share * most) for share in (1.0, 0.9, 0.75, 0.5) if share * most > 1]
    for pieces in dict.fromkeys([*numbers, *([unlooped] if 1 < unlooped < most else []), 1]):
        piece_bytes = min(whole / pieces, message)
        longest = traffic.longest(piece_bytes)
        seen: list[dict[Pair, int]] = []
        for division in SHARED:
            channels = channels_of_pairs(traffic, pieces, piece_bytes, division, room)
            if channels is None or channels in seen:
                continue
            seen.append(channels)
            shared = any(number > channels[pair] for pair, number in traffic.messages.items())
            rounds = whole / piece_bytes
            filling = FILLING * max(1.0, rounds / pieces if shared else 1.0) * longest / rounds
            estimate = slowdown(traffic, piece_bytes, channels) + filling
            turns = TURNS if shared else TURNS[:1]
            listed += [Arrangement(pieces, piece_bytes, division, turn, estimate) for turn in turns]
    order = {turn: place for place, turn in enumerate(TURNS)}
    return sorted(listed, key=lambda arrangement: (order[arrangement.turn], arrangement.estimate))


def lower_steady_state(
    problem: Problem, schedule: Schedule, costs: Costs, arrangement: Arrangement, options: LoweringOptions
) -> Lowered:
    """The program that carries out ``schedule`` as ``arrangement`` says.

    Raises HetesynthError: HS501 to HS504 a limit of the target, HS505 the collective has no such form, HS507 the
    schedule sends what a rank does not hold.
    """
    options.check(problem.collective.name)
    target = options.target
    traffic = _traffic(problem, schedule, costs, target)
    phases = traffic.phases(arrangement.piece_bytes, arrangement.turn)
    whole, order = in_pieces(problem, schedule, phases, arrangement.pieces)
    layout, slots = Layout(whole.collective, options.in_place), target.slots(options.protocol)
    for room in _rooms(target):
        channels = channels_of_pairs(
            traffic, arrangement.pieces, arrangement.piece_bytes, arrangement.division, room
        )
        if channels is None:
            break
        plan = ChannelPlan(merge=False, dealt_evenly=channels)
        if arrangement.division == "own":  # the stream of each piece, by whether it is added
            streams = {
                (chunk * arrangement.pieces + piece, adds): 2 * stream + adds
                for chunk, stream in traffic.stream_of.items()
                for piece in range(arrangement.pieces)
                for adds in (False, True)
            }
            plan = ChannelPlan(merge=False, streams=streams)
        carried = messages(whole, order, plan, target, slots)
        placement = place(layout, carried, target)
        plans = [BlockPlan(rank, {}, sharing="none") for rank in range(problem.ranks)]
        draft = grouped(placement, carried, options.fusion, target, slots, plans)
        if within(draft.steps, target):
            draft = ordered(draft)
            if within(draft.steps, target):
                return lowered_as(layout, draft, options)
    raise HetesynthError(
        f"{arrangement.pieces} pieces of {len(problem.collective.chunks)} chunks do not fit into "
        f"{target.thread_blocks} thread blocks of {target.max_steps} steps; target {target.name} allows no more",
        code="HS501",
        help=FEWER,
    )


def _traffic(problem: Problem, schedule: Schedule, costs: Costs, target: Target) -> Traffic:
    return Traffic(problem, schedule, costs, 1 if "rrc" in target.ops else 2)


def _rooms(target: Target) -> list[Room]:
    """What connections may use: one thread block is for copies, and of each some steps are for nops, more where
    dependences need them."""
    steps = [max(1, int(share * target.max_steps)) for share in (0.95, 0.8)]
    return [Room(target.thread_blocks - 1, most, target.channels) for most in steps]


def _most_pieces(traffic: Traffic, problem: Problem, options: LoweringOptions) -> int:
    """The most pieces whose steps fit into thread blocks, and into what a reader stores."""
    target = options.target
    room = _rooms(target)[0]

    def hold(pieces: int) -> bool:
        fewest = fewest_channels(traffic, pieces, room.steps)
        nodes: dict[int, int] = dict.fromkeys(range(problem.ranks), 1 + problem.ranks + target.thread_blocks)
        for (src, dst), number in traffic.messages.items():
            nodes[src] += number * pieces
            nodes[dst] += traffic.steps[src, dst] * pieces
        return (
            max(blocks_by_rank(fewest).values(), default=0) <= room.blocks
            and max(fewest.values(), default=0) <= room.channels
            and max(nodes.values()) <= target.max_nodes
            and len(problem.collective.chunks) * pieces <= target.max_offset
        )

    return bisect_left(range(1, target.max_nodes + 1), True, key=lambda pieces: not hold(pieces))
