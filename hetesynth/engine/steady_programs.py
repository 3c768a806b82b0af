"""Programs and plans made of the trees of a schedule so that all of them are kept busy."""

from __future__ import annotations

import gc
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

from hetesynth.engine.formats import servers_of
from hetesynth.engine.protocols import supported
from hetesynth.model.cost import Costs, chunk_bytes
from hetesynth.model.plan import Plan
from hetesynth.model.problem import Problem
from hetesynth.model.program import Program, Protocol
from hetesynth.model.schedule import Schedule
from hetesynth.model.target import Fifo, Target
from hetesynth.model.timeline import Dispatch, Lanes
from hetesynth.model.topology import Rank
from hetesynth.programs.msccl.dispatched import arranged, longest_block, lower_dispatched, steps_of_messages
from hetesynth.programs.msccl.lower import Lowered, LoweringOptions
from hetesynth.simulate.dispatch import Dispatcher, PlanDispatcher

PIECES = tuple(sorted(base << k for base in (1, 3, 5, 7) for k in range(9)))
LEAST_PIECE = 1 << 8  # bytes
SHARED = 1.01  # loops whose trees share lanes take longer than expected more often than those that share none
PACE = 0.25
"""Of the time of the fullest resource: what is tried first; 0, the longest way first, is 2 % quicker for an
AllReduce of 1 GB on 64 H20, and up to 23 % slower on smaller clusters."""


