"""What users run is the program, so the program is timed: that of several schedules, and with each kind of pacing.

In: contenders for a size, the quickest schedule first. Out: the same, the quickest program first, and how it is
paced. A schedule's own time says what its order of steps is worth; thread blocks keep that order only in part,
more so where ranks have few peers (rings), so the two rankings differ. All are timed without pacing, as far as
``MAX_ALL`` goes; the ``TRIED`` best with every kind of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from hetesynth.emitter.lower import LoweringOptions, lower
from hetesynth.emitter.pacing import AFTERS, Pacing
from hetesynth.errors import HetesynthError
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule
from hetesynth.model.topology import Topology
from hetesynth.pipeline.simulation import ProgramClock, ScheduleClock

if TYPE_CHECKING:
    from hetesynth.pipeline.sizing import Contender

MAX_TRANSFERS = 3_000  # of a schedule whose program is tried: lowering it takes about a second
MAX_ALL = 8_000  # of all of them
TRIED = 1
MESSAGE = 2 << 20  # bytes of a chunk that move at once: of a larger one, slices one after the other


def by_program(
    topology: Topology, contenders: Sequence[Contender], size: int, options: LoweringOptions
) -> list[tuple[Contender, Pacing | None]]:  # fmt: skip
    """``contenders`` by the time of their programs for ``size`` bytes, with the pacing that is best for them.

    ``options``: how they are lowered otherwise. Programs too large to be timed are taken to lose as much of their
    schedule's time as the best of the others; those that do not fit the target come last.
    """
    timed: list[tuple[float, int, Pacing | None]] = []
    large: list[int] = []
    spent = 0
    for place, c in enumerate(contenders):
        transfers = len(c.solution.schedule.transfers)
        if transfers > MAX_TRANSFERS or spent + transfers > MAX_ALL:
            large.append(place)
            continue
        spent += transfers
        taken = seconds(topology, c.problem, c.solution.schedule, size, options)
        if taken is not None:
            timed.append((taken, place, None))
    timed.sort(key=lambda found: found[:2])
    for i, (plain, place, _) in enumerate(timed[:TRIED]):
        c = contenders[place]
        pacing, taken = quickest(topology, c.problem, c.solution.schedule, size, options, plain)
        timed[i] = (taken, place, pacing)
    if not timed:
        return [(c, None) for c in contenders]
    factor = min(((taken, taken / contenders[place].seconds) for taken, place, _ in timed))[1]
    timed += [(contenders[place].seconds * factor, place, None) for place in large]
    timed.sort(key=lambda found: found[:2])
    known = [place for _, place, _ in timed]
    rest = [c for place, c in enumerate(contenders) if place not in known]
    return [*((contenders[place], pacing) for _, place, pacing in timed), *((c, None) for c in rest)]


def quickest(
    topology: Topology, problem: Problem, schedule: Schedule, size: int, options: LoweringOptions, plain: float
) -> tuple[Pacing | None, float]:  # fmt: skip
    """The pacing with which the program is quickest, if quicker than in ``plain`` seconds, and its seconds."""
    best: tuple[Pacing | None, float] = (None, plain)
    for pacing in pacings(topology, problem, schedule, size):
        taken = seconds(topology, problem, schedule, size, replace(options, pacing=pacing))
        if taken is not None and taken < best[1]:
            best = (pacing, taken)
    return best


def seconds(
    topology: Topology, problem: Problem, schedule: Schedule, size: int, options: LoweringOptions
) -> float | None:  # fmt: skip
    """What the program takes; None where the target cannot hold it."""
    try:
        program = lower(problem, schedule, options)
    except HetesynthError:
        return None
    return ProgramClock(topology, program).timeline(size).makespan


def pacings(topology: Topology, problem: Problem, schedule: Schedule, size: int) -> Iterator[Pacing]:
    """Every kind of pacing, by the time that ``schedule`` takes for ``size`` bytes or one slice of them."""
    asked, number = problem.collective, len(schedule.transfers)
    pieces = asked.chunks_per_rank * (1 if asked.name in ("broadcast", "reduce") else asked.ranks)
    timeline = ScheduleClock(topology, problem, schedule).timeline(min(size, MESSAGE * pieces))
    begin, end = timeline.begin[:number].tolist(), timeline.sent[:number].tolist()
    for after in AFTERS:
        yield Pacing.of(problem, schedule, begin, end, after)
