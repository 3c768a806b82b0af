"""What users run is the program, so the program is timed: that of several schedules, and with each kind of
throttling.

In: candidates for a size, the quickest schedule first. Out: the same, the quickest program first, and how it is
throttled. A schedule's own time says what its order of steps is worth; thread blocks keep that order only in part,
more so where NICs keep their peers (rings, rails), so the two rankings differ. As many are timed without
throttling as ``MAX_ALL`` and time allow; then, with every kind of it, those whose schedules are quicker than the
best program.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hetesynth.autotune.candidates import STEADY
from hetesynth.compile import fused_receives
from hetesynth.compile.predictors import SchedulePredictor
from hetesynth.lowering.msccl.lower import LoweringOptions
from hetesynth.lowering.msccl.throttling import AFTERS, Throttling
from hetesynth.model.deadline import Deadline, now
from hetesynth.model.problem import Budget, Problem
from hetesynth.model.schedule import Schedule
from hetesynth.model.target import Target
from hetesynth.model.topology import Topology
from hetesynth.synthesis.search import Progress, silent

if TYPE_CHECKING:
    from hetesynth.autotune.tuning import Candidate
    from hetesynth.compile.time_optimality import TimeOptimality
    from hetesynth.lowering.msccl.throttling import Throttling
from hetesynth.compile.artifacts import Choice, Synthesis, finished
from hetesynth.compile.phases import PhaseTimer
from hetesynth.compile.request import Request

if TYPE_CHECKING:
    from hetesynth.autotune.tuning import Candidate

MAX_TRANSFERS = 33_000  # of a schedule whose program is tried
PER_SECOND = 5_000  # transfers that are lowered and simulated in a second, or so
ANYWAY = 5_000  # transfers of a first schedule whose program is timed even after the deadline
MAX_ALL = 90_000  # of all of them
MAX_THROTTLED = 6_000  # of those that are also lowered with every kind of throttling
LOSS = 1.5  # what a program that was not timed is taken to need for each second of its schedule, at least


@dataclass(frozen=True)
class Ranked:
    """A candidate, how its program is throttled, and what that takes; None: not timed, or it fits no target."""

    candidate: Candidate
    throttling: Throttling | None = None
    seconds: float | None = None


def by_program(
    topology: Topology, candidates: Sequence[Candidate], size: int, options: LoweringOptions,
    deadline: Deadline | None = None,
) -> list[Ranked]:  # fmt: skip
    """``candidates`` by the time of their programs for ``size`` bytes, with the throttling that is best for them.

    ``options``: how they are lowered otherwise. What would not be timed before
    ``deadline`` is left, but for a small first one. Programs that are not timed are taken to lose as much of their
    schedule's time as the worst of the others; those that do not fit the target come last.
    """
    timed: list[tuple[float, int, Throttling | None]] = []
    unknown: list[int] = []
    spent = 0

    def late(transfers: int) -> bool:
        needed = timed or unknown or transfers > ANYWAY
        return bool(needed) and _past(deadline, transfers / PER_SECOND)

    for place in _promising(candidates):
        c = candidates[place]
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
        c = candidates[place]
        transfers = len(c.solution.schedule.transfers)
        if (
            c.seconds < least
            and spent + transfers <= MAX_THROTTLED
            and not _past(deadline, transfers / PER_SECOND)
        ):
            spent += transfers
            throttling, taken = quickest(topology, c.problem, c.solution.schedule, size, options, plain)
            timed[i] = (taken, place, throttling)
            least = min(least, taken)
    timed.sort(key=lambda found: found[:2])
    if not timed:
        return [Ranked(c) for c in candidates]
    loss = max(LOSS, *(taken / candidates[place].seconds for taken, place, _ in timed))
    known = [(taken, place, Ranked(candidates[place], throttling, taken)) for taken, place, throttling in timed]
    known += [(candidates[place].seconds * loss, place, Ranked(candidates[place])) for place in unknown]
    known.sort(key=lambda found: found[:2])
    misfits = set(range(len(candidates))) - {place for _, place, _ in known}
    return [*(ranked for _, _, ranked in known), *(Ranked(candidates[place]) for place in sorted(misfits))]


def _promising(candidates: Sequence[Candidate]) -> list[int]:
    """In which order to time: the quickest schedule, then what keeps its time as a program, then the others."""
    return sorted(range(len(candidates)), key=lambda i: (i > 0, candidates[i].name not in STEADY, i))


def _past(deadline: Deadline | None, ahead: float) -> bool:
    return deadline is not None and deadline.expired("programs left untimed", ahead)


def quickest(
    topology: Topology, problem: Problem, schedule: Schedule, size: int, options: LoweringOptions, plain: float
) -> tuple[Throttling | None, float]:  # fmt: skip
    """The throttling with which the program is quickest, if quicker than in ``plain`` seconds, and its seconds."""
    best: tuple[Throttling | None, float] = (None, plain)
    for throttling in throttlings(topology, problem, schedule, size, options):
        taken = seconds(topology, problem, schedule, size, replace(options, throttling=throttling))
        if taken is not None and taken < best[1]:
            best = (throttling, taken)
    return best


def seconds(
    topology: Topology, problem: Problem, schedule: Schedule, size: int, options: LoweringOptions
) -> float | None:  # fmt: skip
    """What the program takes, with fused receives or without; None where the target cannot hold it."""
    return fused_receives.seconds(topology, problem, schedule, size, options)


def throttlings(
    topology: Topology, problem: Problem, schedule: Schedule, size: int, options: LoweringOptions
) -> Iterator[Throttling]:  # fmt: skip
    """Every kind of throttling, by the time that ``schedule`` takes for ``size`` bytes or one slice of them."""
    asked, number = problem.collective, len(schedule.transfers)
    pieces = asked.chunks_per_rank * (1 if asked.name in ("broadcast", "reduce") else asked.ranks)
    at_once = options.profile.fifo(options.protocol, asked.name).slice_bytes
    timeline = SchedulePredictor(topology, problem, schedule).timeline(min(size, at_once * pieces))
    begin, end = timeline.begin[:number].tolist(), timeline.sent[:number].tolist()
    for after in AFTERS:
        yield Throttling.of(problem, schedule, begin, end, after)


FOR_SCHEDULES = 0.75  # of the budget for a size; the rest is for their programs


def program_deadline(budget: Budget, started: float) -> Deadline:
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
    topology: Topology, request: Request, candidates: Sequence[Candidate], size: int, deadline: Deadline
) -> list[Ranked]:  # fmt: skip
    """The candidates by the time of their programs for ``timed_target``; as they are without one."""
    from hetesynth.lowering.msccl.lower import LoweringOptions

    target = timed_target(request)
    if target is None:
        return [Ranked(candidate) for candidate in candidates]
    options = LoweringOptions("timed", profile=target, servers=topology.servers, policy=request.policy.lowering)
    return by_program(topology, candidates, size, options, deadline)


def for_candidate(
    request: Request, candidate: Candidate, time_optimality: TimeOptimality, clock: PhaseTimer,
    choice: Choice | None = None,
    progress: Progress = silent, throttling: Throttling | None = None,
) -> Synthesis:  # fmt: skip
    """What ``candidate`` becomes. Raises HetesynthError with a code of ``UNFIT`` when it does not fit a target."""
    stated = replace(
        request, chunks=candidate.chunks, strategy=candidate.name, chunking=candidate.chunking.options
    )
    return finished(
        stated,
        candidate.chunking,
        candidate.problem,
        candidate.solution,
        clock,
        progress,
        time_optimality,
        choice,
        throttling,
    )
