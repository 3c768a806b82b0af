"""Transfers -> messages: which channel carries each, how many chunks go together, and in which order.

In: a problem, a schedule and a ``ChannelPlan`` (what to do differently because a limit did not hold). Out:
messages. Knows nothing of buffers and thread blocks.

Concurrent transfers of one pair of ranks (over all parallel links between them) take distinct channels, so
the number of channels of a pair is the largest number of chunks the schedule ever has in flight on it:
at most C(u, v), and non-uniform (HeteCCL 5.3).

The order. Every message has a send key and a receive key; sorted, they put all instructions of all GPUs in one
line: within a tick, wave by wave, first all sends of the wave and then all its receives. A connection has at
most one message in a wave, and a message longer than the FIFO has a wave of its own. See ``thread_blocks`` for
why that excludes deadlock.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import heapreplace
from typing import NamedTuple

from hetesynth.errors import HetesynthError
from hetesynth.lowering.msccl.edge_colouring import level_channels
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.target import Target
from hetesynth.model.topology import Rank

Pair = tuple[Rank, Rank]
_Track = tuple[Pair, tuple[int, int]]  # (track, run in time) of a pair
Key = tuple[int, int, int, int, int]
"""A place in the one order of all instructions: tick, commits first, wave, sends first, message."""


@dataclass(frozen=True, slots=True)
class Message:
    """What one send and the receive it meets carry: ``chunks`` of ``src`` to ``dst`` on ``channel``."""

    index: int
    src: Rank
    dst: Rank
    channel: int
    start: int
    end: int
    wave: int
    chunks: tuple[int, ...]
    reduce: bool

    @property
    def send_key(self) -> Key:
        """Where the send stands in the order."""
        return self.start, 1, self.wave, 0, self.index

    @property
    def receive_key(self) -> Key:
        """Where the receive stands in the order."""
        return self.start, 1, self.wave, 1, self.index

    @property
    def commit_key(self) -> Key:
        """Where the arriving value starts to count: before anything else of tick ``end``."""
        return self.end, 0, 0, 0, self.index


@dataclass(frozen=True)
class ChannelPlan:
    """How to depart from one channel per concurrent chunk, so that limits hold.

    ``most``: channels a pair may use for concurrent chunks (absent: as many as the target has). ``parts``: into
    how many runs, each on channels of its own, the longest track of a pair is cut in time; the others into runs no
    longer than those. ``merge``: neighbouring chunks that share a channel in a tick become one message; ``apart``:
    (pair, tick) where that must not be done. ``near``: only chunks with adjacent numbers are taken as neighbours.
    ``even``: instead of all that, over how many channels a pair's transfers are dealt out evenly. ``level``: the
    peers of a rank are spread evenly over channels, not put on the lowest with room.
    """

    most: Mapping[Pair, int] = field(default_factory=dict)
    parts: Mapping[Pair, int] = field(default_factory=dict)
    merge: bool = True
    apart: frozenset[tuple[Pair, int]] = frozenset()
    near: bool = False
    even: Mapping[Pair, int] = field(default_factory=dict)
    level: bool = False


def messages(problem: Problem, schedule: Schedule, plan: ChannelPlan, target: Target, slots: int) -> list[Message]:
    """The messages of ``schedule``; ``slots`` is the depth of a FIFO in messages.

    Raises HetesynthError HS503 when the channels of ``target`` do not suffice.
    """
    tracks: dict[_Track, list[Transfer]] = {}
    sum_steps = 1 if "rrc" in target.ops else 2
    for pair, transfers in sorted(transfers_by_pair(problem, schedule).items()):
        most = min(plan.most.get(pair, target.channels), target.channels)
        if pair in plan.even:
            slots_of = _dealt(transfers, plan.even[pair], sum_steps)
        else:
            slots_of = _slots(transfers, most, plan.parts.get(pair, 1), sum_steps)
        for slot, carried in slots_of.items():
            tracks[pair, slot] = carried
    channel = _channel_numbers(tracks, target, level=plan.level)
    unnumbered: list[_Loose] = []
    for (pair, slot), carried in tracks.items():
        together = _together(pair, carried, plan, target)
        unnumbered.extend(_waves(pair, channel[pair, slot], together))
    return _numbered(unnumbered, slots)


def transfers_by_pair(problem: Problem, schedule: Schedule) -> dict[Pair, list[Transfer]]:
    """The transfers over all parallel links of each pair of ranks, in order."""
    by_pair: dict[Pair, list[Transfer]] = defaultdict(list)
    for t in schedule.transfers:
        arc = problem.arcs[t.link]
        by_pair[arc.src, arc.dst].append(t)
    return by_pair


def steps_of(problem: Problem, schedule: Schedule, target: Target) -> dict[Pair, int]:
    """Steps of the receiver for all that each pair carries, chunk by chunk."""
    sum_steps = 1 if "rrc" in target.ops else 2
    return {
        pair: sum(sum_steps if t.reduce else 1 for t in transfers)
        for pair, transfers in transfers_by_pair(problem, schedule).items()
    }


def tracks_of(problem: Problem, schedule: Schedule, plan: ChannelPlan, target: Target) -> dict[Pair, int]:
    """How many channels each pair uses for concurrent chunks (without those it has because it is cut in time)."""
    return {
        pair: min(len(_tracks(transfers)[1]), plan.most.get(pair, target.channels), target.channels)
        for pair, transfers in transfers_by_pair(problem, schedule).items()
    }


class _Loose(NamedTuple):
    """A message whose wave and index are not settled; in the order of all."""

    start: int
    wave: int
    src: Rank
    dst: Rank
    channel: int
    run: list[Transfer]

    @property
    def place(self) -> tuple[int, int, Rank, Rank, int]:
        """What orders messages."""
        return self[:5]


def _slots(
    transfers: list[Transfer], most: int, parts: int, sum_steps: int
) -> dict[tuple[int, int], list[Transfer]]:
    """The transfers of a pair by (track, run in time); transfers that overlap in time take distinct tracks.

    ``sum_steps``: steps of the receiver for a value that is added.
    """
    track_of, free_from = _tracks(transfers)
    in_order = sorted(transfers, key=_who)
    if len(free_from) > most:
        track_of = _squeezed(in_order, track_of, most)
    tracks: dict[int, list[Transfer]] = defaultdict(list)
    for t in in_order:
        tracks[track_of[_who(t)]].append(t)
    steps = {track: [sum_steps if t.reduce else 1 for t in carried] for track, carried in tracks.items()}
    longest = -(-max(map(sum, steps.values()), default=0) // parts)
    by_track: dict[tuple[int, int], list[Transfer]] = {}
    for track in sorted(tracks):
        for part, run in enumerate(_cut(tracks[track], steps[track], longest)):
            by_track[track, part] = run
    return by_track


def _dealt(transfers: list[Transfer], number: int, sum_steps: int) -> dict[tuple[int, int], list[Transfer]]:
    """The transfers of a pair by (track, 0): each goes to the track with the fewest steps so far."""
    tracks: list[list[Transfer]] = [[] for _ in range(number)]
    steps = [(0, track) for track in range(number)]
    for t in sorted(transfers, key=_who):
        steps_so_far, track = steps[0]
        tracks[track].append(t)
        heapreplace(steps, (steps_so_far + (sum_steps if t.reduce else 1), track))
    return {(track, 0): carried for track, carried in enumerate(tracks) if carried}


def _cut(carried: list[Transfer], steps: list[int], longest: int) -> list[list[Transfer]]:
    """As few runs in time as can be ``longest`` steps each, of about equal length."""
    whole = sum(steps)
    number = -(-whole // longest)
    length = -(-whole // number)
    runs: list[list[Transfer]] = [[] for _ in range(number)]
    before = 0
    for t, needed in zip(carried, steps, strict=True):
        runs[before // length].append(t)
        before += needed
    return [run for run in runs if run]


def _tracks(transfers: list[Transfer]) -> tuple[dict[tuple[int, int, int], int], list[int]]:
    """The track of each transfer by start, chunk and link, and when each track is free again."""
    free_from: list[int] = []
    track_of: dict[tuple[int, int, int], int] = {}
    for t in sorted(transfers, key=lambda t: (t.start, t.link, t.chunk)):
        track = next((i for i, end in enumerate(free_from) if end <= t.start), len(free_from))
        free_from[track : track + 1] = [t.end]
        track_of[_who(t)] = track
    return track_of, free_from


def _who(t: Transfer) -> tuple[int, int, int]:
    return t.start, t.chunk, t.link


def _squeezed(
    transfers: list[Transfer], track_of: Mapping[tuple[int, int, int], int], most: int
) -> dict[tuple[int, int, int], int]:
    """Tracks 0 to most-1 only; transfers that start together and have to share do so with their neighbours."""
    together: dict[int, list[Transfer]] = defaultdict(list)
    for t in transfers:
        together[t.start].append(t)
    return {
        _who(t): i * most // len(group) if len(group) > most else track_of[_who(t)] % most
        for group in together.values()
        for i, t in enumerate(group)
    }


def _channel_numbers(tracks: Iterable[_Track], target: Target, *, level: bool) -> dict[_Track, int]:
    """The lowest channel for each track that its pair does not use and that has room at both ends.

    ``level``: the first track of every pair has a channel where the peers of each rank are spread evenly.
    """
    sending: dict[tuple[Rank, int], int] = defaultdict(int)
    receiving: dict[tuple[Rank, int], int] = defaultdict(int)
    used: dict[Pair, set[int]] = defaultdict(set)
    channel: dict[_Track, int] = {}
    most = target.max_peers_per_channel
    first = [track for track in sorted(tracks) if track[1] == (0, 0)] if level else []
    level_channel = dict(zip(first, level_channels([pair for pair, _ in first], most), strict=True))
    for pair, slot in sorted(tracks, key=lambda track: (track[1], track[0])):
        src, dst = pair
        levelled = level_channel.get((pair, slot))
        for c in range(target.channels) if levelled is None else (levelled,):
            if c not in used[pair] and sending[src, c] < most and receiving[dst, c] < most:
                break
        else:
            raise HetesynthError(
                f"ranks {src} and {dst} need more channels than {target.channels}, the limit of target "
                f"{target.name}",
                code="HS503",
                help="use fewer chunks per rank, or a schedule with fewer peers per rank",
            )
        used[pair].add(c)
        sending[src, c] += 1
        receiving[dst, c] += 1
        channel[pair, slot] = c
    return channel


def _together(pair: Pair, carried: list[Transfer], plan: ChannelPlan, target: Target) -> list[list[Transfer]]:
    """Runs of transfers that travel as one message: single transfers unless the plan merges."""
    runs: list[list[Transfer]] = []
    for t in carried:
        last = runs[-1] if runs else []
        if (
            plan.merge
            and last
            and (pair, t.start) not in plan.apart
            and (t.start, t.end, t.reduce) == (last[0].start, last[0].end, last[0].reduce)
            and len(last) < target.max_count
            and not (plan.near and last[-1].chunk + 1 != t.chunk)
        ):
            last.append(t)
        else:
            runs.append([t])
    return runs


def _waves(pair: Pair, channel: int, runs: list[list[Transfer]]) -> Iterator[_Loose]:
    """One message a run; runs of one tick take one wave after the other."""
    wave: dict[int, int] = defaultdict(int)
    for run in runs:
        start = run[0].start
        yield _Loose(start, wave[start], *pair, channel, run)
        wave[start] += 1


def _numbered(unnumbered: list[_Loose], slots: int) -> list[Message]:
    """The messages in order with their indices; those longer than a FIFO alone in their wave, after the others."""
    unnumbered = sorted(unnumbered, key=lambda m: m.place)
    widest: dict[int, int] = defaultdict(int)
    for m in unnumbered:
        widest[m.start] = max(widest[m.start], m.wave + 1)
    long = [i for i, m in enumerate(unnumbered) if len(m.run) > slots]
    for i in long:
        m = unnumbered[i]
        unnumbered[i] = m._replace(wave=widest[m.start])
        widest[m.start] += 1
    if long:
        unnumbered.sort(key=lambda m: m.place)
    return [_message(i, m) for i, m in enumerate(unnumbered)]


def _message(index: int, m: _Loose) -> Message:
    first = m.run[0]
    chunks = tuple(t.chunk for t in m.run)
    return Message(index, m.src, m.dst, m.channel, m.start, first.end, m.wave, chunks, first.reduce)
