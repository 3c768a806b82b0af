"""Messages in the order of their dispatch -> a program that sends them in that order.

A lane sends one message at a time. What it sends is cut, in the order of time, into runs of as many messages as a
thread block has steps for; each run has a channel of its own, and its first message waits for the last one of the
run before. Sends and receives share a thread block only where there are too few of these: elsewhere nothing waits
for what is not its data."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hetesynth.errors import HetesynthError
from hetesynth.model.dispatch import Dispatch
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule
from hetesynth.model.target import Target
from hetesynth.model.timeline import Ints
from hetesynth.model.topology import Rank
from hetesynth.programs.cut_chunks import collective_in_pieces
from hetesynth.programs.layout import Layout
from hetesynth.programs.msccl.assembly import grouped, ordered
from hetesynth.programs.msccl.channels import ChannelRoom, Message, Pair
from hetesynth.programs.msccl.lower import FEWER, Lowered, LoweringOptions, lowered_as, within
from hetesynth.programs.msccl.placement import Placer
from hetesynth.programs.msccl.thread_blocks import BlockPlan, Connection


@dataclass(frozen=True, eq=False)
class Runs:
    """``of[m]``: the run of message m. ``messages[r]``: of run r, in the order of time. ``after[r]``: the last
    message of the lane before it, -1: none. ``link[r]``: which one it sends over. ``steps[r]``: of its
    receiver."""

    of: Ints
    messages: list[list[int]]
    after: list[int]
    link: list[int]
    steps: list[int]


def runs_of(schedule: Schedule, steps: Ints, dispatch: Dispatch, room: int) -> Runs:
    """The runs of a dispatch of ``schedule``. ``steps``: of the receiver of each transfer, ``room`` of a run."""
    start, group = dispatch.start, np.tile(dispatch.lanes.of, dispatch.pieces)
    links = np.tile(np.array([t.link for t in schedule.transfers], dtype=np.int64), dispatch.pieces)
    lanes = dispatch.lanes.number.tolist()
    runs = Runs(np.empty(len(start), dtype=np.int64), [], [], [], [])
    # of each lane: when it is idle, the run it is in, its steps that are left, the last message
    state: dict[int, list[tuple[float, int, int, int]]] = {}
    order = np.lexsort((start, group))
    columns = (c[order].tolist() for c in (group, links, start, dispatch.sent, np.tile(steps, dispatch.pieces)))
    for m, g, link, begin, end, needed in zip(order.tolist(), *columns, strict=True):
        own = state.setdefault(g, [(-1.0, -1, 0, -1)] * lanes[g])
        idle = [i for i, lane in enumerate(own) if lane[0] <= begin] or [own.index(min(own))]
        # the run that is nearest to its end goes on, else the lane whose run is over
        with_room = [i for i in idle if own[i][2] >= needed]
        if with_room:
            i = min(with_room, key=lambda i: own[i][2])
            _, run, left, _ = own[i]
        else:
            i = max(idle, key=lambda i: own[i][1] >= 0)
            run, left = len(runs.link), room
            runs.messages.append([])
            runs.after.append(own[i][3])
            runs.link.append(link)
            runs.steps.append(0)
        own[i] = end, run, left - needed, m
        runs.of[m] = run
        runs.messages[run].append(m)
        runs.steps[run] += needed
    return runs


Shared = dict[int, int]
"""Runs that end at a rank with the run that begins there and shares their thread block."""


def shared_blocks(runs: Runs, ends: Sequence[Pair], dispatch: Dispatch, blocks: int, room: int) -> Shared | None:
    """Which runs share thread blocks so that no rank has more than ``blocks`` of ``room`` steps; None: they do not
    fit. Those share first of which what arrives is held up least by what is being sent. Runs over parallel links,
    whose channels are to take turns, share with none."""
    over = Counter(ends)
    parallel = {r for r, link in enumerate(runs.link) if over[ends[link]] > 1}
    arriving: dict[Rank, list[int]] = defaultdict(list)
    leaving: dict[Rank, list[int]] = defaultdict(list)
    for r, link in enumerate(runs.link):
        leaving[ends[link][0]].append(r)
        arriving[ends[link][1]].append(r)
    shared: Shared = {}
    joined = list(range(len(runs.link)))  # runs of one channel have one number
    pairs = [{ends[link]} for link in runs.link]  # by that number

    def number(r: int) -> int:
        while joined[r] != r:
            r = joined[r]
        return r

    for rank in sorted({*arriving, *leaving}):
        excess = len(arriving[rank]) + len(leaving[rank]) - blocks
        if excess <= 0:
            continue
        delays: list[tuple[float, int, int]] = []
        for out in leaving[rank]:
            messages = runs.messages[out]
            begins, ends_of = dispatch.start[messages], dispatch.sent[messages]
            for r in arriving[rank]:
                if runs.steps[r] + len(messages) <= room and not {r, out} & parallel:
                    at = dispatch.sent[runs.messages[r]]
                    place = np.searchsorted(begins, at) - 1
                    waiting = np.where(place >= 0, np.maximum(0.0, ends_of[place] - at), 0.0)
                    delays.append((float(waiting.sum()), r, out))
        senders: set[int] = set()
        for _, r, out in sorted(delays):
            one, other = number(r), number(out)
            if r in shared or out in senders or one == other or pairs[one] & pairs[other]:
                continue
            shared[r] = out
            senders.add(out)
            joined[other] = one
            pairs[one] |= pairs[other]
            excess -= 1
            if excess == 0:
                break
        if excess:
            return None
    return shared


def steps_of_messages(schedule: Schedule, target: Target) -> Ints:
    """Of each transfer, the steps that its receiver needs."""
    return np.array([target.steps_of_addition if t.reduce else 1 for t in schedule.transfers], dtype=np.int64)


ROOMS = (57, 48, 38, 30)
"""Steps of a run, of the 64 of a thread block: the fewer, the more runs there are and the more can share one."""


def arranged(
    problem: Problem, schedule: Schedule, dispatch: Dispatch, target: Target
) -> Iterator[tuple[Runs, Shared]]:
    """The runs of ``dispatch`` and which of them share thread blocks, each way in which they may fit
    ``target``, the one that waits least first."""
    ends = [(arc.src, arc.dst) for arc in problem.arcs]
    steps = steps_of_messages(schedule, target)
    parallel = Counter(ends)
    for room in ROOMS:
        runs = runs_of(schedule, steps, dispatch, room * target.max_steps // 64)
        if any(number > target.channels // parallel[ends[a]] for a, number in Counter(runs.link).items()):
            continue
        shared = shared_blocks(runs, ends, dispatch, target.thread_blocks - 1, target.max_steps - 2)
        if shared is not None:
            yield runs, shared


def lower_dispatched(
    problem: Problem, schedule: Schedule, dispatch: Dispatch, options: LoweringOptions
) -> Lowered:
    """The program that sends the messages of ``schedule`` in the order of ``dispatch``. Raises HetesynthError:
    HS501 to HS504 a limit of the target, HS505 the collective has no such form, HS507 the schedule sends what
    a rank does not hold."""
    options.check(problem.collective.name)
    target, transfers, arcs = options.target, schedule.transfers, problem.arcs
    pieces, start, sent, many = dispatch.pieces, dispatch.start, dispatch.sent, len(transfers)
    layout = Layout(collective_in_pieces(problem.collective, pieces), options.in_place)
    order = np.lexsort((np.arange(len(start)), start)).tolist()
    # a place for every receive, use of what it brought, and send in the order of time, at the same time in
    # this order
    tick = np.empty(3 * len(start), dtype=np.int64)
    tick[np.argsort(np.concatenate([sent, sent, start]), kind="stable")] = np.arange(3 * len(start))
    arrivals, ends, starts = (of.tolist() for of in np.split(tick, 3))
    number = {m: i for i, m in enumerate(order)}
    for runs, shared in arranged(problem, schedule, dispatch, target):
        channels = _channels(runs, shared, problem, target)
        of = runs.of.tolist()
        messages = [
            Message(
                i,
                (arc := arcs[(t := transfers[m % many]).link]).src,
                arc.dst,
                channels[of[m]],
                starts[m],
                ends[m],
                0,
                (t.chunk * pieces + m // many,),
                t.reduce,
                arrivals[m],
            )
            for i, m in enumerate(order)
        ]
        after = {
            number[of_run[0]]: number[last]
            for of_run, last in zip(runs.messages, runs.after, strict=True)
            if last >= 0
        }
        partners: list[dict[Connection, Connection]] = [{} for _ in range(problem.ranks)]
        for r, out in shared.items():
            src, rank = arcs[runs.link[r]].src, arcs[runs.link[r]].dst
            partners[rank][src, channels[r]] = arcs[runs.link[out]].dst, channels[out]
        placement = Placer(layout, messages, target).run()
        plans = [BlockPlan(rank, {}, partners=partners[rank]) for rank in range(problem.ranks)]
        draft = grouped(placement, messages, options.fusion, target, target.slots(options.protocol), plans)
        if within(draft.steps, target):
            draft = ordered(draft, after)
            if within(draft.steps, target):
                return lowered_as(layout, draft, options)
    raise HetesynthError(
        f"{pieces} pieces of {len(problem.collective.chunks)} chunks do not fit into {target.thread_blocks} "
        f"thread blocks of {target.max_steps} steps; target {target.name} allows no more",
        code="HS501",
        help=FEWER,
    )


def _channels(runs: Runs, shared: Shared, problem: Problem, target: Target) -> list[int]:
    """Of each run: one for those that share thread blocks one after the other, else the lowest that their pairs do
    not use; channels take parallel links by their number. HetesynthError HS503 where they do not suffice."""
    pair_of = [(problem.arcs[link].src, problem.arcs[link].dst) for link in runs.link]
    parallel: dict[Pair, list[int]] = defaultdict(list)
    for link, arc in enumerate(problem.arcs):
        parallel[arc.src, arc.dst].append(link)
    chains: list[list[int]] = []
    begun = {*shared.values()}
    for first in sorted(set(range(len(pair_of))) - begun):
        chain = [first]
        while chain[-1] in shared:
            chain.append(shared[chain[-1]])
        chains.append(chain)
    room, channels = ChannelRoom(target), [-1] * len(pair_of)
    for chain in sorted(chains, key=lambda chain: (-len(chain), chain)):
        pairs = [pair_of[r] for r in chain]
        alike = parallel[pairs[0]]
        c = room.take(pairs, range(alike.index(runs.link[chain[0]]), target.channels, len(alike)))
        for r in chain:
            channels[r] = c
    return channels
