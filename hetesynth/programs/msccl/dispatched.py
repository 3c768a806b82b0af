"""Messages in the order of their dispatch -> a program that sends them in that order.

A lane sends one message at a time. What it sends is cut, in the order of time, into runs of as many messages as a
thread block has steps for; each run has a channel of its own, and its first message waits for the last one of the
run before. Sends and receives share a thread block only where there are too few of these: elsewhere nothing waits
for what is not its data."""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf

import numpy as np

from hetesynth.errors import HetesynthError
from hetesynth.machine_code import run_kernel
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule
from hetesynth.model.target import Target
from hetesynth.model.timeline import Dispatch, Floats, Ints
from hetesynth.programs.layout import Layout, collective_in_pieces
from hetesynth.programs.msccl.assembly import grouped, ordered
from hetesynth.programs.msccl.channels import ChannelRoom, Message, Pair
from hetesynth.programs.msccl.lower import FEWER, Lowered, LoweringOptions, lowered_as, within
from hetesynth.programs.msccl.placement import Placer, starts
from hetesynth.programs.msccl.run_kernels import (
    Cut,
    Ended,
    Held,
    Joined,
    LaneStates,
    Offers,
    Sent,
    cut,
    hold,
    join,
)
from hetesynth.programs.msccl.thread_blocks import BlockPlan, Connection


@dataclass(frozen=True, eq=False)
class Runs:
    """The runs of a dispatch. ``of[m]``: the run of message m. ``messages[first[r]:first[r + 1]]``: those of run r
    in order of time. ``after[r]``: the last message of its lane before it, or -1. ``link[r]``: its link.
    ``steps[r]``: of its receiver. ``begin[r]``, ``end[r]``: seconds when it first sends, and has sent all."""

    of: Ints
    messages: Ints
    first: Ints
    after: Ints
    link: Ints
    steps: Ints
    begin: Floats
    end: Floats


def runs_of(schedule: Schedule, steps: Ints, dispatch: Dispatch, room: int, span: float) -> Runs:
    """Return the runs of a dispatch of ``schedule``, of at most ``room`` steps and ``span`` seconds. ``steps``:
    the steps of the receiver of each transfer."""
    start, group, n = dispatch.start, np.tile(dispatch.lanes.of, dispatch.pieces), len(dispatch.start)
    links = np.tile(np.array([t.link for t in schedule.transfers], dtype=np.int64), dispatch.pieces)
    order = np.lexsort((start, group))
    needed = np.tile(steps, dispatch.pieces)[order]
    lanes, first = int(dispatch.lanes.number.sum()), starts(dispatch.lanes.number)
    sent = Sent(group[order], start[order], dispatch.sent[order], needed, first, room, span)
    none, zero = np.full(lanes, -1), np.zeros(lanes)
    states = LaneStates(zero - 1, none, none * 0, zero, none.copy())
    cuts = Cut(*np.zeros((3, n), dtype=np.int64))
    number = run_kernel(cut, sent, states, cuts, seconds=6e-6 * n)
    of = np.empty(n, dtype=np.int64)
    of[order] = cuts.run
    messages = order[np.argsort(cuts.run, kind="stable")]
    first, after = starts(np.bincount(cuts.run, minlength=number)), cuts.after[:number]
    after = np.where(after < 0, -1, order[after])
    each, last = messages[first[:-1]], messages[first[1:] - 1]
    return Runs(of, messages, first, after, links[each], cuts.steps[:number], start[each], dispatch.sent[last])


Shared = dict[int, int]
"""Runs that end at a rank with the run that begins there and shares their thread block."""


def shared_blocks(runs: Runs, ends: Sequence[Pair], dispatch: Dispatch, blocks: int, room: int) -> Shared | None:
    """Return which runs share thread blocks so that no rank has more than ``blocks`` of ``room`` steps; None if
    that is not possible. Pairs share first in which sending holds up least what arrives, and this loop the next.
    Runs over parallel links, whose channels are to take turns, share with none."""
    over, sources, targets = Counter(ends), *np.array(ends, dtype=np.int64)[runs.link].T
    alone = np.array([over[pair] == 1 for pair in ends])[runs.link]
    excess = np.bincount(np.concatenate((sources, targets))) - blocks
    candidates: list[tuple[Ints, Ints]] = []
    for rank in np.flatnonzero(excess > 0).tolist():
        arriving, leaving = (np.flatnonzero((at == rank) & alone) for at in (targets, sources))
        enough = runs.steps[arriving] + np.diff(runs.first)[leaving][:, None] <= room
        if excess[rank] > min(enough.any(axis=0).sum(), enough.any(axis=1).sum()):
            return None
        out, r = np.nonzero(enough)
        candidates.append((arriving[r], leaving[out]))
    if not candidates:
        return {}
    arrives, leaves = (np.concatenate(of) for of in zip(*candidates, strict=True))
    delays = Held(np.zeros(len(arrives)))
    begin, end = dispatch.start[runs.messages], dispatch.sent[runs.messages]
    ended = Ended(runs.first, begin, end, arrives, leaves)
    run_kernel(hold, ended, delays, seconds=2e-6 * float(np.diff(runs.first)[arrives].sum()))
    waits = delays.seconds + np.maximum(0.0, busy(runs, arrives, leaves) - dispatch.period)
    order = np.lexsort((leaves, arrives, waits, targets[arrives]))
    pairs = {pair: number for number, pair in enumerate(dict.fromkeys(ends))}
    numbers = np.array([pairs[pair] for pair in ends], dtype=np.int64)[runs.link]
    none, number = np.full(len(runs.link), -1), np.arange(len(runs.link))
    joined = Joined(none, none.copy(), number, none.copy(), number.copy(), np.maximum(excess, 0))
    offers = Offers(targets[arrives[order]], arrives[order], leaves[order], numbers)
    run_kernel(join, offers, joined, seconds=1e-6 * len(order))
    if joined.excess.any():
        return None
    return {r: out for r, out in enumerate(joined.shares.tolist()) if out >= 0}


