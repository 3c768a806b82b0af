"""Programs for a span of sizes: tuning runs at a few of them, every program of the shortlists timed at each."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise

from hetesynth.engine.choice.candidates import CandidateSpecs
from hetesynth.engine.choice.choice import choose
from hetesynth.engine.choice.program_ranking import MOST_TRANSFERS, UNTIMED, Ranked, timed_target
from hetesynth.engine.choice.tuning import SECONDS_AFTER_INTERRUPT, Candidate, tune
from hetesynth.engine.predictors import AnyPredictor, CostOptions, PlanPredictor
from hetesynth.engine.problem import ProblemFactory
from hetesynth.engine.request import Request
from hetesynth.engine.steady_programs import Pipeline
from hetesynth.engine.time_verdict import Bounds, TimeOptimality, library_seconds
from hetesynth.errors import HetesynthError
from hetesynth.model.cost import chunk_bytes, runtime_bytes
from hetesynth.model.deadline import Deadline, now
from hetesynth.model.decisions import Decisions
from hetesynth.model.problem import Budget
from hetesynth.model.target import Target
from hetesynth.model.topology import Topology
from hetesynth.programs.mscclpp.lower import largest_call
from hetesynth.search.search import Ending, Progress, combined, no_progress


@dataclass(frozen=True, slots=True)
class Member:
    """A candidate of the tuning run for ``made_for`` bytes. ``predictor``: of its program or plan as written for
    that size; None where the program is too large to be simulated or does not fit, and is taken to need ``loss``
    times what its schedule does. ``carries``: bytes of a plan's largest call as runtimes count; None: any."""

    candidate: Candidate
    steady: Pipeline | None
    made_for: int
    loss: float = 1.0
    predictor: AnyPredictor | None = field(default=None, repr=False)
    carries: int | None = None

    def seconds(self, size: int) -> float:
        """Return the seconds for ``size`` bytes, of the program where simulated; infinite where not usable."""
        schedule, collective = seconds_at(self.candidate, size), self.candidate.problem.collective
        if self.carries is not None and runtime_bytes(collective.name, collective.ranks, size) > self.carries:
            return math.inf
        if self.predictor is None or math.isinf(schedule):
            return schedule * self.loss
        return self.predictor.timeline(size).makespan

    def at_line_rate(self, topology: Topology, options: CostOptions, size: int) -> float | None:
        """Return the seconds of its program at line rate; None where that program is not simulated."""
        if self.predictor is None:
            return None
        return self.predictor.repriced(topology, options.line_rate).timeline(size).makespan


@dataclass(frozen=True)
class Pool:
    """Different members; ``seconds[i][j]``: of member i at size j; ``library[j]``: of the library at size j,
    infinite where not known."""

    sizes: tuple[int, ...]
    bounds: Bounds
    members: tuple[Member, ...]
    cut_short: bool
    seconds: tuple[tuple[float, ...], ...] = field(repr=False)
    interrupted: bool = False
    ending: Ending = "tried"
    library: tuple[float, ...] = ()

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """The candidates of the members."""
        return tuple(m.candidate for m in self.members)

    def best(self, j: int) -> int:
        """Return the index of the quickest member at size j."""
        return min(range(len(self.members)), key=lambda i: (self.seconds[i][j], i))

    def schedule_at(self, i: int, size: int) -> TimeOptimality:
        """The schedule of member i at ``size`` bytes beside the bound."""
        return self.bounds.optimality(size, seconds_at(self.candidates[i], size))

    def without(self, i: int) -> Pool:
        """Return the pool without member i."""
        keep = [k for k in range(len(self.members)) if k != i]
        return replace(
            self, members=tuple(self.members[k] for k in keep), seconds=tuple(self.seconds[k] for k in keep)
        )


def library_times(topology: Topology, request: Request) -> Callable[[int], float]:
    """Return a function from a size in bytes to the seconds of the library for what is asked for."""
    root = ProblemFactory(topology, request).root
    return partial(library_seconds, topology, request.collective, root, CostOptions.of(request))


def pool(
    topology: Topology,
    request: Request,
    sizes: Sequence[int],
    progress: Progress = no_progress,
    *,
    beside_library: bool = False,
    budget: Budget | None = None,
    decisions: Decisions | None = None,
) -> Pool:
    """Return the shortlists of tuning runs at a few of ``sizes``, which share ``budget``. ``beside_library``: the
    library is timed at all ``sizes``, and another run follows between two whose quickest programs differ, or where
    the library is quicker than all. Ctrl-C ends the runs; without ``beside_library`` sizes that cannot be
    predicted at once are then infinite. A size too small to be cut gets no run of its own."""
    budget = budget or request.budget
    budget = replace(budget, clock_decisions=budget.clock_decisions.inside())
    runs = _TuningRuns(
        topology, request, timed_target(request), progress, decisions or Decisions(), budget.deadline()
    )
    places = sample_places(sizes)
    runs.all([sizes[p] for p in places], budget)
    if runs.bounds is None:
        raise runs.failure or HetesynthError("no sizes", code="HS611", help="give at least one size")
    bounds = runs.bounds
    soon = now() + SECONDS_AFTER_INTERRUPT
    until = soon if runs.interrupted and not beside_library else math.inf
    rows: list[list[float]] = []
    _timed(sizes, until, runs.members, rows)
    library = (math.inf,) * len(sizes)
    if beside_library and runs.target is not None:
        library = tuple(map(library_times(topology, request), sizes))
    if beside_library and runs.target is not None and not runs.interrupted:
        quickest = [min(rows, key=lambda row, j=j: row[j]) for j in range(len(sizes))]  # type: ignore[misc]
        beaten = [row[j] > library[j] for j, row in enumerate(quickest)]
        between = [
            (a + b) // 2
            for a, b in pairwise(places)
            if b - a > 1 and (quickest[a] is not quickest[b] or any(beaten[a : b + 1]))
        ]
        runs.all([sizes[p] for p in between], budget)
        _timed(sizes, until, runs.members[len(rows) :], rows)
    cut_short = runs.interrupted or bool(budget.clock_decisions)
    ending = combined(runs.endings, interrupted=runs.interrupted, cut_short=cut_short)
    seconds = tuple(map(tuple, rows))
    return Pool(tuple(sizes), bounds, tuple(runs.members), cut_short, seconds, runs.interrupted, ending, library)


