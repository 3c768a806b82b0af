"""The right schedule for a size: the chunks per rank and the strategy of ``search.auto.FOR_A_SIZE`` with the least
predicted time; a direction in which more (or fewer) chunks made things worse twice is left alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import accumulate

from hetesynth.engine.artifacts import Choice, ProgramSpec, SolvedRequest
from hetesynth.engine.choice.candidates import CandidateSpec, CandidateSpecs
from hetesynth.engine.compilation import Compilation
from hetesynth.engine.lowering import Lowering
from hetesynth.engine.predictors import CostOptions, SchedulePredictor
from hetesynth.engine.problem import first_candidate, verified_solver
from hetesynth.engine.time_verdict import Bounds, TimeOptimality
from hetesynth.errors import HetesynthError
from hetesynth.model.cegis_trace import CegisTrace
from hetesynth.model.deadline import ClockDecisions, Deadline
from hetesynth.model.decisions import OVER_EFFORT, Decisions
from hetesynth.model.problem import Budget, Problem
from hetesynth.model.words import microseconds, whole_percent
from hetesynth.programs.msccl.lower import LoweringOptions
from hetesynth.search.chunking import Chunking
from hetesynth.search.effort import for_size
from hetesynth.search.registry import row_of
from hetesynth.search.search import BEST, Ending, Progress, no_progress
from hetesynth.search.solve import Solution


@dataclass
class Effort:
    """The transfers of schedules or programs that a stage may try; ``allotted`` infinite: all there are."""

    allotted: float
    spent: float = 0.0

    def exceeded_by(self, work: float) -> str | None:
        """Return why ``work`` is not begun, or None. The first work is begun whatever it is."""
        if not self.spent or self.spent + work <= self.allotted:
            return None
        return f"{work:,.0f} {OVER_EFFORT} the {max(0.0, self.allotted - self.spent):,.0f} that are left"


def schedule_effort(budget: Budget, ranks: int) -> Effort:
    """Return the effort that ``budget`` allots to finding schedules on ``ranks`` ranks; infinite by default."""
    return Effort(math.inf if budget.effort is None else 280 * budget.effort * (3 + ranks))


def program_effort(budget: Budget, ranks: int) -> Effort:
    """Return the effort that ``budget`` allots to dispatching schedules; there is a limit in any case."""
    return Effort(100_000 if budget.effort is None else 1_500 * budget.effort * (3 + ranks))


UNTRIED = "candidates left untried"  # what the clock decided
LATE = "the time budget is over"
SECONDS_AFTER_INTERRUPT = 0.5  # for predictions
FEW = 4_000  # transfers with which each kind is tried once, whatever the effort, and the best lowered step by step
KEPT = 12  # schedules whose programs are timed: with 8 six of 102 cells are up to 7 % slower


@dataclass(frozen=True, slots=True)
class Pipelined:
    """The time of trees in steady state: ``latency`` seconds, a program's start included, and ``per_byte`` for
    each byte of the buffer. ``trees``: how many, in all or of each root; None where it is not trees that count."""

    latency: float
    per_byte: float
    trees: int | None = None

    def seconds(self, size: int) -> float:
        """Return the seconds for ``size`` bytes."""
        return self.latency + self.per_byte * size


@dataclass(frozen=True)
class Candidate:
    """A verified schedule and its predicted ``seconds`` for the size asked for: those of its trees in steady
    state, where ``pipelined`` is given."""

    label: str
    name: str
    chunks: int
    chunking: Chunking
    problem: Problem
    solution: Solution
    predictor: SchedulePredictor
    seconds: float
    pipelined: Pipelined | None = None

    @classmethod
    def of(
        cls,
        label: str,
        name: str,
        chunking: Chunking,
        problem: Problem,
        solution: Solution,
        size: int,
        costs: CostOptions,
        pipelined: Pipelined | None = None,
        seconds: float | None = None,
    ) -> Candidate:
        """Return ``solution`` as a candidate for ``size`` bytes. ``seconds``: of its schedule, where known."""
        predictor = SchedulePredictor(chunking.topology, problem, solution.schedule, costs)
        chunks = problem.collective.chunks_per_rank
        if seconds is None:
            seconds = predictor.timeline(size).makespan if pipelined is None else pipelined.seconds(size)
        return cls(label, name, chunks, chunking, problem, solution, predictor, seconds, pipelined)

    def lowering(self, size: int, options: LoweringOptions, costs: CostOptions) -> Lowering:
        """Return the lowering of its schedule for ``size`` bytes."""
        return Lowering(self.chunking.topology, self.problem, self.solution.schedule, size, options, costs)

    def solved(
        self, run: Compilation, programs: ProgramSpec, optimality: TimeOptimality, choice: Choice | None = None
    ) -> SolvedRequest:
        """Return the solved request from which files are made."""
        if choice is not None and self.pipelined is not None:
            choice = replace(choice, trees=self.pipelined.trees)
        question = run, self.name, self.chunking, self.problem, self.solution, programs
        return SolvedRequest(*question, optimality, choice)


Told = Callable[[Bounds, int, Candidate], None]
"""A callback that is told the bounds in seconds, how many candidates were tried, and a candidate."""


@dataclass(frozen=True)
class TuningRun:
    """The quickest candidates for one size, the best first. ``tried``: label and seconds of all, as they came.
    ``cut_short``: the clock or Ctrl-C decided something."""

    size: int
    bounds: Bounds
    candidates: tuple[Candidate, ...]
    tried: tuple[tuple[str, float], ...]
    cut_short: bool
    interrupted: bool = False
    ending: Ending = "tried"


def tune(
    specs: CandidateSpecs,
    progress: Progress = no_progress,
    *,
    budget: Budget | None = None,
    decisions: Decisions | None = None,
    trace: CegisTrace | None = None,
    told: Told | None = None,
) -> TuningRun:
    """Try the candidates that the request of ``specs`` leaves open, as far as the effort goes. ``told``: called
    with the bounds, the number tried so far and each candidate. HetesynthError HS610 where nothing is found."""
    specs.demand_possible()
    request, budget = specs.request, budget or specs.request.budget
    clock_decisions = budget.clock_decisions.inside()
    deadline = replace(budget, clock_decisions=clock_decisions).deadline()
    effort, steps = schedule_effort(budget, specs.topology.ranks), CegisTrace() if trace is None else trace
    record = decisions or Decisions()
    run = _TuningRun(specs, budget, progress, clock_decisions, deadline, record, effort, steps, told)
    try:
        run.all()
    except KeyboardInterrupt:
        if not run.candidates:
            raise
        run.interrupted = True
    if not run.candidates:
        alone = run.refusals and (request.strategy != "auto" or request.sketch is not None)
        raise HetesynthError(
            (run.refusals[0] if alone else f"no schedule for {request.collective} of {specs.size} bytes was found")
            + (" in the time budget" if clock_decisions else ""),
            code="HS610",
            exit_code=3,
            help=("raise --time-budget, or " if clock_decisions else "") + "choose another --strategy or --chunks",
        )
    cut_short = run.interrupted or bool(clock_decisions)
    candidates, tried = tuple(run.candidates), tuple(run.tried)
    ended: Ending = "bound" if run.bound_met() else "time" if cut_short else "tried"
    ending: Ending = "interrupt" if run.interrupted else ended
    return TuningRun(specs.size, specs.bounds, candidates, tried, cut_short, run.interrupted, ending)


@dataclass
class _TuningRun:
    specs: CandidateSpecs
    budget: Budget
    progress: Progress
    clock_decisions: ClockDecisions  # what the clock decided
    deadline: Deadline
    decisions: Decisions
    effort: Effort
    trace: CegisTrace
    told: Told | None = None
    candidates: list[Candidate] = field(default_factory=list)
    tried: list[tuple[str, float]] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)
    best_of: dict[int, float] = field(default_factory=dict)  # chunks -> seconds
    best_by: dict[str, float] = field(default_factory=dict)  # kind of candidate -> seconds
    interrupted: bool = False

    def all(self) -> None:
        """Try every number of chunks with every strategy, until the bound is met or time or effort is out."""
        from hetesynth.search.auto import FOR_A_SIZE, NO_SEARCH, Attempt

        request, counts = self.specs.request, self.specs.counts()
        named = [Attempt(request.strategy, "it is stated")]
        attempts = FOR_A_SIZE if request.strategy == "auto" else named
        least = sorted(counts)
        spent = accumulate(map(self.specs.transfers, least))
        within = [n for n, work in zip(least, spent, strict=True) if 2 * work <= self.effort.allotted]
        early = [(n, some) for n in within if (some := [a for a in attempts if n <= a.early])]
        rest = [(n, [a for a in attempts if n > a.early or not within]) for n in counts]
        for chunks in least[len(within) :] if within else []:
            for attempt in (a for a in attempts if chunks <= a.early):
                record = self.decisions.inside(f"chunks {chunks}")
                record.note(
                    attempt.strategy, "skipped", "it is tried early, and fewer chunks take half the effort"
                )
        for number, (chunks, tried_here) in enumerate([*early, *rest]):
            if number == len(early):  # of what is left, and the first whatever it takes
                self.effort = Effort(self.effort.allotted - self.effort.spent)
            record = self.decisions.inside(f"chunks {chunks}")
            reason = self._ended()
            low, high = sorted((counts[0], chunks))
            stops = [n for n in sorted(self.best_of, reverse=chunks < counts[0]) if low <= n <= high]
            last = [self.best_of[n] for n in stops[-3:]]
            if reason is None and len(last) > 2 and last[0] < last[1] < last[2]:
                reason = f"from {counts[0]} chunks towards it the last two numbers each made things worse"
            if reason is not None:
                record.note("all candidates", "skipped", reason)
                continue
            specs: list[CandidateSpec] = []
            for attempt in tried_here:
                why = attempt.reason_against(request.collective, self.specs.transfers(chunks))
                if why is None:
                    specs += self.specs.of(attempt.strategy, chunks)
                else:
                    record.note(attempt.strategy, "skipped", why)
            # what did best with other numbers of chunks first
            for spec in sorted(specs, key=lambda spec: self.best_by.get(spec.kind, self._best())):
                reason, work = self._ended() or self._behind(spec), self.specs.transfers(chunks)
                if reason is None and self.candidates and (spec.kind in self.best_by or work > FEW):
                    reason = self.effort.exceeded_by(work)
                if reason is None:
                    self._try(spec, record)
                else:
                    record.note(spec.label, "skipped", reason)
        if not self.candidates and not self.budget.strict_deadline and request.strategy == "auto":
            for name in NO_SEARCH:  # they take the least time to find
                for spec in self.specs.of(name, min(counts)):
                    if not self.candidates:
                        self._try(spec, self.decisions.inside("out of time"))

    def _ended(self) -> str | None:
        """Return why nothing else is tried, or None."""
        if self.interrupted:
            return "it was interrupted"
        if self.bound_met():
            return "the bound is met"
        return LATE if self.deadline.expired(UNTRIED) else None

    def bound_met(self) -> bool:
        """Return True if the best candidate meets the bound, so that nothing is left to gain."""
        least = self.specs.bounds.seconds(self.specs.size)
        return bool(self.candidates) and least >= 0.9998 * self.candidates[0].seconds

    def _best(self) -> float:
        return self.candidates[0].seconds if self.candidates else math.inf

    def _behind(self, spec: CandidateSpec) -> str | None:
        """Return how far the kind of ``spec`` fell behind with other numbers of chunks, or None if it did not."""
        seconds = self.best_by.get(spec.kind, 0.0)
        if seconds <= 1.3 * self._best():
            return None
        best = f"{microseconds(seconds)} at best with other numbers of chunks"
        return f"{best}, more than 1.3 times {microseconds(self._best())}"

    def _try(self, spec: CandidateSpec, record: Decisions) -> None:
        """Solve the problem of ``spec``, predict the seconds and keep the schedule if it is among the quickest."""
        left = self.deadline.left()
        seconds = None if math.isinf(left) else 0.2 * max(left, 0.1)
        clock_decisions = self.clock_decisions.inside(spec.label)
        budget = replace(
            self.budget,
            seconds=seconds,
            clock_decisions=clock_decisions,
            strict_deadline=self.budget.strict_deadline or bool(self.candidates),
        )
        problem = self.specs.problem(spec)
        policy = for_size(self.specs.request.policy, self.budget.effort)
        by_steps = row_of(spec.name).objective == "steps"
        try:
            first = first_candidate(self.specs.request, problem, self.specs.topology)
            told = {"first_candidate": first, "trace": self.trace.inside(spec.label), "bounded": by_steps}
            outcome = verified_solver(spec.strategy, budget, policy, **told).solve(problem)
        except HetesynthError as error:
            self.refusals.insert(0 if by_steps else len(self.refusals), error.message)  # theirs come first
            record.note(spec.label, "refused", error.message)
            return
        self.effort.spent += self.specs.transfers(spec.chunks)
        if not isinstance(outcome, Solution):
            record.note(spec.label, "tried", outcome.reason)
            return
        self.interrupted |= outcome.ending == "interrupt"
        size, costs = self.specs.size, self.specs.costs
        candidate = Candidate.of(spec.label, spec.name, spec.chunking, problem, outcome, size, costs)
        record.note(spec.label, "tried", microseconds(candidate.seconds))
        self._keep(candidate, spec.kind)

    def _keep(self, candidate: Candidate, kind: str) -> None:
        label, seconds, chunks = candidate.label, candidate.seconds, candidate.chunks
        self.tried.append((label, seconds))
        self.best_by[kind] = min(seconds, self.best_by.get(kind, seconds))
        self.best_of[chunks] = min(seconds, self.best_of.get(chunks, seconds))
        ordered = sorted([*self.candidates, candidate], key=lambda c: c.seconds)
        self.candidates = ordered[:KEPT]
        for left in ordered[KEPT:]:
            self.decisions.inside("candidates").note(left.label, "dropped", f"{KEPT} so far are quicker")
        limit = 100 * self.specs.bounds.seconds(self.specs.size) / self._best()
        best = f"schedule {microseconds(self._best())}, {whole_percent(limit)} % of the limit"
        self.progress(f"{label}: {microseconds(seconds)}{BEST}{best}", None)
        if self.told is not None:
            self.told(self.specs.bounds, len(self.tried), candidate)
