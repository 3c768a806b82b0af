"""The right schedule for a size: chunks, reference time, rounding and strategy chosen by predicted time.

A candidate with more steps may well be quicker. What is tried stands in ``rules``; a direction in which more (or
fewer) chunks made things worse twice is left alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from hetesynth.engine.artifacts import Choice, ProgramSpec, SolvedRequest
from hetesynth.engine.choice import rules
from hetesynth.engine.choice.candidates import CandidateSpec, CandidateSpecs
from hetesynth.engine.compilation import Compilation
from hetesynth.engine.predictors import CostOptions, SchedulePredictor
from hetesynth.engine.problem import ProblemFactory, demand_several_ranks, first_candidate, no_schedule
from hetesynth.engine.request import Request
from hetesynth.engine.time_verdict import Bounds, TimeOptimality, bounds_of
from hetesynth.errors import HetesynthError
from hetesynth.model.cegis_trace import CegisTrace
from hetesynth.model.deadline import ClockDecisions, Deadline
from hetesynth.model.decisions import OVER_EFFORT, Decisions
from hetesynth.model.problem import Budget, Problem
from hetesynth.model.topology import Topology
from hetesynth.model.words import microseconds, whole_percent
from hetesynth.policy.autotune import AutotunePolicy
from hetesynth.policy.effort import EffortPolicy
from hetesynth.search import registry
from hetesynth.search.chunking import Chunking, chunk
from hetesynth.search.effort import for_size
from hetesynth.search.search import BEST, Ending, Progress, no_progress

if TYPE_CHECKING:
    from hetesynth.search.solve import Solution


@dataclass
class Effort:
    """Work units that a stage may spend; ``allotted`` infinite: all there is to try."""

    allotted: float
    spent: float = 0.0

    def exceeded_by(self, work: float) -> str | None:
        """Why ``work`` is not begun, or None. The first is begun whatever it is."""
        if not self.spent or self.spent + work <= self.allotted:
            return None
        return f"{work:.2g} {OVER_EFFORT} the {max(0.0, self.allotted - self.spent):.2g} that are left"

    def spend(self, work: float) -> None:
        """``work`` is done."""
        self.spent += work


@dataclass(frozen=True)
class Efforts:
    """The effort of each stage of the choice for a size."""

    steady: Effort
    schedules: Effort
    programs: Effort


def efforts(budget: Budget, ranks: int, policy: EffortPolicy) -> Efforts:
    """What ``budget`` allots to the stages on a cluster of ``ranks``. Programs in steady state have a limit in any
    case, as there are many alike."""
    if budget.effort is None:
        return Efforts(Effort(policy.steady_unlimited), Effort(math.inf), Effort(math.inf))
    whole = budget.effort * (policy.base + policy.per_rank * ranks)
    shares = (policy.share_steady, policy.share_schedules, policy.share_programs)
    return Efforts(*(Effort(whole * share) for share in shares))


def work_of(name: str, transfers: int, policy: EffortPolicy) -> float:
    """Work units of a candidate of strategy ``name``."""
    cost = next((row.cost for row in registry.ROWS if row.name == name), None)
    return policy.candidate + ((policy.uncosted if cost is None else cost) + policy.prediction) * transfers


UNTRIED = "candidates left untried"  # what the clock decided
LATE = "the time budget is over"


@dataclass(frozen=True, slots=True)
class Pipelined:
    """What trees take in steady state: ``latency`` seconds, the start of a program included, and ``per_byte`` for
    each byte of the buffer. ``trees``: how many, in all or of each root; None where it is not trees that count."""

    latency: float
    per_byte: float
    trees: int | None = None

    def seconds(self, size: int) -> float:
        """For ``size`` bytes."""
        return self.latency + self.per_byte * size


@dataclass(frozen=True)
class Candidate:
    """A verified schedule, and ``seconds`` for the size asked for. ``pipelined``: of one whose trees run in steady
    state, not step by step; ``seconds`` is then of these."""

    label: str
    name: str
    chunks: int
    chunking: Chunking
    problem: Problem
    solution: Solution
    predictor: SchedulePredictor
    seconds: float
    pipelined: Pipelined | None = None

    def solved(
        self, compilation: Compilation, programs: ProgramSpec, time_optimality: TimeOptimality,
        choice: Choice | None = None,
    ) -> SolvedRequest:  # fmt: skip
        """What files are made of."""
        return SolvedRequest(
            compilation, self.name, self.chunking, self.problem, self.solution, programs, time_optimality, choice
        )


Told = Callable[[Bounds, int, Candidate], None]
"""Is told of a candidate, the bounds in seconds, and how many were tried."""


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
        return self.bounds.optimality(self.size, candidate.seconds)


def tune(
    topology: Topology, request: Request, size: int, progress: Progress = no_progress, *, programs: bool = True,
    budget: Budget | None = None, decisions: Decisions | None = None, trace: CegisTrace | None = None,
    told: Told | None = None,
) -> TuningRun:  # fmt: skip
    """Try the candidates that ``request`` leaves open for a buffer of ``size`` bytes, as far as the effort goes.

    ``programs``: whether programs are made of it: server rings are then among the first, and what others are
    quicker than as a program is left out.
    ``budget``: by default that of the request. ``decisions``: is told what was tried, and what was left out and
    why. ``trace``: is told what CEGIS did. ``told``: is told of each candidate and of how many there were, with
    the bounds in seconds. Raises HetesynthError when the size is too small to be cut, there is no
    schedule, or nothing found one.
    """
    demand_several_ranks(topology)
    budget = budget or request.budget
    clock_decisions = budget.clock_decisions.inside()
    deadline = replace(budget, clock_decisions=clock_decisions).deadline()
    factory = ProblemFactory(topology, request)
    root = factory.root
    demand_paths(factory)
    bounds = bounds_of(topology, request.collective, root, CostOptions.of(request))
    specs = CandidateSpecs(topology, request, size, bounds.bounds)
    run = _TuningRun(
        factory, specs, bounds, budget, progress, clock_decisions, deadline, decisions or Decisions(),
        efforts(budget, topology.ranks, request.policy.effort).schedules, programs,
        CegisTrace() if trace is None else trace, told,
    )  # fmt: skip
    try:
        run.all()
    except KeyboardInterrupt:
        if not run.candidates:
            raise
        run.interrupted = True
    if not run.candidates:
        alone = request.strategy != "auto" and run.refusals
        raise HetesynthError(
            (run.refusals[0] if alone else f"no schedule for {request.collective} of {size} bytes was found")
            + (" in the time budget" if clock_decisions else ""),
            code="HS610", exit_code=3,
            help=("raise --time-budget, or " if clock_decisions else "") + "choose another --strategy or --chunks",
        )  # fmt: skip
    cut_short = run.interrupted or bool(clock_decisions)
    least = run.candidates[0].seconds  # of those hardly slower the one with the fewest transfers is easier to run
    near = [c for c in run.candidates if c.seconds <= least * (1 + request.policy.autotune.alike)]
    ranked = sorted(near, key=lambda c: (len(c.solution.schedule.transfers), c.seconds))
    ranked += run.candidates[len(near) :]
    ending = run.ending(cut_short)
    return TuningRun(size, bounds, tuple(ranked), tuple(run.tried), cut_short, run.interrupted, ending)


def demand_paths(factory: ProblemFactory) -> None:
    """Raises HetesynthError HS601 when some rank cannot be reached at all."""
    from hetesynth.search.bounds.lower import reach
    from hetesynth.search.collectives import DUAL, invert

    request = factory.request
    problem = factory.problem(chunk(factory.topology, request.chunking), 1)
    stranded = reach(invert(problem)[0] if request.collective in DUAL else problem).stranded
    if stranded is not None:
        raise no_schedule(f"no path leads chunk {stranded[0]} to rank {stranded[1]}")


@dataclass
class _TuningRun:
    factory: ProblemFactory
    specs: CandidateSpecs
    bounds: Bounds
    budget: Budget
    progress: Progress
    clock_decisions: ClockDecisions  # what the clock decided
    deadline: Deadline
    decisions: Decisions
    effort: Effort
    programs: bool
    trace: CegisTrace
    told: Told | None = None
    candidates: list[Candidate] = field(default_factory=list)
    tried: list[tuple[str, float]] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)  # labels
    best_of: dict[int, float] = field(default_factory=dict)  # chunks -> seconds
    best_by: dict[str, float] = field(default_factory=dict)  # kind of candidate -> seconds
    interrupted: bool = False
    fallen_back: bool = False  # whether fixed routes were tried because time was over

    @property
    def _policy(self) -> AutotunePolicy:
        return self.factory.request.policy.autotune

    def all(self) -> None:
        """What the opening rules yield; then every number of chunks, until the bound is met or time is out."""
        ended = self._opening()
        self.best_of.clear()  # these tell little of how many chunks suit the others
        counts = self.specs.counts()
        for chunks, reason in self.specs.left_out(counts):
            self.decisions.inside(f"chunks {chunks}").note("all candidates", "skipped", reason)
        for chunks in counts:
            if ended is None and self._late():
                ended = self._why_late()
            ended = ended or self._spent(chunks)
            record = self.decisions.inside(f"chunks {chunks}")
            if ended is not None:
                record.note("all candidates", "skipped", ended)
            elif chunks != counts[0] and _hopeless(chunks, counts[0], self.best_of, self._policy):
                last = {2: "two"}.get(self._policy.worse_in_a_row, self._policy.worse_in_a_row)
                why = f"from {counts[0]} chunks towards it the last {last} numbers each made things worse"
                record.note("all candidates", "skipped", why)
            else:
                ended = self._every(chunks)

    def _opening(self) -> str | None:
        """Try what the opening rules yield; why the tuning run ends with that, or None."""
        record = self.decisions.inside("opening")
        for spec in rules.opening(self.specs, self.decisions, programs=self.programs):
            if self._late():
                ended = self._why_late()
                record.note(spec.label, "skipped", ended)
                record.note("all that follow", "skipped", ended)
                return ended
            if self._spent(min(self.specs.counts())) is not None:
                record.note("all that follow", "skipped", "the effort is spent")
                return None
            behind = self._behind(spec, self._policy.behind_keeping_time)
            self._try_unless(behind or self._seen(spec), spec, record)
        return None

    def _every(self, chunks: int) -> str | None:
        """Try the candidates with this number of chunks; why the tuning run ends with them, or None."""
        record = self.decisions.inside(f"chunks {chunks}")
        specs = rules.of_count(
            self.specs, chunks, self.decisions, programs=self.programs, less_rounding=not self.fallen_back
        )
        promising = []  # not what fell far behind
        for spec in specs:
            behind = self._behind(spec, self._policy.behind)
            if behind is None:
                promising.append(spec)
            else:
                record.note(spec.label, "skipped", behind)
        # what did best with other numbers of chunks first
        remaining = iter(sorted(promising, key=lambda spec: self.best_by.get(spec.kind, self._best())))
        for spec in remaining:
            ended = "the bound is met" if self._meets_bound() else self._why_late() if self._late() else None
            if ended is not None:
                for untried in (spec, *remaining):
                    record.note(untried.label, "skipped", ended)
                return ended
            self._try_unless(self._settled(spec) or self._seen(spec), spec, record)
        return None

    def _try_unless(self, reason: str | None, spec: CandidateSpec, record: Decisions) -> None:
        if reason is None and self.candidates:
            reason = self.effort.exceeded_by(self._work(spec))
        if reason is None:
            self._try(spec, record)
        else:
            record.note(spec.label, "skipped", reason)

    def _meets_bound(self) -> bool:
        met = self._policy.bound_met
        least = self.bounds.least_predicted(self.specs.size)
        return bool(self.candidates) and least >= met * self.candidates[0].seconds

    def ending(self, cut_short: bool) -> Ending:
        """What ended the tuning run, which was ``cut_short`` or not."""
        if self.interrupted:
            return "interrupt"
        if self._meets_bound():
            return "bound"
        return "time" if cut_short else "tried"

    def _late(self) -> bool:
        """Whether time or Ctrl-C ends the tuning run. Where nothing was found and the deadline is not strict,
        fixed routes are tried before, which take the least time to find."""
        strict = self.budget.strict_deadline or bool(self.candidates) or self.fallen_back
        if not strict and self.deadline.expired(UNTRIED):
            self.fallen_back = True
            record = self.decisions.inside("out of time")
            for spec in rules.out_of_time(self.specs, self.decisions):
                reason = "there is a candidate" if self.candidates else self._seen(spec)
                self._try_unless(reason, spec, record)
        return self.interrupted or self.deadline.expired(UNTRIED)

    def _why_late(self) -> str:
        return "it was interrupted" if self.interrupted else LATE

    def _best(self) -> float:
        return self.candidates[0].seconds if self.candidates else math.inf

    def _behind(self, spec: CandidateSpec, times: float) -> str | None:
        """Whether its kind fell behind with other numbers of chunks."""
        seconds = self.best_by.get(spec.kind, 0.0)
        if seconds <= times * self._best():
            return None
        best = f"{microseconds(seconds)} at best with other numbers of chunks"
        return f"{best}, more than {times:g} times {microseconds(self._best())}"

    def _seen(self, spec: CandidateSpec) -> str | None:
        return "it was tried before" if spec.label in self.seen else None

    def _settled(self, spec: CandidateSpec) -> str | None:
        """Whether all that is left to gain is little, and ``spec`` is another one than what came so near."""
        near = self._policy.bound_near
        least = self.bounds.least_predicted(self.specs.size)
        if not self.candidates or least < near * self.candidates[0].seconds:
            return None
        best = self.candidates[0].name
        near_bound = f"{best} is within {1 - near:.1%} of the bound, only it is tried further"
        return None if spec.name == best else near_bound

    def _spent(self, chunks: int) -> str | None:
        """Whether nothing with so many chunks can be tried any more: not even what takes no search."""
        policy = self.factory.request.policy.effort
        least = policy.candidate + policy.prediction * self.specs.transfers(chunks)
        return self.effort.exceeded_by(least) if self.candidates else None

    def _work(self, spec: CandidateSpec) -> float:
        policy = self.factory.request.policy.effort
        return work_of(spec.name, self.specs.transfers(spec.chunks), policy)

    def _try(self, spec: CandidateSpec, record: Decisions) -> None:
        """Solve, predict and keep what is among the quickest."""
        from hetesynth.engine.problem import verified_solver
        from hetesynth.search.solve import Solution

        self.seen.add(spec.label)
        self.effort.spend(self._work(spec))
        left = self.deadline.left()
        seconds = None if math.isinf(left) else spec.share * max(left, self._policy.least_seconds)
        clock_decisions = self.clock_decisions.inside(spec.label)
        budget = replace(
            self.budget,
            seconds=seconds,
            clock_decisions=clock_decisions,
            strict_deadline=self.budget.strict_deadline or bool(self.candidates),
        )
        problem = self.factory.problem(spec.chunking, spec.chunks)
        policy = for_size(self.factory.request.policy, self.budget.effort)
        try:
            first = first_candidate(self.factory.request, problem)
            solver = verified_solver(spec.strategy, budget, policy)
            outcome = replace(solver, first_candidate=first, trace=self.trace.inside(spec.label)).solve(problem)
        except HetesynthError as error:
            self.refusals.append(error.message)
            record.note(spec.label, "refused", error.message)
            return
        if not isinstance(outcome, Solution):
            record.note(spec.label, "tried", outcome.reason)
            return
        self.interrupted |= outcome.ending == "interrupt"
        topology, options = self.factory.topology, CostOptions.of(self.factory.request)
        predictor = SchedulePredictor(topology, problem, outcome.schedule, options)
        candidate = Candidate(
            spec.label, spec.name, spec.chunks, spec.chunking, problem, outcome, predictor,
            predictor.timeline(self.specs.size).makespan,
        )  # fmt: skip
        record.note(spec.label, "tried", microseconds(candidate.seconds))
        self._keep(candidate, spec.kind)

    def _keep(self, candidate: Candidate, kind: str) -> None:
        label, seconds, chunks = candidate.label, candidate.seconds, candidate.chunks
        self.tried.append((label, seconds))
        self.best_by[kind] = min(seconds, self.best_by.get(kind, seconds))
        self.best_of[chunks] = min(seconds, self.best_of.get(chunks, seconds))
        ordered = sorted([*self.candidates, candidate], key=lambda c: c.seconds)
        self.candidates = list(_kept(ordered, self._policy))
        for left in (c for c in ordered if c not in self.candidates):
            why = f"not among the {self._policy.kept} quickest so far"
            self.decisions.inside("candidates").note(left.label, "dropped", why)
        limit = 100 * self.bounds.least_predicted(self.specs.size) / self._best()
        best = f"schedule {microseconds(self._best())}, {whole_percent(limit)} % of the limit"
        self.progress(f"{label}: {microseconds(seconds)}{BEST}{best}", None)
        if self.told is not None:
            self.told(self.bounds, len(self.tried), candidate)


def _kept(ordered: list[Candidate], policy: AutotunePolicy) -> Iterator[Candidate]:
    """The quickest of ``ordered``, and of each strategy that keeps its time the quickest however slow."""
    count = {row.name: 0 for row in registry.keeping_time()}
    for place, c in enumerate(ordered):
        among_quickest = count.get(c.name, policy.kept_keeping_time) < policy.kept_keeping_time
        if c.name in count:
            count[c.name] += 1
        if place < policy.kept or among_quickest:
            yield c


def _hopeless(chunks: int, start: int, best_of: dict[int, float], policy: AutotunePolicy) -> bool:
    """Whether going from ``start`` to ``chunks`` made things worse at each of its last stops."""
    low, high = min(start, chunks), max(start, chunks)
    stops = [best_of[c] for c in sorted(best_of, reverse=chunks < start) if low <= c <= high]
    last = stops[-1 - policy.worse_in_a_row :]
    return len(last) > policy.worse_in_a_row and all(b > a for a, b in pairwise(last))