def _timed(sizes: Sequence[int], until: float, members: Sequence[Member], rows: list[list[float]]) -> None:
    """Add to ``rows`` the seconds of each of ``members`` at ``sizes``; infinite where not predicted by ``until``,
    or certain to be behind: more bytes take no less time, and half the bytes no less than half the time. So a
    member is timed from the size that it was made for on in both directions."""
    for member in members:
        best = [min((row[j] for row in rows), default=math.inf) for j in range(len(sizes))]
        row = [math.inf] * len(sizes)
        middle = sizes.index(member.made_for)
        for places in range(middle, len(row)), range(middle - 1, -1, -1):
            for j in places:
                near = j - 1 if places.step > 0 else j + 1
                beside = row[near] if 0 <= near < len(row) else math.inf
                least = beside * min(1.0, sizes[j] / sizes[near]) if beside < math.inf else 0.0
                if least > best[j] or now() >= until:
                    break
                row[j] = member.seconds(sizes[j])
        rows.append(row)


@dataclass
class _TuningRuns:
    """Tuning runs one after the other, and the members, bounds and endings that they gave."""

    topology: Topology
    request: Request
    target: Target | None
    progress: Progress
    decisions: Decisions
    deadline: Deadline
    members: list[Member] = field(default_factory=list)
    known: set[tuple[str, int, str]] = field(default_factory=set)
    bounds: Bounds | None = None
    interrupted: bool = False
    endings: list[Ending] = field(default_factory=list)
    failure: HetesynthError | None = None

    def all(self, sizes: Sequence[int], budget: Budget) -> None:
        """Do a run for each of ``sizes``; runs still to come share the time left until the deadline."""
        for number, size in enumerate(sizes):
            left = self.deadline.left()
            seconds = None if math.isinf(left) else max(0.05, left) / (len(sizes) - number)
            clock = budget.clock_decisions.inside(f"{size} bytes")
            share = replace(budget, seconds=seconds, clock_decisions=clock)
            record = self.decisions.inside(f"{size} bytes")
            specs = CandidateSpecs(self.topology, self.request, size)
            try:
                if self.target is None:
                    run = tune(specs, self.progress, budget=share, decisions=record)
                    ranked = [Ranked(c) for c in run.candidates[:3]]
                else:
                    chosen = choose(specs, self.progress, share, record)
                    run, ranked = chosen.run, chosen.ranked[:3]
            except HetesynthError as error:
                self.failure = self.failure or error
                continue
            except KeyboardInterrupt:
                if not self.members:
                    raise
                self.interrupted = True
                return
            self.bounds, self.interrupted = run.bounds, run.interrupted
            self.endings.append(run.ending)
            for r in ranked[:1] if run.interrupted else ranked:
                identity = (r.candidate.label, r.candidate.chunking.chunk_bytes, r.way)
                if identity not in self.known:
                    self.known.add(identity)
                    self.members.append(self._member(r, size))
            if self.interrupted:
                return

    def _member(self, ranked: Ranked, size: int) -> Member:
        """Return ``ranked`` with its program for ``size`` bytes, unless that is too large to simulate or late."""
        candidate = ranked.candidate
        plain = Member(candidate, ranked.steady, size)
        if self.target is None or self.interrupted:
            return plain
        plain = replace(plain, loss=1.5)
        costs = CostOptions.of(self.request)
        if len(candidate.solution.schedule.transfers) > MOST_TRANSFERS:
            return plain
        if self.members and self.deadline.expired(UNTIMED):
            return plain
        options = CandidateSpecs(self.topology, self.request, size).lowering_for(self.target)
        lowering = candidate.lowering(size, options, costs)
        if not self.target.format.plan:
            return replace(plain, predictor=lowering.predictor(ranked.steady))
        plan = lowering.plan(ranked.steady)
        if plan is None:
            return plain
        predictor = PlanPredictor(self.topology, plan, costs)
        return replace(plain, predictor=predictor, carries=largest_call(plan.collective, plan.gpus))


def sample_places(sizes: Sequence[int]) -> list[int]:
    """Return the places in ``sizes``, from first to last, where the first tuning runs are."""
    spacings = math.log(sizes[-1] / sizes[0], 64)
    count = min(len(sizes) - 1, math.ceil(spacings - 1e-9))
    return list(dict.fromkeys(round(k * (len(sizes) - 1) / max(1, count)) for k in range(count + 1)))


def seconds_at(candidate: Candidate, size: int) -> float:
    """Return the predicted seconds of the schedule; infinite where one of several chunks would be under a byte."""
    collective = candidate.problem.collective
    chunks = collective.chunks_per_rank
    if chunks > 1 and chunk_bytes(collective.name, collective.ranks, chunks, size) < 1:
        return math.inf
    if candidate.pipelined is not None:
        return candidate.pipelined.seconds(size)
    return candidate.predictor.timeline(size).makespan
