"""Trees -> a program in steady state.

``pieces`` of every chunk are written into the program one after the other, in the order of their phases; what is
still longer than a message loops. The messages of a pair are dealt out over its channels in order, sends and
receives have thread blocks of their own; the rest is the lowering of schedules. The caller simulates the
programs.

A period is what the fullest resource needs for one piece of every chunk. A resource is shared max-min fairly by
its connections, so they are to carry equally much. Channels of a pair: ``own``: one for every stream; ``even``: as
few as steps allow, then another one for the pair that exceeds the mean of a scarce resource most;
``proportional``: in proportion to messages, as many as fit."""

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Literal

from hetesynth.errors import HetesynthError
from hetesynth.model.cost import Costs, chunk_bytes
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule
from hetesynth.model.target import Target
from hetesynth.model.topology import Rank
from hetesynth.programs.cut_chunks import in_pieces
from hetesynth.programs.layout import Layout
from hetesynth.programs.msccl.assembly import grouped, ordered
from hetesynth.programs.msccl.channels import ChannelPlan, messages
from hetesynth.programs.msccl.lower import FEWER, Lowered, LoweringOptions, lowered_as, within
from hetesynth.programs.msccl.placement import Placer
from hetesynth.programs.msccl.thread_blocks import BlockPlan

Pair = tuple[Rank, Rank]
TURNS = (1.0, 1.5, 0.3)
"""Of what a resource needs for a piece of every chunk, the time in which one crosses it, when messages are put in
order; tried in this order. 1 (all cross it together) is right for DGX-2 (95 % of the packing's time; 0.3: 73 %),
0.3 for MI250 (95 against 94 %), 1.5 for AllReduce on h20_4p8 (90 against 71 %)."""


class Traffic:
    """The transfers of one piece of every chunk, in the order of ``schedule``. ``steps_of_addition``: of a
    receiver for a value that is added."""

    def __init__(self, problem: Problem, schedule: Schedule, costs: Costs, steps_of_addition: int) -> None:
        arcs = problem.arcs
        self.transfers, self.costs = schedule.transfers, costs
        self.pairs = [(arcs[t.link].src, arcs[t.link].dst) for t in schedule.transfers]

        trees: dict[int, list[tuple[int, bool]]] = defaultdict(list)
        for t in schedule.transfers:
            trees[t.chunk].append((t.link, t.reduce))
        chunks_of_tree: dict[tuple[tuple[int, bool], ...], list[int]] = defaultdict(list)
        for chunk in sorted(trees):
            chunks_of_tree[tuple(sorted(trees[chunk]))].append(chunk)
        alike = list(chunks_of_tree.values())
        # of the chunks that go along the same tree, the how manieth a chunk is, and how many there are
        self.copy_of = {k: (place, len(chunks)) for chunks in alike for place, k in enumerate(chunks)}
        # a number for each chunk, the same for ``chunks_of_stream`` chunks that go along the same tree
        self.chunks_of_stream = size = math.gcd(*map(len, alike))
        groups = [chunks[first : first + size] for chunks in alike for first in range(0, len(chunks), size)]
        self.stream_of = {chunk: stream for stream, chunks in enumerate(groups) for chunk in chunks}

        messages: dict[Pair, int] = defaultdict(int)
        self.steps: dict[Pair, int] = defaultdict(int)  # what the messages of a pair take of the receiver
        self.steps_of_message = max((steps_of_addition for t in schedule.transfers if t.reduce), default=1)
        crossing: dict[int, set[Pair]] = defaultdict(set)
        carried: dict[int, int] = defaultdict(int)
        self.alpha: dict[int, float] = defaultdict(float)  # the longest of the links that cross each resource
        streams: dict[Pair, set[tuple[int, bool]]] = defaultdict(set)
        for t, pair in zip(schedule.transfers, self.pairs, strict=True):
            messages[pair] += 1
            streams[pair].add((self.stream_of[t.chunk], t.reduce))
            self.steps[pair] += steps_of_addition if t.reduce else 1
            for r in costs.link_resources[t.link]:
                crossing[r].add(pair)
                carried[r] += 1
                self.alpha[r] = max(self.alpha[r], costs.link_alpha[t.link])
        self.messages = dict(sorted(messages.items()))
        self.streams = {pair: len(of) for pair, of in sorted(streams.items())}  # those of additions told apart
        self.crossing = {r: tuple(sorted(of)) for r, of in sorted(crossing.items())}  # the pairs that draw from it
        self.seconds = {r: carried[r] / costs.resource_rate[r] for r in sorted(carried)}  # for one byte a transfer

    @property
    def seconds_per_byte(self) -> float:
        """The period over the bytes of a piece."""
        return max(self.seconds.values(), default=0.0)

    def latency_share(self, resource: int, connections: int, piece_bytes: float) -> float:
        """Alpha over the time of a message on each of ``connections``: what is lost where all wait at once."""
        return self.alpha[resource] * self.costs.resource_rate[resource] / (connections * piece_bytes)

    def longest(self, piece_bytes: float) -> float:
        """Periods from the begin of a piece until it is everywhere, where all that cross a resource share it."""
        return max((end for _, end in self.phases(piece_bytes, 1.0)), default=0.0)

    def phases(self, piece_bytes: float, turn: float) -> list[tuple[float, float]]:
        """When each transfer of a piece can begin and has ended, in periods after the piece began. A crossing
        takes alpha and the time of its piece alone, or ``turn`` of the time that its fullest resource needs for
        one piece of every chunk: 1 where all that cross it share it fairly and end together."""
        period = self.seconds_per_byte * piece_bytes

        @cache
        def crossing(link: int, copies: int) -> float:
            fullest = max(self.seconds[r] for r in self.costs.link_resources[link])
            shared = turn * piece_bytes * fullest / copies
            return (self.costs.link_alpha[link] + max(piece_bytes / self.costs.link_rate[link], shared)) / period

        arrivals: dict[tuple[int, Rank], list[tuple[int, float]]] = defaultdict(list)
        spans: list[tuple[float, float]] = []
        for t, (src, dst) in zip(self.transfers, self.pairs, strict=True):
            copy, copies = self.copy_of[t.chunk]
            here = [at for arrived, at in arrivals[t.chunk, src] if arrived <= t.start]
            begin = max(here, default=copy / copies)  # chunks of one tree follow each other
            spans.append((begin, begin + crossing(t.link, copies)))
            arrivals[t.chunk, dst].append((t.end, spans[-1][1]))
        return spans


