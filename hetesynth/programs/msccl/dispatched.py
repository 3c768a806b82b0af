"""Messages in the order of their dispatch -> a program that sends them in that order.

A lane sends one message at a time. What it sends is cut, in the order of time, into runs of as many messages as a
thread block has steps for; each run has a channel of its own, and its first message waits for the last one of the
run before. Sends and receives have thread blocks of their own, so nothing waits for what is not its data."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hetesynth.errors import HetesynthError
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule
from hetesynth.model.target import Target
from hetesynth.model.timeline import Floats, Ints
from hetesynth.model.topology import Rank
from hetesynth.programs.cut_chunks import collective_in_pieces
from hetesynth.programs.layout import Layout
from hetesynth.programs.msccl.assembly import grouped, ordered
from hetesynth.programs.msccl.channels import Message, channel_numbers
from hetesynth.programs.msccl.lower import FEWER, Lowered, LoweringOptions, lowered_as, within
from hetesynth.programs.msccl.placement import Placer
from hetesynth.programs.msccl.thread_blocks import BlockPlan


@dataclass(frozen=True, eq=False)
class Runs:
    """``of[m]``: the run of message m. ``after[r]``: the last message of the lane before run r, -1: none.
    ``link[r]``: which one it sends over."""

    of: Ints
    after: list[int]
    link: list[int]

    def blocks(self, ends: Sequence[tuple[Rank, Rank]]) -> dict[Rank, int]:
        """Thread blocks of each rank."""
        numbers: dict[Rank, int] = defaultdict(int)
        for link in self.link:
            for rank in ends[link]:
                numbers[rank] += 1
        return numbers


def runs_of(links: Ints, steps: Ints, start: Floats, sent: Floats, lanes: Sequence[int], room: int) -> Runs:
    """The runs of messages over ``links`` from ``start`` to ``sent``, ``lanes[l]`` at once over link l. ``steps``: of
    the thread block that has most to do with a message, ``room`` of a run."""
    of = np.empty(len(links), dtype=np.int64)
    after: list[int] = []
    link_of: list[int] = []
    # of each lane: when it is idle, the run it is in, its steps that are left, the last message
    state: dict[int, list[list[float]]] = {}
    for m in np.lexsort((start, links)).tolist():
        link, begin, needed = int(links[m]), start[m], int(steps[m])
        own = state.setdefault(link, [[-1.0, -1, 0, -1] for _ in range(lanes[link])])
        idle = [lane for lane in own if lane[0] <= begin * (1 + 1e-9)] or [min(own)]
        # the run that is nearest to its end goes on, else the lane whose run is over
        with_room = [lane for lane in idle if lane[2] >= needed]
        lane = min(with_room, key=lambda lane: lane[2]) if with_room else max(idle, key=lambda lane: lane[1] >= 0)
        if not with_room:
            after.append(int(lane[3]))
            link_of.append(link)
            lane[1], lane[2] = len(after) - 1, room
        of[m] = lane[1]
        lane[0], lane[2], lane[3] = sent[m], lane[2] - needed, m
    return Runs(of, after, link_of)


def steps_of_messages(schedule: Schedule, target: Target) -> Ints:
    """Of each transfer, the steps that its receiver needs."""
    adding = 1 if "rrc" in target.ops else 2
    return np.array([adding if t.reduce else 1 for t in schedule.transfers], dtype=np.int64)


def lower_dispatched(
    problem: Problem,
    schedule: Schedule,
    pieces: int,
    start: Floats,
    sent: Floats,
    lanes: Sequence[int],
    options: LoweringOptions,
) -> Lowered:
    """The program of ``pieces`` of every chunk; message p x transfers + t is piece p of transfer t, sent from
    ``start`` to ``sent``; ``lanes[l]``: at once over link l. Raises HetesynthError: HS501 to HS504 a limit of the
    target, HS505 the collective has no such form, HS507 the schedule sends what a rank does not hold."""
    options.check(problem.collective.name)
    target, transfers, arcs = options.target, schedule.transfers, problem.arcs
    many = len(transfers)
    links = np.tile(np.array([t.link for t in transfers], dtype=np.int64), pieces)
    steps = np.tile(steps_of_messages(schedule, target), pieces)
    layout = Layout(collective_in_pieces(problem.collective, pieces), options.in_place)
    order = np.lexsort((np.arange(len(links)), start)).tolist()
    # a place for every receive, use of what it brought, and send in the order of time, at the same time in this order
    tick = np.empty(3 * len(links), dtype=np.int64)
    tick[np.argsort(np.concatenate([sent, sent, start]), kind="stable")] = np.arange(3 * len(links))
    arrivals, ends, starts = (of.tolist() for of in np.split(tick, 3))
    for share in (0.9, 0.75):
        runs = runs_of(links, steps, start, sent, lanes, max(2, int(share * target.max_steps)))
        channels = _channels(runs, problem, target)
        messages = [
            Message(
                i,
                (arc := arcs[(t := transfers[m % many]).link]).src,
                arc.dst,
                channels[runs.of[m]],
                starts[m],
                ends[m],
                0,
                (t.chunk * pieces + m // many,),
                t.reduce,
                arrivals[m],
            )
            for i, m in enumerate(order)
        ]
        number = {m: i for i, m in enumerate(order)}
        first: dict[int, int] = {}  # message of each run
        for m in order:
            first.setdefault(int(runs.of[m]), m)
        after = {number[first[r]]: number[last] for r, last in enumerate(runs.after) if last >= 0}
        placement = Placer(layout, messages, target).run()
        plans = [BlockPlan(rank, {}, sharing="none") for rank in range(problem.ranks)]
        draft = grouped(placement, messages, options.fusion, target, target.slots(options.protocol), plans)
        if within(draft.steps, target):
            draft = ordered(draft, after)
            if within(draft.steps, target):
                return lowered_as(layout, draft, options)
    raise HetesynthError(
        f"{pieces} pieces of {len(problem.collective.chunks)} chunks do not fit into {target.thread_blocks} thread "
        f"blocks of {target.max_steps} steps; target {target.name} allows no more",
        code="HS501",
        help=FEWER,
    )


def _channels(runs: Runs, problem: Problem, target: Target) -> list[int]:
    """Of each run; where links are parallel they take turns in the order of channels."""
    of_link: dict[int, list[int]] = defaultdict(list)
    for r, link in enumerate(runs.link):
        of_link[link].append(r)
    of_pair: dict[tuple[Rank, Rank], list[int]] = defaultdict(list)
    for link in sorted(of_link):
        of_pair[problem.arcs[link].src, problem.arcs[link].dst].append(link)
    keys: dict[tuple[tuple[Rank, Rank], tuple[int, int]], int] = {}
    for pair, parallel in of_pair.items():
        turns = sorted((place, at, r) for at, link in enumerate(parallel) for place, r in enumerate(of_link[link]))
        keys.update({(pair, (i, 0)): r for i, (_, _, r) in enumerate(turns)})
    channels = [0] * len(runs.link)
    for key, channel in channel_numbers(keys, target, evenly=False).items():
        channels[keys[key]] = channel
    return channels
