"""The right schedule for a size: chunks, reference time, rounding and strategy chosen by predicted time.

In: a topology, a request, a size. Out: candidates, each a verified schedule with a clock that predicts it at any
size, the quickest first. Steps are only the means here: a candidate with more steps may well be quicker. What is
tried stands in ``candidates``; a direction in which more (or fewer) chunks made things worse twice is left alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING

from hetesynth.autotune.candidates import STEADY, CandidateSpec, CandidateSpecs
from hetesynth.chunking import Chunking
from hetesynth.collectives.library import collective
from hetesynth.compile.least_time import least_time, transfers
from hetesynth.compile.predictors import SchedulePredictor
from hetesynth.compile.problem import demand_several_ranks, no_schedule, problem_of
from hetesynth.compile.request import Request
from hetesynth.compile.time_optimality import Bounds, TimeOptimality, rechecked_bounds
from hetesynth.errors import HetesynthError
from hetesynth.model.deadline import Cuts, Deadline, now
from hetesynth.model.problem import Budget, Problem
from hetesynth.model.topology import Topology
from hetesynth.synthesis.search import Ending, Progress, silent
from hetesynth.verify.schedule.judge import schedule_violations

if TYPE_CHECKING:
    from hetesynth.synthesis.solve import Solution

ENOUGH = 0.9998  # of the bound: nothing is left to gain
NEAR = 0.985  # of the bound, from which on only other numbers of chunks are tried for what won
LAST_RESORT = 20.0  # seconds past the budget, beyond the least time, after which nothing else is tried at first
ALIKE = 0.003  # what a simpler schedule may take longer
BEHIND = 1.3  # times the best: a kind of candidate that was slower is not tried with other numbers of chunks
STEADY_BEHIND = 2.0  # the same for what keeps its time as a program
KEPT_STEADY = 3  # of each strategy whose programs keep their schedule's time, beyond those
KEPT = 8  # candidates that are kept: the quickest, and one more for each target that they may not fit


@dataclass(frozen=True)
class Candidate:
    """A verified schedule, and ``seconds`` for the size asked for."""

    label: str
    name: str
    chunks: int
    chunking: Chunking
    problem: Problem
    solution: Solution
    clock: SchedulePredictor
    seconds: float


@dataclass(frozen=True)
class TuningRun:
    """The quickest candidates for one size, the best first. ``tried``: label and seconds of all, as they came.

    ``cut_short``: the clock or Ctrl-C decided something, in the tuning run or in the search of one candidate.
    ``ending``: the bound was met, the list was tried, or what ended it before.
    """

    size: int
    bounds: Bounds
    candidates: tuple[Candidate, ...]
    tried: tuple[tuple[str, float], ...]
    cut_short: bool
    interrupted: bool = False
    ending: Ending = "tried"

    def time_optimality(self, candidate: Candidate) -> TimeOptimality:
        """The time of ``candidate`` beside the bound."""
        bounds = self.bounds
        return TimeOptimality(self.size, bounds.name, bounds.ranks, candidate.seconds, bounds.at(self.size))


def tune(
    topology: Topology, request: Request, size: int, progress: Progress = silent, *, programs: bool = True
) -> TuningRun:
    """Try every candidate that ``request`` leaves open for a buffer of ``size`` bytes.

    ``programs``: whether programs are made of it, so that what keeps its time as a program is among the first.
    Raises HetesynthError when the size is too small to be cut, there is no schedule, or nothing found one.
    """
    demand_several_ranks(topology)
    cuts = request.budget.cuts.inside()
    deadline = replace(request.budget, cuts=cuts).deadline()
    root = collective(request.collective, topology.ranks, 1, request.root).root
    _demand_paths(topology, request)
    bounds = rechecked_bounds(topology, request.collective, root)
    run = _TuningRun(topology, request, size, bounds, progress, cuts, deadline)
    try:
        run.all(CandidateSpecs(topology, request, size, bounds.bounds), programs)
    except KeyboardInterrupt:
        if not run.found:
            raise
        run.interrupted = True
    if not run.found:
        alone = request.strategy != "auto" and run.refused
        raise HetesynthError(
            (run.refused[0] if alone else f"no way to do {request.collective} in {size} bytes was found")
            + (" in the time budget" if cuts else ""),
            code="HS610", exit_code=3, help="raise --time-budget, or choose another --strategy or --chunks",
        )  # fmt: skip
    cut_short = run.interrupted or bool(cuts)
    return TuningRun(
        size, bounds, _ranked(run.found), tuple(run.tried), cut_short, run.interrupted, run.ending(cut_short)
    )


def _demand_paths(topology: Topology, request: Request) -> None:
    """Raises HetesynthError HS601 when some rank cannot be reached at all."""
    from hetesynth.bounds.distance import reach
    from hetesynth.chunking import chunk
    from hetesynth.collectives.inversion import DUAL, invert

    problem = problem_of(replace(request, chunks=1), chunk(topology, request.chunking))
    stranded = reach(invert(problem)[0] if request.collective in DUAL else problem).stranded
    if stranded is not None:
        raise no_schedule(f"no path leads chunk {stranded[0]} to rank {stranded[1]}")


def _ranked(found: list[Candidate]) -> tuple[Candidate, ...]:
    """The quickest first; of those hardly slower the one with the fewest transfers, which is easier to run."""
    near = [c for c in found if c.seconds <= found[0].seconds * (1 + ALIKE)]
    near.sort(key=lambda c: (len(c.solution.schedule.transfers), c.seconds))
    return (*near, *found[len(near) :])


@dataclass
class _TuningRun:
    topology: Topology
    request: Request
    size: int
    bounds: Bounds
    progress: Progress
    cuts: Cuts  # what the clock decided
    deadline: Deadline
    found: list[Candidate] = field(default_factory=list)
    tried: list[tuple[str, float]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)  # labels
    best_of: dict[int, float] = field(default_factory=dict)  # chunks -> seconds
    best_by: dict[str, float] = field(default_factory=dict)  # kind of candidate -> seconds
    interrupted: bool = False
    fallen_back: bool = False  # whether fixed routes were tried because time was over
    overhead: float = 0.0  # seconds beyond the searches: for bounds, tasks and simulations
    simulated: int = 0  # transfers

    def all(self, specs: CandidateSpecs, programs: bool) -> None:
        """Rails and, on large clusters, other fixed routes, which take little time; what is near the bound at
        once; what keeps its time as a program; then every number of chunks, until the bound is met or time is
        out."""
        first, steady = (specs.rails(), specs.steady()) if programs else ((), ())
        for spec in chain(first, specs.designs(), specs.first_specs(), steady):
            if self._late(specs):
                return
            behind = self.best_by.get(spec.kind, 0.0) > STEADY_BEHIND * self._best()
            if not behind and spec.label not in self.seen and self._affordable(spec):
                self._try(spec)
        self.best_of.clear()  # these tell little of how many chunks suit the others
        counts = specs.counts()
        for chunks in counts:
            if self._late(specs):
                return
            if chunks != counts[0] and _hopeless(chunks, counts[0], self.best_of):
                continue
            for spec in self._promising(specs.of(chunks, hurry=self.fallen_back)):
                if self._meets_bound() or self._late(specs):
                    return
                if not self._settled(spec) and spec.label not in self.seen and self._affordable(spec):
                    self._try(spec)

    def _meets_bound(self) -> bool:
        return bool(self.found) and self.bounds.seconds(self.size) >= ENOUGH * self.found[0].seconds

    def ending(self, cut_short: bool) -> Ending:
        """What ended the tuning run, which was ``cut_short`` or not."""
        if self.interrupted:
            return "interrupt"
        if self._meets_bound():
            return "bound"
        return "time" if cut_short else "tried"

    def _late(self, specs: CandidateSpecs) -> bool:
        """Whether time or Ctrl-C ends the tuning run, now that something was found. Where time is over and nothing
        was, fixed routes are tried first, which take the least time to find; without success the others go on for
        ``LAST_RESORT`` and the least time."""
        if not self.found and not self.fallen_back and self.deadline.expired("candidates left untried"):
            self.fallen_back = True
            for spec in specs.fixed():
                if not self.found and spec.label not in self.seen:
                    self._try(spec)
        if not self.found:
            grace = LAST_RESORT + least_time(self.request, self.topology.ranks).seconds
            return self.fallen_back and self.deadline.expired("candidates left untried", -grace)
        return self.interrupted or self.deadline.expired("candidates left untried")

    def _promising(self, specs: Iterable[CandidateSpec]) -> list[CandidateSpec]:
        """What did best with other numbers of chunks first; not what fell far behind."""
        known = [spec for spec in specs if self.best_by.get(spec.kind, 0.0) <= BEHIND * self._best()]
        return sorted(known, key=lambda spec: self.best_by.get(spec.kind, self._best()))

    def _best(self) -> float:
        return self.found[0].seconds if self.found else math.inf

    def _settled(self, spec: CandidateSpec) -> bool:
        """Whether all that is left to gain is little, and ``spec`` is another one than what came so near."""
        if not self.found or self.bounds.seconds(self.size) < NEAR * self.found[0].seconds:
            return False
        return spec.name != self.found[0].name

    def _affordable(self, spec: CandidateSpec) -> bool:
        """Whether what comes after the search of ``spec`` would end in time too."""
        if not self.found:
            return True
        number = transfers(self.request.collective, self.topology.ranks, spec.chunks)
        ahead = self.overhead * number / max(1, self.simulated)
        return not self.deadline.expired("candidates left untried", ahead)

    def _try(self, spec: CandidateSpec) -> None:
        """Solve, predict and keep what is among the quickest."""
        from hetesynth.synthesis.solve import Solution, Solver

        self.seen.add(spec.label)
        left = self.deadline.left()
        seconds = None if math.isinf(left) else spec.share * max(left, 0.1)
        seed, cuts = self.request.budget.seed, self.cuts.inside(spec.label)
        budget = Budget(seconds, seed, strict_deadline=bool(self.found), cuts=cuts)
        problem = problem_of(replace(self.request, chunks=spec.chunks), spec.chunking)
        try:
            outcome = Solver(spec.strategy, budget, schedule_violations, policy=self.request.policy).solve(problem)
        except HetesynthError as error:
            self.refused.append(error.message)
            return
        if not isinstance(outcome, Solution):
            return
        self.interrupted |= outcome.ending == "interrupt"
        began = now()
        clock = SchedulePredictor(self.topology, problem, outcome.schedule)
        taken = clock.timeline(self.size).makespan
        self.overhead += outcome.bound_seconds + now() - began
        self.simulated += len(outcome.schedule.transfers)
        self.tried.append((spec.label, taken))
        self.best_by[spec.kind] = min(taken, self.best_by.get(spec.kind, taken))
        self.best_of[spec.chunks] = min(taken, self.best_of.get(spec.chunks, taken))
        made = Candidate(spec.label, spec.name, spec.chunks, spec.chunking, problem, outcome, clock, taken)
        self.found = _kept(sorted([*self.found, made], key=lambda c: c.seconds))
        self.progress(f"{spec.label}: {taken * 1e6:.4g} us, best {self.found[0].seconds * 1e6:.4g} us", None)


def _kept(found: list[Candidate]) -> list[Candidate]:
    """The quickest of ``found``, and of each steady strategy the quickest however slow."""
    count = dict.fromkeys(STEADY, 0)
    kept = []
    for place, c in enumerate(found):
        steady = count.get(c.name, KEPT_STEADY) < KEPT_STEADY
        if c.name in count:
            count[c.name] += 1
        if place < KEPT or steady:
            kept.append(c)
    return kept


def _hopeless(chunks: int, start: int, best_of: dict[int, float]) -> bool:
    """Whether going from ``start`` to ``chunks`` made things worse at its last two stops."""
    low, high = min(start, chunks), max(start, chunks)
    stops = [best_of[c] for c in sorted(best_of, reverse=chunks < start) if low <= c <= high]
    return len(stops) > 2 and stops[-1] > stops[-2] > stops[-3]