Division = Literal["own", "even", "proportional"]
SHARED: tuple[Division, ...] = ("even", "proportional")
"""Where trees share connections."""


@dataclass(frozen=True, slots=True)
class Room:
    """What a program may use: ``blocks`` of each rank, ``steps`` of a thread block, ``channels`` of a pair."""

    blocks: int
    steps: int
    channels: int


def channels_of_pairs(
    traffic: Traffic, pieces: int, piece_bytes: float, division: Division, room: Room
) -> dict[Pair, int] | None:
    """The channels of each pair; None where thread blocks or channels do not suffice."""
    if division == "own":
        own = dict(traffic.streams)
        longest = traffic.steps_of_message * traffic.chunks_of_stream * pieces
        return own if longest <= room.steps and _fits(own, room) else None
    fewest = fewest_channels(traffic, pieces, room.steps)
    if not _fits(fewest, room):
        return None
    if division == "even":
        return _even(traffic, pieces, piece_bytes, fewest, room)

    def channels(size: float) -> dict[Pair, int]:
        """In proportion to messages, about ``size`` of them on each."""
        return {
            pair: min(max(fewest[pair], round(number / size)), number * pieces)
            for pair, number in traffic.messages.items()
        }

    # the least messages a channel with which they fit: more of them never take more channels
    numbers = set(traffic.messages.values())
    sizes = sorted({number / k for number in numbers for k in range(1, room.channels + 1)})
    least = bisect_left(sizes, True, key=lambda size: _fits(channels(size), room))
    return channels(sizes[least]) if least < len(sizes) else fewest


