"""Schedules for a span of sizes: tuning runs at a few of them, every candidate of the shortlist predicted at all.

In: a topology, a request, sizes. Out: a ``Pool``: members and what each takes at each size. Atlas and compare both
choose from one. With ``programs`` members stand by what their programs take.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hetesynth.autotune.program_ranking import LOSS, MAX_TRANSFERS, Ranked, ranked_programs, sparing, timed_target
from hetesynth.autotune.tuning import Candidate, TuningRun, tune
from hetesynth.compile.fused_receives import clock
from hetesynth.compile.predictors import ProgramPredictor
from hetesynth.compile.request import Request
from hetesynth.compile.time_optimality import Bounds, TimeOptimality
from hetesynth.errors import HetesynthError
from hetesynth.lowering.msccl.lower import LoweringOptions
from hetesynth.lowering.msccl.throttling import Throttling
from hetesynth.model.cost import chunk_bytes
from hetesynth.model.deadline import Deadline, now
from hetesynth.model.problem import Budget
from hetesynth.model.target import Target
from hetesynth.model.topology import Topology
from hetesynth.synthesis.search import Ending, Progress, combined, silent

SAMPLE_SIZES = 4  # sizes at which there is a tuning run
LAST_SECONDS = 1.0  # for predictions after Ctrl-C
SHORTLIST = 3  # of a tuning run that are predicted at all sizes
NEAR = 1.6  # times the quickest: up to here a program is timed
QUICK_TRANSFERS = 8_000  # of a member whose program is timed at both ends of its span, however late it is


@dataclass(frozen=True)
class Member:
    """A candidate and how its programs are throttled, which makes it another member than without.

    ``schedule[j]``: seconds at size j of the pool, infinite where it cannot be cut. ``losses``: by size, seconds
    of its program for each of its schedule, where the program was timed; None: programs do not count.
    """

    candidate: Candidate
    throttling: Throttling | None
    schedule: tuple[float, ...] = field(repr=False)
    losses: Mapping[int, float] | None = field(default=None, repr=False)

    def seconds(self, size: int) -> float:
        """What counts at any size: the program, taken to lose between two sizes what it loses there."""
        return seconds_at(self.candidate, size) * self.loss(size)

    def loss(self, size: int) -> float:
        """Seconds of the program for each second of the schedule."""
        if self.losses is None:
            return 1.0
        if not self.losses:
            return LOSS
        known = sorted(self.losses)
        return float(np.interp(math.log(size), [math.log(s) for s in known], [self.losses[s] for s in known]))


@dataclass(frozen=True)
class Pool:
    """Different members, and ``seconds[i][j]`` of member i at size j, by which they are chosen."""

    sizes: tuple[int, ...]
    bounds: Bounds
    members: tuple[Member, ...]
    cut_short: bool
    seconds: tuple[tuple[float, ...], ...] = field(repr=False)
    interrupted: bool = False
    ending: Ending = "tried"

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """Of the members."""
        return tuple(m.candidate for m in self.members)

    def best(self, j: int) -> int:
        """The quickest member at size j."""
        return min(range(len(self.members)), key=lambda i: (self.seconds[i][j], i))

    def time_optimality(self, i: int, j: int) -> TimeOptimality:
        """The schedule of member i at size j beside the bound."""
        size = self.sizes[j]
        return TimeOptimality(
            size, self.bounds.name, self.bounds.ranks, self.members[i].schedule[j], self.bounds.at(size)
        )

    def program_seconds(self, i: int, j: int) -> float | None:
        """What the program of member i takes at size j, where it was timed."""
        lost = (self.members[i].losses or {}).get(self.sizes[j])
        return None if lost is None else lost * self.members[i].schedule[j]

    def without(self, i: int) -> Pool:
        """All but member i."""
        keep = [k for k in range(len(self.members)) if k != i]
        return replace(
            self, members=tuple(self.members[k] for k in keep), seconds=tuple(self.seconds[k] for k in keep)
        )


def pool(
    topology: Topology, request: Request, sizes: Sequence[int], progress: Progress = silent, *,
    programs: bool = False,
) -> Pool:  # fmt: skip
    """The shortlist of tuning runs at a few of ``sizes``, which share the budget.

    ``programs``: whether members stand by their programs for the first target in MSCCL XML, where there is one.
    Ctrl-C ends the tuning runs; after it only the best of each goes on and, without ``programs``, only the sizes
    that can be predicted at once are, the others being infinite. Raises HetesynthError when no tuning run found
    anything; a size too small to be cut is left to the others.
    """
    target = timed_target(request) if programs else None
    request = replace(request, budget=replace(request.budget, cuts=request.budget.cuts.inside()))
    deadline = request.budget.deadline()
    found: dict[tuple[str, int, str], Ranked] = {}
    bounds: Bounds | None = None
    interrupted = False
    endings: list[Ending] = []
    failure: HetesynthError | None = None
    chosen = sample_sizes(sizes)
    for number, size in enumerate(chosen):
        asked = replace(request, budget=_share(request.budget, deadline, len(chosen) - number, size), size=size)
        try:
            held, ranked = _shortlist(topology, asked, size, target, progress)
        except HetesynthError as error:
            failure = failure or error
            continue
        except KeyboardInterrupt:
            if not found:
                raise
            interrupted = True
            break
        bounds, interrupted = held.bounds, held.interrupted
        endings.append(held.ending)
        for r in ranked[:1] if interrupted else ranked:
            throttled = r.throttling.after if r.throttling else ""
            found.setdefault((r.candidate.label, r.candidate.chunking.chunk_bytes, throttled), r)
        if interrupted:
            break
    if bounds is None:
        raise failure or HetesynthError("no sizes", code="HS611", help="give at least one size")
    until = now() + LAST_SECONDS if interrupted and not programs else math.inf
    members = [_member(r, sizes, until) for r in found.values()]
    if target is not None and not interrupted:
        members = _timed(topology, target, members, sizes, deadline)
    seconds = tuple(tuple(s * m.loss(size) for s, size in zip(m.schedule, sizes, strict=True)) for m in members)
    cut_short = interrupted or bool(request.budget.cuts)
    ending = combined(endings, interrupted=interrupted, cut=cut_short)
    return Pool(tuple(sizes), bounds, tuple(members), cut_short, seconds, interrupted, ending)


def _share(budget: Budget, deadline: Deadline, runs_left: int, size: int) -> Budget:
    """What one of the ``runs_left``, that for ``size`` bytes, may spend."""
    cuts = budget.cuts.inside(f"{size} bytes")
    left = deadline.left()
    return Budget(None if math.isinf(left) else max(0.05, left) / runs_left, budget.seed, cuts=cuts)


def _shortlist(
    topology: Topology, asked: Request, size: int, target: Target | None, progress: Progress
) -> tuple[TuningRun, list[Ranked]]:  # fmt: skip
    """A tuning run and the best of it; what is throttled is there without throttling too, for other sizes."""
    if target is None:
        held = tune(topology, asked, size, progress, programs=False)
        return held, [Ranked(c) for c in held.candidates[:SHORTLIST]]
    deadline = asked.budget.deadline()
    held = tune(topology, sparing(asked), size, progress)
    best = ranked_programs(topology, asked, held.candidates, size, deadline)[:SHORTLIST]
    return held, [*best, *(Ranked(r.candidate) for r in best if r.throttling is not None)]


def _member(found: Ranked, sizes: Sequence[int], until: float) -> Member:
    """``until``: in seconds of ``deadline.now``; what is not predicted by then takes forever."""
    taken = (seconds_at(found.candidate, s) if now() < until else math.inf for s in sizes)
    return Member(found.candidate, found.throttling, tuple(taken))


def _timed(
    topology: Topology, target: Target, members: Sequence[Member], sizes: Sequence[int], deadline: Deadline
) -> list[Member]:  # fmt: skip
    """``members`` with the times of their programs, at the sizes where they may be needed and while time lasts."""
    losses: list[dict[int, float]] = [{} for _ in members]
    best = [min(m.schedule[j] for m in members) for j in range(len(sizes))]
    near = [[j for j, s in enumerate(m.schedule) if math.isfinite(s) and s <= NEAR * best[j]] for m in members]

    ends = [sizes[where[-1] if where else -1] for where in near]  # for the largest, programs are written
    clocks = [_clock(topology, target, m, end) for m, end in zip(members, ends, strict=True)]

    def measure(i: int, j: int) -> None:
        ticking = clocks[i]
        if ticking is not None and sizes[j] not in losses[i]:
            losses[i][sizes[j]] = ticking.timeline(sizes[j]).makespan / members[i].schedule[j]

    for i, where in enumerate(near):  # the ends of its span first: what is lost depends on the size
        quick = len(members[i].candidate.solution.schedule.transfers) <= QUICK_TRANSFERS
        for j in {where[-1], where[0]} if where and quick else where[-1:]:
            measure(i, j)
    for j in range(len(sizes)):
        for i in sorted(range(len(members)), key=lambda i: (members[i].schedule[j], i)):
            if j not in near[i] or sizes[j] in losses[i]:
                continue
            if deadline.expired("programs left untimed"):
                break
            measure(i, j)
    return [replace(m, losses=known) for m, known in zip(members, losses, strict=True)]


def _clock(topology: Topology, target: Target, member: Member, size: int) -> ProgramPredictor | None:
    """What tells the time of the program, made for ``size`` bytes; None where it is too large or does not fit."""
    candidate = member.candidate
    if len(candidate.solution.schedule.transfers) > MAX_TRANSFERS:
        return None
    options = LoweringOptions("timed", profile=target, servers=topology.servers, throttling=member.throttling)
    return clock(topology, candidate.problem, candidate.solution.schedule, size, options)


def sample_sizes(sizes: Sequence[int]) -> list[int]:
    """A few of ``sizes``, from the first to the last."""
    count = min(SAMPLE_SIZES, len(sizes))
    places = [round(k * (len(sizes) - 1) / max(1, count - 1)) for k in range(count)]
    return [sizes[p] for p in dict.fromkeys(places)]


def seconds_at(candidate: Candidate, size: int) -> float:
    """Simulated seconds of the schedule; infinite where a chunk would be less than a byte."""
    asked = candidate.problem.collective
    if asked.chunks_per_rank > 1 and chunk_bytes(asked.name, asked.ranks, asked.chunks_per_rank, size) < 1:
        return math.inf
    return candidate.clock.timeline(size).makespan