def longest_block(runs: Runs, shared: Shared) -> float:
    """Return the most seconds of a loop for which a thread block is busy."""
    alone = range(len(runs.link))
    return float(busy(runs, np.array([*alone, *shared]), np.array([*alone, *shared.values()])).max())


def busy(runs: Runs, one: Ints, other: Ints) -> Floats:
    """Return the seconds from the first message of two runs, ``one[i]`` and ``other[i]``, to the last."""
    last = np.maximum(runs.end[one], runs.end[other])
    return np.asarray(last - np.minimum(runs.begin[one], runs.begin[other]))


def steps_of_messages(schedule: Schedule, target: Target) -> Ints:
    """Return the number of steps that the receiver of each transfer needs."""
    return np.array([target.steps_of_addition if t.reduce else 1 for t in schedule.transfers], dtype=np.int64)


ROOMS = (57, 48, 38, 30)
"""Steps of a run, of the 64 of a thread block: the fewer, the more runs there are and the more can share one."""


def arranged(
    problem: Problem, schedule: Schedule, dispatch: Dispatch, target: Target
) -> Iterator[tuple[Runs, Shared]]:
    """Yield the runs of ``dispatch`` and which of them share thread blocks, for each way in which they may fit
    ``target``, the one that waits least first; none if a message is ``overtaken``."""
    if overtaken(problem, schedule, dispatch):
        return
    ends = [(arc.src, arc.dst) for arc in problem.arcs]
    steps = steps_of_messages(schedule, target)
    parallel = Counter(ends)
    for span, room in product(dict.fromkeys((dispatch.span, inf)), ROOMS):
        runs = runs_of(schedule, steps, dispatch, room * target.max_steps // 64, span)
        if any(number > target.channels // parallel[ends[a]] for a, number in Counter(runs.link.tolist()).items()):
            continue
        shared = shared_blocks(runs, ends, dispatch, target.thread_blocks - 1, target.max_steps - 2)
        if shared is not None:
            yield runs, shared


def overtaken(problem: Problem, schedule: Schedule, dispatch: Dispatch) -> bool:
    """Return True if a rank gets an addition before it sends the sum without it, where it sends that first in
    ``schedule``: two servers that trade their sums would add one of them twice."""
    if problem.collective.name != "allreduce":
        return False
    arcs, transfers = problem.arcs, schedule.transfers
    sums = {(t.chunk, arcs[t.link].src): i for i, t in enumerate(transfers) if t.reduce}
    pairs = [
        (i, j)
        for j, t in enumerate(transfers)
        if t.reduce and (i := sums.get((t.chunk, arcs[t.link].dst))) is not None and transfers[i].start < t.end
    ]
    shape = dispatch.pieces, len(transfers)
    start, sent = dispatch.start.reshape(shape), dispatch.sent.reshape(shape)
    sends, adds = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return bool((sent[:, adds] <= start[:, sends]).any())


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
        begins = runs.messages[runs.first[:-1]].tolist()
        after = {number[m]: number[last] for m, last in zip(begins, runs.after.tolist(), strict=True) if last >= 0}
        partners: list[dict[Connection, Connection]] = [{} for _ in range(problem.ranks)]
        for r, out in shared.items():
            arc = arcs[runs.link[r]]
            partners[arc.dst][arc.src, channels[r]] = arcs[runs.link[out]].dst, channels[out]
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
    """Return the channel of each run: the lowest that its pairs do not use, one for a chain of runs that share
    thread blocks. Channels take parallel links by number. HetesynthError HS503 where they do not suffice."""
    links = runs.link.tolist()
    pair_of = [(problem.arcs[link].src, problem.arcs[link].dst) for link in links]
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
        c = room.take(pairs, range(alike.index(links[chain[0]]), target.channels, len(alike)))
        for r in chain:
            channels[r] = c
    return channels