def fewest_channels(traffic: Traffic, pieces: int, steps: int) -> dict[Pair, int]:
    """As few channels as thread blocks of ``steps`` steps allow."""
    return {pair: -(-needed * pieces // steps) for pair, needed in sorted(traffic.steps.items())}


def blocks_by_rank(channels: Mapping[Pair, int]) -> dict[Rank, int]:
    """Thread blocks of each rank: one for each connection that it sends on or receives from."""
    blocks: dict[Rank, int] = defaultdict(int)
    for pair, number in channels.items():
        for rank in pair:
            blocks[rank] += number
    return blocks


def _fits(channels: Mapping[Pair, int], room: Room) -> bool:
    most = max(blocks_by_rank(channels).values(), default=0)
    return most <= room.blocks and max(channels.values(), default=0) <= room.channels


def _even(
    traffic: Traffic, pieces: int, piece_bytes: float, fewest: Mapping[Pair, int], room: Room
) -> dict[Pair, int]:
    """Connections that meet in a resource that is in use for 0.6 of the time carry about equally much."""
    most = {pair: min(room.channels, number * pieces) for pair, number in traffic.messages.items()}
    channels = dict(fewest)
    open_pairs = {pair for pair in channels if channels[pair] < most[pair]}
    blocks = blocks_by_rank(channels)
    scarce = [r for r, seconds in traffic.seconds.items() if seconds >= 0.6 * traffic.seconds_per_byte]
    sharers: dict[Pair, list[int]] = defaultdict(list)
    for r in scarce:
        for pair in traffic.crossing[r]:
            sharers[pair].append(r)
    worst = {r: _worst(traffic, r, piece_bytes, channels, open_pairs) for r in scarce}
    while True:
        excess, pair = max(worst.values(), default=(0.0, (-1, -1)))
        if excess <= 1.03:
            return channels
        if all(blocks[rank] < room.blocks for rank in pair):
            channels[pair] += 1
            for rank in pair:
                blocks[rank] += 1
            if channels[pair] == most[pair]:
                open_pairs.discard(pair)
        else:
            open_pairs.discard(pair)
        worst.update((r, _worst(traffic, r, piece_bytes, channels, open_pairs)) for r in sharers[pair])


def _worst(
    traffic: Traffic, resource: int, piece_bytes: float, channels: Mapping[Pair, int], open_pairs: set[Pair]
) -> tuple[float, Pair]:
    """How much longer the resource takes than its bytes, by the connections of the pair that has most on each of
    them among those that may get another one."""
    pairs = traffic.crossing[resource]
    connections = sum(channels[p] for p in pairs)
    mean = sum(traffic.messages[p] for p in pairs) / connections
    most, pair = max(
        ((traffic.messages[p] / channels[p], p) for p in pairs if p in open_pairs), default=(0.0, (-1, -1))
    )
    return most / mean * (1 + traffic.latency_share(resource, connections, piece_bytes)), pair


def slowdown(traffic: Traffic, piece_bytes: float, channels: Mapping[Pair, int]) -> float:
    """The time of the resource that takes longest with these connections, in periods: it lasts as long as its
    fullest connection needs, and in the time of alpha that all of them wait together."""
    period, worst = traffic.seconds_per_byte, 1.0
    for r, pairs in traffic.crossing.items():
        connections = sum(channels[p] for p in pairs)
        mean = sum(traffic.messages[p] for p in pairs) / connections
        uneven = max(traffic.messages[p] / channels[p] for p in pairs) / mean
        waiting = 1 + traffic.latency_share(r, connections, piece_bytes)
        worst = max(worst, uneven * waiting * traffic.seconds[r] / period)
    return worst


FILLING = 0.4
"""Of the time that filling the pipe takes where all that cross a resource share it: 0.2 to 0.6 of programs with a
channel for each tree, on four clusters."""


@dataclass(frozen=True, slots=True)
class Arrangement:
    """One program of those that carry out the same trees. ``pieces``: of every chunk, in the program.
    ``piece_bytes``: of one, at the size that is meant. ``division``: of channels among pairs. ``turn``: see
    ``Traffic.phases``. ``estimate``: its time over that of the fullest resource."""

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
    """The program that carries out ``schedule`` as ``arrangement`` says. Raises HetesynthError: HS501 to HS504 a
    limit of the target, HS505 the collective has no such form, HS507 the schedule sends what a rank does not
    hold."""
    options.check(problem.collective.name)
    target = options.target
    traffic = _traffic(problem, schedule, costs, target)
    phases = [begin for begin, _ in traffic.phases(arrangement.piece_bytes, arrangement.turn)]
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
        placement = Placer(layout, carried, target).run()
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