def _named(program: Program, options: LoweringOptions) -> Program:
    """Return ``program`` under the name and for the sizes of ``options``."""
    return replace(program, name=options.name, min_bytes=options.min_bytes, max_bytes=options.stated_max_bytes)


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The way messages are dispatched: ``pieces`` of every chunk, ``spare`` times the lanes that a link needs
    (None: one for each tree); the pieces of a tree are due one after the other over ``pace`` times the seconds of
    the fullest resource (0: the longest way goes first)."""

    pieces: int
    spare: float | None
    pace: float = PACE

    @property
    def label(self) -> str:
        """The words that tell the arrangement from others."""
        lanes = "a lane for each tree" if self.spare is None else f"{self.spare:g} times the lanes"
        turns = "in turn" if self.pace else "the longest way first"
        return f"dispatched, {self.pieces} pieces, {lanes}, {turns}"


@dataclass(slots=True)
class Dispatched:
    """The pipeline of a program for a buffer of ``size`` bytes: messages on links of ``costs``, moved by
    ``protocol``, are dispatched as ``arrangement`` says. ``dispatch``: the last dispatch, with its schedule and
    FIFO. ``latest``: the last program, with what it was made of. ``quickest``: of the program that was timed for
    ``size``, what it was made of, its target, and the protocol with which it is the quickest."""

    arrangement: Arrangement
    costs: Costs
    size: int
    protocol: Protocol = "Simple"
    dispatch: tuple[Schedule, Fifo, Dispatch] | None = field(default=None, compare=False, repr=False)
    latest: tuple[Problem, Schedule, LoweringOptions, Lowered] | None = field(
        default=None, compare=False, repr=False
    )
    quickest: tuple[Problem, Schedule, Target, Protocol] | None = field(default=None, compare=False, repr=False)

    @property
    def label(self) -> str:
        """The words that tell the pipeline from others of the same schedule."""
        return self.arrangement.label

    def lowered(self, problem: Problem, schedule: Schedule, options: LoweringOptions) -> Lowered:
        """Return the program of ``schedule``. Raises as ``lower_dispatched`` does."""
        options.check(problem.collective.name)
        if self.latest is not None:
            of, along, under, lowered = self.latest
            if of is problem and along == schedule and under == options.unnamed:
                return replace(lowered, program=_named(lowered.program, options))
        dispatching = Dispatching(problem, schedule, self.costs, options, self.size, self.protocol)
        if self.dispatch is None or self.dispatch[:2] != (schedule, dispatching.fifo):
            self.dispatch = schedule, dispatching.fifo, dispatching.run(self.arrangement)
        lowered = lower_dispatched(problem, schedule, self.dispatch[2], options)
        self.latest = problem, schedule, options.unnamed, lowered
        return lowered

    def forget(self) -> None:
        """Drop the latest program, which is needed no more."""
        self.latest = None


@dataclass(frozen=True, eq=False)
class Dispatching:
    """The dispatches of ``schedule`` for a buffer of ``size`` bytes, with messages that move by ``protocol``,
    which need not be the one to whose FIFO a program is fitted. ``first``: spare lanes with which numbers of
    pieces are tried; ``kept``: how many arrangements are lowered."""

    first: ClassVar[tuple[float, ...]] = (1.0, 2.0)
    kept: ClassVar[int] = 3

    problem: Problem
    schedule: Schedule
    costs: Costs
    options: LoweringOptions
    size: int
    protocol: Protocol = "Simple"

    @cached_property
    def dispatcher(self) -> Dispatcher:
        """The dispatcher of the schedule."""
        costs = self.costs.of(self.protocol)
        return Dispatcher(self.schedule, costs, self.protocol, float(self.fifo.overhead), self.fifo.slots)

    @property
    def fifo(self) -> Fifo:
        """The FIFO of the connections."""
        return self.options.target.fifo(self.protocol, self.problem.collective.name)

    @property
    def most_bytes(self) -> float:
        """The most bytes of a message: longer pieces loop."""
        return self.fifo.slice_bytes

    @property
    def longest(self) -> float:
        """The most bytes of a piece, where there are steps for so many pieces."""
        return self.most_bytes

    def ladder(self, numbers: Sequence[int], unlooped: Sequence[int]) -> list[int]:
        """Return the numbers of pieces that are tried first: of ``unlooped``, or else the last of ``numbers``."""
        return [pieces for pieces in unlooped or numbers[-1:] if pieces.bit_count() < 3]

    @property
    def chunk(self) -> float:
        """The bytes of a chunk."""
        collective = self.problem.collective
        return chunk_bytes(collective.name, collective.ranks, collective.chunks_per_rank, self.size)

    @property
    def least_seconds(self) -> float:
        """The seconds of the fullest resource."""
        return self.dispatcher.period * self.chunk

    @cached_property
    def _dispatches(self) -> dict[Arrangement, Dispatch]:
        return {}

    @property
    def load(self) -> float:
        """The seconds of the fullest resource for each byte of the buffer."""
        return self.least_seconds / self.size

    def run(self, arrangement: Arrangement) -> Dispatch:
        """Return the dispatch of a loop, found once: for the seconds expected and for the check that it fits."""
        if arrangement not in self._dispatches:
            pieces, lanes, loops = arrangement.pieces, self.lanes(arrangement), self._loops(arrangement)
            piece, pace = self._piece(pieces), arrangement.pace * self.least_seconds / loops
            dispatch = self.dispatcher.run(pieces, piece, lanes, pace)
            if loops > 1:
                period = pieces * self.dispatcher.busiest(lanes, piece)
                span = math.inf if arrangement.spare is None else period  # of a tree what follows is in time
                dispatch = replace(dispatch, period=period, span=span)
            self._dispatches[arrangement] = dispatch
        return self._dispatches[arrangement]

    def pipeline(self, arrangement: Arrangement) -> Dispatched | DispatchedPlan:
        """Return the pipeline of the program or plan for ``arrangement``."""
        dispatch = self.schedule, self.fifo, self.run(arrangement)
        return Dispatched(arrangement, self.costs, self.size, self.protocol, dispatch)

    def lanes(self, arrangement: Arrangement) -> Lanes:
        """Return the lanes of each link."""
        return self.dispatcher.lanes(self._piece(arrangement.pieces), arrangement.spare)

    def _loops(self, arrangement: Arrangement) -> float:
        return max(1.0, self.chunk / arrangement.pieces / self.most_bytes)

    def _piece(self, pieces: int) -> float:
        return min(self.chunk / pieces, self.most_bytes)

    @cached_property
    def estimate(self) -> float:
        """The seconds estimated before anything is dispatched: the start, the fullest resource, and half of the
        longest way with as many pieces as fit."""
        longest = self.dispatcher.longest(self._piece(self.most_pieces))
        return self.dispatcher.begin + self.least_seconds + 0.5 * longest

    def expected(self, arrangement: Arrangement, period: float = 0.0) -> float:
        """Return the seconds of a loop, and for each more ``period``, or those of the fullest resource or lane."""
        dispatch, further = self.run(arrangement), self._loops(arrangement) - 1
        late = 1.0 if arrangement.spare is None else SHARED
        return dispatch.makespan + (further * late * max(period, dispatch.period) if further else 0.0)

    def fitted(self, arrangement: Arrangement) -> float | None:
        """Return the seconds expected with thread blocks as they fit; None: there are too few thread blocks."""
        way = next(arranged(self.problem, self.schedule, self.run(arrangement), self.options.target), None)
        period = 0.0 if way is None or arrangement.spare is None else longest_block(*way)
        return None if way is None else self.expected(arrangement, period)

    @cached_property
    def most_pieces(self) -> int:
        """The most pieces of a chunk that thread blocks have steps for, and readers of the file places for."""
        target, arcs = self.options.target, self.problem.arcs
        steps: dict[Rank, int] = defaultdict(int)
        for t, adding in zip(
            self.schedule.transfers, steps_of_messages(self.schedule, target).tolist(), strict=True
        ):
            steps[arcs[t.link].src] += 1
            steps[arcs[t.link].dst] += adding
        room = min((target.thread_blocks - 1) * (target.max_steps - 2), target.max_nodes - self.problem.ranks - 66)
        chunks = len(self.problem.collective.chunks)
        return max(1, min(room // max(steps.values(), default=1), target.max_offset // chunks))

    def best(self, messages: float) -> tuple[Iterator[tuple[float, Arrangement]], int]:
        """Return the arrangements that fit, each with its expected seconds, the quickest first, and how many
        messages were dispatched to find them: about ``messages`` at most. Each is fitted when it is asked for."""
        numbers = [n for n in PIECES if n <= self.most_pieces and (n == 1 or self.chunk / n >= LEAST_PIECE)]
        unlooped = [n for n in numbers if self.chunk / n <= self.longest]
        seconds: dict[Arrangement, float] = {}
        seen: set[tuple[int, float, bytes]] = set()
        spent = 0

        def tried(arrangement: Arrangement) -> float:
            nonlocal spent
            lanes = self.lanes(arrangement)
            what = arrangement.pieces, arrangement.pace, lanes.of.tobytes() + lanes.number.tobytes()
            if what not in seen and (spent < messages or not seconds):
                seen.add(what)
                seconds[arrangement] = self.expected(arrangement)
                spent += len(self.run(arrangement).start)
            return seconds.get(arrangement, math.inf)

        few = unlooped[0] if unlooped else numbers[-1]
        if not messages:
            few = min(few, 2)  # two loop well, and a short program is soon written
        elif numbers[0] not in unlooped and math.isfinite(self.most_bytes):
            tried(Arrangement(1, None))
        spare = min(self.first, key=lambda spare: tried(Arrangement(few, spare)))
        for pieces in self.ladder(numbers, unlooped):  # until more do not pay
            if tried(Arrangement(pieces, spare)) > 1.02 * min(seconds.values()):
                break
        best = min(seconds, key=seconds.__getitem__)
        for spare, pace in ((2.0, 0.0), (1.0, PACE), (2.0, PACE), (4.0, PACE), (1.0, 0.0)):
            tried(Arrangement(best.pieces, spare, pace))
        best = min(seconds, key=seconds.__getitem__)
        for pieces in unlooped:
            if best.pieces / 1.5 <= pieces <= best.pieces * 1.5:
                tried(replace(best, pieces=pieces))
        return self._fitting(seconds, numbers), spent

    def _fitting(
        self, seconds: dict[Arrangement, float], numbers: Sequence[int]
    ) -> Iterator[tuple[float, Arrangement]]:
        """Yield the first ``kept`` that fit, then the best with half as many pieces and so on: of small pieces the
        time is less sure. Where none fits, yield the best with the most of ``numbers`` of pieces that does."""
        number, pieces, listed = 0, math.inf, sorted(seconds, key=seconds.__getitem__)
        fewer = [replace(listed[0], pieces=n) for n in reversed(numbers) if n < listed[0].pieces]
        for arrangement in [*listed, *fewer]:
            if number and (
                arrangement not in seconds or (number >= self.kept and 2 * arrangement.pieces > pieces)
            ):
                continue
            fitted = self.fitted(arrangement)
            if fitted is not None:
                number, pieces = number + 1, min(pieces, arrangement.pieces)
                yield fitted, arrangement


@dataclass(frozen=True, eq=False)
class PlanDispatching(Dispatching):
    """The dispatches of a plan, whose messages have any length and whose thread blocks do not receive."""

    first: ClassVar[tuple[float, ...]] = (3.0,)
    kept: ClassVar[int] = 2

    @cached_property
    def dispatcher(self) -> Dispatcher:
        """The dispatcher of the schedule."""
        return PlanDispatcher(self.schedule, self.costs, "Simple", 1.0, 1, self.servers)

    @property
    def servers(self) -> Sequence[str]:
        """The server of each rank."""
        return servers_of(self.problem, self.options)

    def pipeline(self, arrangement: Arrangement) -> DispatchedPlan:
        """Return the pipeline of the plan for ``arrangement``."""
        dispatch = self.schedule, self.servers, self.run(arrangement)
        return DispatchedPlan(arrangement, self.costs, self.size, dispatch)

    @property
    def most_bytes(self) -> float:
        """The most bytes of a message, infinite: plans do not loop."""
        return math.inf

    @property
    def longest(self) -> float:
        """The most bytes of a piece, as of a program: longer ones fill the pipe late."""
        return 4 << 20

    def ladder(self, numbers: Sequence[int], unlooped: Sequence[int]) -> list[int]:
        """Return the numbers of pieces tried first, fewer than for a program; often the most that fit are best."""
        powers = {pieces for pieces in unlooped if pieces.bit_count() == 1}
        return sorted(powers | {*numbers[-5::2]})

    def fitted(self, arrangement: Arrangement) -> float | None:
        """Return the seconds expected; None: there are too few thread blocks."""
        from hetesynth.programs.mscclpp.dispatched import placings

        ways = placings(self.problem, self.schedule, self.run(arrangement), self.servers)
        return None if next(ways, None) is None else self.expected(arrangement)

    @cached_property
    def most_pieces(self) -> int:
        """The most pieces that thread blocks have operations for. HetesynthError HS505: chunks take no trees."""
        from hetesynth.programs.mscclpp.stations import parts_of

        number = [1] * self.problem.ranks
        groups = self.dispatcher.lanes(1.0, 1.0).of
        for part in parts_of(self.problem, self.schedule, groups, self.servers):
            number[part.station.rank] += part.operations
        return max(1, 46 * self.options.target.thread_blocks // max(number))


def dispatchings(
    problem: Problem, schedule: Schedule, costs: Costs, options: LoweringOptions, size: int, most: float = math.inf
) -> list[Dispatching]:
    """Return the dispatching of a plan, or one for each protocol that may pay for a program, the least estimate
    first; where one may take less than ``most`` seconds, none that may not."""
    question = problem, schedule, costs, options, size
    if options.target.format.plan:
        return [PlanDispatching(*question)]
    simple = Dispatching(*question)
    if (
        options.target.format.table
        or not costs.hops
        or simple.least_seconds > 20 * (simple.estimate - simple.least_seconds)
    ):
        return [simple]  # others lose more on the wire
    protocols = supported(costs, options.target, problem.collective.name, options.servers)
    every = [simple if protocol == simple.protocol else Dispatching(*question, protocol) for protocol in protocols]
    quick = [d for d in every if d.dispatcher.begin + d.least_seconds < most]
    return sorted(quick or every, key=lambda d: d.estimate)


@dataclass(slots=True)
class DispatchedPlan:
    """The pipeline of a plan for a buffer of ``size`` bytes, its messages dispatched as ``arrangement`` says.
    ``dispatch``: the last dispatch, with its schedule and servers. ``latest``: the last plan, with what it is made
    of."""

    arrangement: Arrangement
    costs: Costs
    size: int
    dispatch: tuple[Schedule, Sequence[str], Dispatch] | None = field(default=None, compare=False, repr=False)
    latest: tuple[Problem, Schedule, LoweringOptions, Plan] | None = field(default=None, compare=False, repr=False)

    @property
    def label(self) -> str:
        """The words that tell the pipeline from others of the same schedule."""
        return f"plan {self.arrangement.label}"

    def plan(self, problem: Problem, schedule: Schedule, options: LoweringOptions) -> Plan:
        """Return the plan of ``schedule``. Raises as ``lower_dispatched_plan`` does."""
        from hetesynth.programs.mscclpp.dispatched import lower_dispatched_plan
        from hetesynth.programs.mscclpp.lower import plan_of_gpus

        if self.latest is not None:
            of, along, under, plan = self.latest
            if of is problem and along == schedule and under == options.unnamed:
                return plan_of_gpus(options, problem.collective.name, plan.gpus)
        dispatching = PlanDispatching(problem, schedule, self.costs, options, self.size)
        servers = dispatching.servers
        if self.dispatch is None or self.dispatch[:2] != (schedule, servers):
            self.dispatch = schedule, servers, dispatching.run(self.arrangement)
        plan = lower_dispatched_plan(problem, schedule, self.dispatch[2], options, servers)
        self.latest = problem, schedule, options.unnamed, plan
        return plan

    def forget(self) -> None:
        """Drop the latest plan, which is needed no more."""
        self.latest = None


Pipeline = Dispatched | DispatchedPlan
"""How a program or a plan is made of a schedule other than step by step."""


@contextmanager
def no_collections() -> Iterator[None]:
    """Turn garbage collection off: lowering makes many objects, no garbage, and took 1.6 times as long with it."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()
