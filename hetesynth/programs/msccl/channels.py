"""Transfers -> messages: which channel carries each, how many chunks go together, and in which order.

Concurrent transfers of a pair of ranks take distinct channels, at most C(u, v) (HeteCCL 5.3). Sorted by their
keys, sends and receives of all GPUs are in one order: within a tick wave by wave, first all sends and then all
receives. A connection has at most one message in a wave, one longer than the FIFO a wave of its own
(``thread_blocks``)."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heapreplace

from hetesynth.errors import HetesynthError
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.target import Target
from hetesynth.model.topology import Rank

Pair = tuple[Rank, Rank]
_TrackRun = tuple[int, int]  # (track of a pair, run in time on it); each has a channel of its own
_Row = tuple[int, int, Rank, Rank, int, int, tuple[int, ...], bool]
"""A message without its number: tick, wave, ends, channel; end, chunks and whether they are added."""


@dataclass(frozen=True, slots=True)
class Message:
    """The ``chunks`` that one send and its receive carry from ``src`` to ``dst`` on ``channel``. ``arrival``: the
    tick of the receive where that is not ``start``."""

    index: int
    src: Rank
    dst: Rank
    channel: int
    start: int
    end: int
    wave: int
    chunks: tuple[int, ...]
    reduce: bool
    arrival: int = -1


@dataclass(frozen=True)
class ChannelPlan:
    """The departures from one channel per concurrent chunk that make limits hold.

    By pair: ``max_channels`` for concurrent chunks; ``runs_in_time``: the runs, on channels of their own, into
    which the longest track is cut; ``dealt_evenly``: the channels over which transfers are dealt out instead of
    all that. ``merge``: neighboring chunks of a channel and tick are one message, but for ``unmerged`` (pair,
    tick); with ``adjacent_only`` only if their numbers are adjacent. ``spread_peers_evenly``: do not take the
    lowest channel with room, but spread the peers of a rank evenly."""

    max_channels: Mapping[Pair, int] = field(default_factory=dict)
    runs_in_time: Mapping[Pair, int] = field(default_factory=dict)
    merge: bool = True
    unmerged: frozenset[tuple[Pair, int]] = frozenset()
    adjacent_only: bool = False
    dealt_evenly: Mapping[Pair, int] = field(default_factory=dict)
    spread_peers_evenly: bool = False


def messages(problem: Problem, schedule: Schedule, plan: ChannelPlan, target: Target, slots: int) -> list[Message]:
    """The messages of ``schedule``; ``slots`` is the depth of a FIFO in messages. Raises HetesynthError HS503 when
    the channels of ``target`` do not suffice."""
    runs: dict[tuple[Pair, _TrackRun], list[Transfer]] = {}
    for pair, transfers in sorted(transfers_by_pair(problem, schedule).items()):
        transfers.sort(key=_transfer_key)
        for run, carried in _runs_of_pair(pair, transfers, plan, target).items():
            runs[pair, run] = carried
    channel = _channel_numbers(runs, target, evenly=plan.spread_peers_evenly)
    rows: list[_Row] = []
    waves: dict[int, int] = defaultdict(int)  # by tick
    for (pair, run), carried in runs.items():
        wave: dict[int, int] = defaultdict(int)  # messages of one tick take one wave after the other
        groups: list[list[Transfer]] = []  # what travels as one message: single transfers unless the plan merges
        for t in carried:
            last = groups[-1] if plan.merge and groups else []
            if (
                last
                and (pair, t.start) not in plan.unmerged
                and (t.start, t.end, t.reduce) == (last[0].start, last[0].end, last[0].reduce)
                and len(last) < target.max_count
                and not (plan.adjacent_only and last[-1].chunk + 1 != t.chunk)
            ):
                last.append(t)
            else:
                groups.append([t])
        number = channel[pair, run]
        for group in groups:
            first, start = group[0], group[0].start
            chunks = (first.chunk,) if len(group) == 1 else tuple(t.chunk for t in group)
            rows.append((start, wave[start], *pair, number, first.end, chunks, first.reduce))
            wave[start] += 1
        for start, count in wave.items():
            waves[start] = max(waves[start], count)
    rows.sort()
    for i, row in enumerate(rows):
        if len(row[6]) > slots:  # each alone in its wave, after the others
            rows[i] = (row[0], waves[row[0]], *row[2:])
            waves[row[0]] += 1
    rows.sort()
    return [
        Message(i, src, dst, number, start, end, at, chunks, reduce)
        for i, (start, at, src, dst, number, end, chunks, reduce) in enumerate(rows)
    ]


def transfers_by_pair(problem: Problem, schedule: Schedule) -> dict[Pair, list[Transfer]]:
    """The transfers over all parallel links of each pair of ranks, in order."""
    by_pair: dict[Pair, list[Transfer]] = defaultdict(list)
    for t in schedule.transfers:
        arc = problem.arcs[t.link]
        by_pair[arc.src, arc.dst].append(t)
    return by_pair


def steps_of(problem: Problem, schedule: Schedule, target: Target) -> dict[Pair, int]:
    """Return the steps of the receiver for all transfers of each pair, chunk by chunk."""
    sum_steps = target.steps_of_addition
    return {
        pair: sum(sum_steps if t.reduce else 1 for t in transfers)
        for pair, transfers in transfers_by_pair(problem, schedule).items()
    }


def tracks_of(problem: Problem, schedule: Schedule, plan: ChannelPlan, target: Target) -> dict[Pair, int]:
    """Return the number of channels of each pair for concurrent chunks, without those for further runs in time."""
    tracks: dict[Pair, int] = {}
    for pair, transfers in transfers_by_pair(problem, schedule).items():
        most = min(plan.max_channels.get(pair, target.channels), target.channels)
        tracks[pair] = min(_tracks(transfers)[1], most)
    return tracks


def _runs_of_pair(
    pair: Pair, transfers: list[Transfer], plan: ChannelPlan, target: Target
) -> dict[_TrackRun, list[Transfer]]:
    """The transfers of a pair, given in order, by track and run in time."""
    sum_steps = target.steps_of_addition
    channels = min(plan.max_channels.get(pair, target.channels), target.channels)
    dealt = plan.dealt_evenly.get(pair, 0)
    track_of, number = ({}, 0) if dealt else _tracks(transfers)
    if dealt:  # each goes to the track with the fewest steps so far
        tracks: list[list[Transfer]] = [[] for _ in range(dealt)]
        loads = [(0, track) for track in range(dealt)]
        for t in transfers:
            load, track = loads[0]
            tracks[track].append(t)
            heapreplace(loads, (load + (sum_steps if t.reduce else 1), track))
        return {(track, 0): carried for track, carried in enumerate(tracks) if carried}
    if number > channels:  # transfers that start together and have to share do so with their neighbours
        by_start: dict[int, list[Transfer]] = defaultdict(list)
        for t in transfers:
            by_start[t.start].append(t)
        track_of = {
            _transfer_key(t): i * channels // len(group)
            if len(group) > channels
            else track_of[_transfer_key(t)] % channels
            for group in by_start.values()
            for i, t in enumerate(group)
        }
    by_track: dict[int, list[Transfer]] = defaultdict(list)
    for t in transfers:
        by_track[track_of[_transfer_key(t)]].append(t)
    steps = {track: [sum_steps if t.reduce else 1 for t in carried] for track, carried in by_track.items()}
    longest = -(-max(map(sum, steps.values()), default=0) // plan.runs_in_time.get(pair, 1))
    runs: dict[_TrackRun, list[Transfer]] = {}
    for track in sorted(by_track):  # as few runs in time as can be ``longest`` steps each, of about equal length
        whole = sum(steps[track])
        length = -(-whole // -(-whole // longest))
        before = 0
        in_time: dict[int, list[Transfer]] = defaultdict(list)
        for t, needed in zip(by_track[track], steps[track], strict=True):
            in_time[before // length].append(t)
            before += needed
        runs.update({(track, run): carried for run, carried in enumerate(in_time.values())})
    return runs


def _tracks(transfers: list[Transfer]) -> tuple[dict[tuple[int, int, int], int], int]:
    """Return the track of each transfer, distinct for transfers that overlap in time, and the number of tracks."""
    free_from: list[int] = []
    track_of: dict[tuple[int, int, int], int] = {}
    for t in sorted(transfers, key=lambda t: (t.start, t.link, t.chunk)):
        track = next((i for i, end in enumerate(free_from) if end <= t.start), len(free_from))
        free_from[track : track + 1] = [t.end]
        track_of[_transfer_key(t)] = track
    return track_of, len(free_from)


def _transfer_key(t: Transfer) -> tuple[int, int, int]:
    return t.start, t.chunk, t.link


def _channel_numbers(
    runs: Iterable[tuple[Pair, _TrackRun]], target: Target, *, evenly: bool
) -> dict[tuple[Pair, _TrackRun], int]:
    """The lowest channel for each run that its pair does not use and that has room at both ends. ``evenly``: the
    first run of every pair has a channel where the peers of each rank are spread evenly."""
    room = ChannelRoom(target)
    channel: dict[tuple[Pair, _TrackRun], int] = {}
    first = [pair for pair, run in sorted(runs) if run == (0, 0)] if evenly else []
    even_channel = dict(zip(first, evenly_spread_channels(first, target.max_peers_per_channel), strict=True))
    for pair, run in sorted(runs, key=lambda pair_run: (pair_run[1], pair_run[0])):
        even = even_channel.get(pair) if run == (0, 0) else None
        channel[pair, run] = room.take([pair], range(target.channels) if even is None else (even,))
    return channel


class ChannelRoom:
    """The channels of each pair, and how many others each rank sends to, and receives from, on each channel."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._sending: dict[tuple[Rank, int], int] = defaultdict(int)
        self._receiving: dict[tuple[Rank, int], int] = defaultdict(int)
        self._used: dict[Pair, set[int]] = defaultdict(set)

    def take(self, pairs: Sequence[Pair], among: Iterable[int]) -> int:
        """Reserve for all of ``pairs`` the first channel of ``among`` that none of them uses and that has room at
        all their ends, and return it. Raises HetesynthError HS503 where there is none."""
        most = self.target.max_peers_per_channel
        for c in among:
            room = all(self._sending[src, c] < most and self._receiving[dst, c] < most for src, dst in pairs)
            if room and not any(c in self._used[pair] for pair in pairs):
                break
        else:
            raise HetesynthError(
                f"ranks {pairs[0][0]} and {pairs[0][1]} need more channels than {self.target.channels}, the limit "
                f"of target {self.target.name}",
                code="HS503",
                help="use fewer chunks per rank, or a schedule with fewer peers per rank",
            )
        for src, dst in pairs:
            self._used[src, dst].add(c)
            self._sending[src, c] += 1
            self._receiving[dst, c] += 1
        return c


