"""What users run is the program, so the program is timed: that of several schedules, and with each kind of pacing.

In: contenders for a size, the quickest schedule first. Out: the same, the quickest program first, and how it is
paced. A schedule's own time says what its order of steps is worth; thread blocks keep that order only in part,
more so where NICs keep their peers (rings, rails), so the two rankings differ. As many are timed without pacing as
``MAX_ALL`` and time allow; then, with every kind of it, those whose schedules are quicker than the best program.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hetesynth.autotune.candidates import STEADY
from hetesynth.compile import fused_receives
from hetesynth.compile.predictors import ScheduleClock
from hetesynth.lowering.msccl.lower import LoweringOptions
from hetesynth.lowering.msccl.throttling import AFTERS, Pacing
from hetesynth.model.deadline import Deadline, now
from hetesynth.model.problem import Budget, Problem
from hetesynth.model.schedule import Schedule
from hetesynth.model.target import Target
from hetesynth.model.topology import Topology
from hetesynth.synthesis.search import Progress, silent

if TYPE_CHECKING:
    from hetesynth.autotune.tuning import Contender
    from hetesynth.compile.time_optimality import Pace
    from hetesynth.lowering.msccl.throttling import Pacing
from hetesynth.compile.artifacts import Choice, Synthesis, finished
from hetesynth.compile.phases import Clock
from hetesynth.compile.request import Request

if TYPE_CHECKING:
    from hetesynth.autotune.tuning import Contender

MAX_TRANSFERS = 33_000  # of a schedule whose program is tried
PER_SECOND = 5_000  # transfers that are lowered and simulated in a second, or so
ANYWAY = 5_000  # transfers of a first schedule whose program is timed even after the deadline
MAX_ALL = 90_000  # of all of them
MAX_PACED = 6_000  # of those that are also lowered with every kind of pacing
LOSS = 1.5  # what a program that was not timed is taken to need for each second of its schedule, at least


@dataclass(frozen=True)
class Ranked:
    """A contender, how its program is paced, and what that takes; None: not timed, or it fits no target."""

    contender: Contender
    pacing: Pacing | None = None
    seconds: float | None = None


def by_program(
    topology: Topology, contenders: Sequence[Contender], size: int, options: LoweringOptions,
    deadline: Deadline | None = None,
) -> list[Ranked]:  # fmt: skip
    """``contenders`` by the time of their programs for ``size`` bytes, with the pacing that is best for them.

    ``options``: how they are lowered otherwise. What would not be timed before
    ``deadline`` is left, but for a small first one. Programs that are not timed are taken to lose as much of their
    schedule's time as the worst of the others; those that do not fit the target come last.
    """
    timed: list[tuple[float, int, Pacing | None]] = []
    unknown: list[int] = []
    spent = 0

    def late(transfers: int) -> bool:
        needed = timed or unknown or transfers > ANYWAY
        return bool(needed) and _past(deadline, transfers / PER_SECOND)

    for place in _promising(contenders):
        c = contenders[place]
        transfers = len(c.solution.schedule.transfers)
        if transfers > MAX_TRANSFERS or spent + transfers > MAX_ALL or late(transfers):
            unknown.append(place)
            continue
        spent += transfers
        taken = seconds(topology, c.problem, c.solution.schedule, size, options)
        if taken is not None:
            timed.append((taken, place, None))
    timed.sort(key=lambda found: found[:2])
    least, spent = min((taken for taken, _, _ in timed), default=0.0), 0
    for i, (plain, place, _) in enumerate(timed):
        c = contenders[place]
        transfers = len(c.solution.schedule.transfers)
        if c.seconds < least and spent + transfers <= MAX_PACED and not _past(deadline, transfers / PER_SECOND):
            spent += transfers
            pacing, taken = quickest(topology, c.problem, c.solution.schedule, size, options, plain)
            timed[i] = (taken, place, pacing)
            least = min(least, taken)
    timed.sort(key=lambda found: found[:2])
    if not timed:
        return [Ranked(c) for c in contenders]
    loss = max(LOSS, *(taken / contenders[place].seconds for taken, place, _ in timed))
    known = [(taken, place, Ranked(contenders[place], pacing, taken)) for taken, place, pacing in timed]
    known += [(contenders[place].seconds * loss, place, Ranked(contenders[place])) for place in unknown]
    known.sort(key=lambda found: found[:2])
    misfits = set(range(len(contenders))) - {place for _, place, _ in known}
    return [*(ranked for _, _, ranked in known), *(Ranked(contenders[place]) for place in sorted(misfits))]


def _promising(contenders: Sequence[Contender]) -> list[int]:
    """In which order to time: the quickest schedule, then what keeps its time as a program, then the others."""
    return sorted(range(len(contenders)), key=lambda i: (i > 0, contenders[i].name not in STEADY, i))


def _past(deadline: Deadline | None, ahead: float) -> bool:
    return deadline is not None and deadline.expired("programs left untimed", ahead)


def quickest(
    topology: Topology, problem: Problem, schedule: Schedule, size: int, options: LoweringOptions, plain: float
) -> tuple[Pacing | None, float]:  # fmt: skip
    """The pacing with which the program is quickest, if quicker than in ``plain`` seconds, and its seconds."""
    best: tuple[Pacing | None, float] = (None, plain)
    for pacing in pacings(topology, problem, schedule, size, options):
        taken = seconds(topology, problem, schedule, size, replace(options, pacing=pacing))
        if taken is not None and taken < best[1]:
            best = (pacing, taken)
    return best


def seconds(
    topology: Topology, problem: Problem, schedule: Schedule, size: int, options: LoweringOptions
) -> float | None:  # fmt: skip
    """What the program takes, with fused receives or without; None where the target cannot hold it."""
    return fused_receives.seconds(topology, problem, schedule, size, options)


def pacings(
    topology: Topology, problem: Problem, schedule: Schedule, size: int, options: LoweringOptions
) -> Iterator[Pacing]:  # fmt: skip
    """Every kind of pacing, by the time that ``schedule`` takes for ``size`` bytes or one slice of them."""
    asked, number = problem.collective, len(schedule.transfers)
    pieces = asked.chunks_per_rank * (1 if asked.name in ("broadcast", "reduce") else asked.ranks)
    at_once = options.profile.fifo(options.protocol, asked.name).slice_bytes
    timeline = ScheduleClock(topology, problem, schedule).timeline(min(size, at_once * pieces))
    begin, end = timeline.begin[:number].tolist(), timeline.sent[:number].tolist()
    for after in AFTERS:
        yield Pacing.of(problem, schedule, begin, end, after)


FOR_SCHEDULES = 0.75  # of the budget for a size; the rest is for their programs


def _for_programs(budget: Budget, started: float) -> Deadline:
    """When no other program is timed: at the end of ``budget``, but its last part is there in any case."""
    whole = budget.deadline(started)
    last = now() + (1 - FOR_SCHEDULES) * (budget.seconds or 0.0)
    return replace(whole, at=max(whole.at, last))


def timed_target(request: Request) -> Target | None:
    """The target whose programs are timed: the first in MSCCL XML."""
    found = (target for target in request.targets if target.format == "msccl-xml")
    return None if request.schedule_only else next(found, None)


def sparing(request: Request) -> Request:
    """``request`` with the part of its budget that is for schedules where their programs are to be timed too."""
    budget = request.budget
    if budget.seconds is None or timed_target(request) is None:
        return request
    return replace(request, budget=replace(budget, seconds=FOR_SCHEDULES * budget.seconds))


def ranked_programs(
    topology: Topology, request: Request, contenders: Sequence[Contender], size: int, deadline: Deadline
) -> list[Ranked]:  # fmt: skip
    """The contenders by the time of their programs for ``timed_target``; as they are without one."""
    from hetesynth.lowering.msccl.lower import LoweringOptions

    target = timed_target(request)
    if target is None:
        return [Ranked(contender) for contender in contenders]
    options = LoweringOptions("timed", profile=target, servers=topology.servers)
    return by_program(topology, contenders, size, options, deadline)


def for_contender(
    request: Request, contender: Contender, pace: Pace, clock: Clock, choice: Choice | None = None,
    progress: Progress = silent, pacing: Pacing | None = None,
) -> Synthesis:  # fmt: skip
    """What ``contender`` becomes. Raises HetesynthError with a code of ``UNFIT`` when it does not fit a target."""
    stated = replace(
        request, chunks=contender.chunks, strategy=contender.name, chunking=contender.chunking.options
    )
    return finished(
        stated, contender.chunking, contender.problem, contender.solution, clock, progress, pace, choice, pacing
    )