def evenly_spread_channels(edges: Sequence[Pair], max_peers: int) -> list[int]:
    """Return the channel of every edge; on each a rank sends to, and receives from, at most ``max_peers`` others.

    All channels get equally many of a rank's connections, or one more; the lowest channel with room would strand
    sends without a receive to share with. Edges between senders and receivers are halved along Euler walks until a
    part has few enough at every vertex (Gabow 1976)."""
    channel = [0] * len(edges)
    parts = [list(range(len(edges)))]

    def degree(part: list[int]) -> int:
        sends, receives = Counter(edges[e][0] for e in part), Counter(edges[e][1] for e in part)
        return max((*sends.values(), *receives.values()), default=0)

    while max(map(degree, parts), default=0) > max_peers:
        wholes, parts = parts, []
        for part in wholes:
            # for each edge the one that the walk comes from or goes to at its source and at its destination
            mates: dict[int, list[int | None]] = {e: [None, None] for e in part}
            for end in (0, 1):
                waiting: dict[Rank, int] = {}
                for e in part:
                    other = waiting.pop(edges[e][end], None)
                    if other is None:
                        waiting[edges[e][end]] = e
                    else:
                        mates[e][end], mates[other][end] = other, e
            side: dict[int, int] = {}
            for first in (*(e for e in part if None in mates[e]), *part):
                at: int | None = first
                turn, colour = int(mates[first][0] is None), 0  # walk on from the end that has a mate
                while at is not None and at not in side:
                    side[at] = colour
                    at, turn, colour = mates[at][turn], 1 - turn, 1 - colour
            parts += [[e for e in part if side[e] == half] for half in (0, 1)]
    for number, part in enumerate(parts):
        for e in part:
            channel[e] = number
    return channel
