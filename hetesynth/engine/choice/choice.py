"""The one choice for a size: the candidate whose program is quickest. Steady-state candidates come first; where
the best of them is near what is possible, nothing else is tried. Else what the library runs follows, and then
candidates of all strategies, by the rules."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count, takewhile
from math import gcd

from hetesynth.engine.artifacts import SolvedRequest
from hetesynth.engine.choice.candidates import CandidateSpecs
from hetesynth.engine.choice.program_ranking import (
    MOST_TRANSFERS,
    NEAR_THE_LIMIT,
    UNTIMED,
    ProgramRanking,
    Ranked,
    step_candidate,
    step_program,
    timed_target,
)
from hetesynth.engine.choice.steady import NAME, SteadyCandidates
from hetesynth.engine.choice.tuning import (
    LATE,
    SECONDS_AFTER_INTERRUPT,
    UNTRIED,
    Candidate,
    Effort,
    Pipelined,
    TuningRun,
    program_effort,
    tune,
)
from hetesynth.engine.lowering import Lowering
from hetesynth.engine.problem import unbounded_solver
from hetesynth.engine.request import Request
from hetesynth.engine.ring_baseline import MOST_RANKS_RINGS, Baseline, ring_baseline, tree_baseline
from hetesynth.engine.rival import Rival
from hetesynth.engine.steady_programs import LibraryProgram
from hetesynth.engine.time_verdict import ALIKE, Bounds, rival_at, target_seconds
from hetesynth.errors import HetesynthError
from hetesynth.model.cegis_trace import CegisTrace
from hetesynth.model.deadline import Deadline, now
from hetesynth.model.decisions import Decisions
from hetesynth.model.problem import Budget, Problem
from hetesynth.model.words import microseconds
from hetesynth.search.baselines.table import DOUBLE_TREE, ring_strategy
from hetesynth.search.search import BEST, Ending, Progress, no_progress
from hetesynth.search.solve import Solution

RING = "ring"
WAN = "wan"
ENOUGH = 0.9  # of the limit ends the choice at effort 1: on nine generated clusters others win 1.6 % at most
LABEL = "best rings"


def why_skipped(specs: CandidateSpecs, deadline: Deadline) -> str | None:
    """Why rings are not even simulated, or None."""
    ranks = specs.topology.ranks
    if ranks > MOST_RANKS_RINGS:
        return f"{ranks} ranks are more than {MOST_RANKS_RINGS}"
    return LATE if deadline.expired(UNTRIED) else None


@dataclass(frozen=True)
class LibraryCandidates:
    """The library's own programs for ``ranking``; none after its deadline."""

    ranking: ProgramRanking

    @property
    def specs(self) -> CandidateSpecs:
        """Of the ranking."""
        return self.ranking.specs

    def try_all(self) -> None:
        """Of rings or sends, whichever are soonest, then of trees where these are sooner."""
        specs, name, options = self.specs, self.specs.request.collective, self.specs.costs
        reason = why_skipped(specs, self.ranking.deadline)
        if reason is not None:
            self.ranking.decisions.note(LABEL, "skipped", reason)
            return
        baseline = ring_baseline(specs.topology, name, specs.factory.root, specs.size, options)
        if isinstance(baseline, str):
            self.ranking.decisions.note(LABEL, "refused", baseline)
            return
        self._timed(baseline)
        if name == "allreduce":
            trees = tree_baseline(specs.topology, specs.size, options)
            if trees is not None and trees.seconds < baseline.seconds and self.ranking.target.format.program:
                self._timed(trees)

    def _timed(self, baseline: Baseline) -> None:
        """The programs of ``baseline``; where the target takes others, its chunks dispatched."""
        ranking, record, least = self.ranking, self.ranking.decisions, math.inf
        reason = ranking.against(baseline.seconds, 0)
        if reason is not None:
            record.note(baseline.label, "skipped", reason)
            return
        if not ranking.target.format.program:
            self._dispatched(baseline)
            return
        for program, chunks in self._fitting(baseline):
            if ranking.deadline.expired(UNTRIED):
                record.note(baseline.name, "skipped", LATE)
                return
            label = f"{baseline.name}, c={chunks}"
            ranked = self._ranked(label, program, chunks)
            if ranked is not None:
                seconds = ranked.seconds or 0.0
                least = min(least, seconds)
                record.note(f"{label}: {program.label}", "tried", microseconds(seconds))
                ranking.keep(ranked)
        if math.isinf(least):
            record.note(baseline.name, "refused", f"no program of them fits {ranking.target.name}")
        if baseline.orders and (1 - ALIKE) * least > baseline.seconds:
            self._dispatched(baseline)

    def _dispatched(self, baseline: Baseline) -> None:
        """Chunks along the rings of ``baseline``, dispatched: for a target that does not hold its channels."""
        specs, program = self.specs, LibraryProgram(baseline.orders[: baseline.rings], channels=1)
        chunks = specs.request.fixed_chunks or max(1, baseline.rings)
        solved = self._solution(program, chunks) if specs.chunk_bytes(chunks) >= 1 else None
        if solved is None or len(solved[1].schedule.transfers) > MOST_TRANSFERS:
            return
        question = specs.paper_chunking(chunks), *solved, specs.size, specs.costs
        candidate = Candidate.of(f"{baseline.name}, c={chunks}", RING, *question)
        self.ranking.run(self.ranking.routes(candidate))

    def _fitting(self, baseline: Baseline) -> Iterator[tuple[LibraryProgram, int]]:
        """The program of ``baseline`` and its chunks; where the target holds only less of it, the widest of each
        kind."""
        specs, target = self.specs, self.ranking.target
        lowering, ranks = specs.lowering_for(target), baseline.ranks
        least = 0 if specs.personalized else 1  # plain sends go to their receivers at once
        for kind in _narrower(baseline, specs.request.fixed_chunks):
            for place, (program, chunks) in enumerate(kind):
                sends = specs.transfers(chunks) // ranks  # of a rank; an instruction takes one chunk at most
                long = program.orders and sends > target.max_steps * len(program.orders)
                if long or 1 + ranks + least * sends > target.max_nodes:  # no need to make the program
                    continue
                if specs.chunk_bytes(chunks) >= 1 and program.fit(specs.factory.collective(chunks), lowering):
                    yield program, chunks
                    if place == 0:  # all of it
                        return
                    break

    def _solution(self, program: LibraryProgram, chunks: int) -> tuple[Problem, Solution] | None:
        """The verified schedule along the links of ``program``; None: a schedule may have fewer peers."""
        specs, request, first = self.specs, self.specs.request, self.specs.topology.links[0]
        problem = specs.factory.problem(specs.paper_chunking(chunks), chunks)
        strategy = DOUBLE_TREE if program.trees else ring_strategy(program.orders, (first.src, first.dst))
        try:
            solution = unbounded_solver(strategy, request).solve(problem)
        except HetesynthError:
            return None
        return (problem, solution) if isinstance(solution, Solution) else None

    def _ranked(self, label: str, program: LibraryProgram, chunks: int) -> Ranked | None:
        """The verified schedule along the links of ``program`` with the time of that; None: there is none."""
        specs = self.specs
        solved, options, size = self._solution(program, chunks), specs.costs, specs.size
        if solved is None:
            return None
        problem, solution = solved
        under = specs.lowering_for(self.ranking.target)
        predictor = Lowering(specs.topology, problem, solution.schedule, size, under, options).predictor(program)
        if predictor is None:
            return None
        seconds = predictor.timeline(size).makespan
        latency = min(seconds, specs.latency(problem, solution.schedule))
        pipelined = Pipelined(latency, (seconds - latency) / size)
        question = label, RING, specs.paper_chunking(chunks), problem, solution, size, options
        return Ranked(Candidate.of(*question, pipelined, seconds), seconds, program)


def _narrower(baseline: Baseline, stated: int | None) -> Iterator[Iterator[tuple[LibraryProgram, int]]]:
    """``baseline``, then the same on half as many channels and so on, by kind; ``stated`` chunks or what suits."""
    halves = [*takewhile(bool, (baseline.channels >> k for k in count()))]
    if baseline.trees:
        parts = baseline.chunks // baseline.channels
        widths = [(n, k) for n in halves for k in (parts, parts // 4, parts // 16) if k]
        yield (
            (LibraryProgram(trees=baseline.trees[:n]), stated or n * k // gcd(n * k, baseline.ranks))
            for n, k in widths
            if stated is None or n <= stated * baseline.ranks  # each channel has a part
        )
        return
    if not baseline.orders:
        yield ((LibraryProgram(channels=n), stated or n) for n in halves)
        return
    if baseline.apart and stated in (None, baseline.chunks):
        chunks = baseline.chunks
        yield ((LibraryProgram(baseline.orders[:n], chunks), chunks) for n in halves if n > chunks)
    yield _plain_rings(baseline, stated, [n for n in halves if n > baseline.rings])


def _plain_rings(
    baseline: Baseline, stated: int | None, widths: list[int]
) -> Iterator[tuple[LibraryProgram, int]]:
    for channels in (*widths, baseline.rings):
        chunks = stated or max(channels, baseline.chunks * channels // baseline.channels)
        while chunks:
            yield LibraryProgram(baseline.orders[: min(channels, chunks)]), chunks
            chunks = 0 if stated or chunks // 2 < channels else chunks // 2


Keep = Callable[[Bounds, int, Ranked], None]
WAY_OUT = "raise --time-budget"


@dataclass(frozen=True)
class _Question:
    """What the choice is for, and who is told. ``soon``: there is to be a program, whatever it is."""

    specs: CandidateSpecs
    progress: Progress
    keep: Keep
    trace: CegisTrace
    soon: bool


@dataclass(frozen=True)
class Chosen:
    """A tuning run and its candidates by the time of their programs."""

    run: TuningRun
    ranked: list[Ranked]


def choose(
    specs: CandidateSpecs,
    progress: Progress = no_progress,
    budget: Budget | None = None,
    decisions: Decisions | None = None,
    keep: Keep | None = None,
    trace: CegisTrace | None = None,
    *,
    soon: bool = False,
) -> Chosen:
    """The candidates of ``specs``, the quickest program first; ``soon``: of the library's ``keep`` is told before.
    Nothing is begun after ``budget``; with a strict deadline none may be found. ``keep``: is told of each
    candidate, with the bounds and how many there were. What effort 1 finds is part of what more effort finds, as
    what is tried depends on the effort."""
    record, spent, started = decisions or Decisions(), budget or specs.request.budget, now()
    steps = CegisTrace() if trace is None else trace
    asked = _Question(specs, progress, keep or (lambda *_: None), steps, soon)
    if spent.effort is None or spent.effort <= 1:
        return _chosen(asked, spent, record)
    first = _chosen(asked, replace(spent, effort=1.0), record.inside("effort 1"))
    if first.run.interrupted or first.run.ending == "bound":
        return first
    left = spent.left_after(now() - started)
    try:
        more = _chosen(asked, replace(left, strict_deadline=True), record)
    except HetesynthError:  # time is over
        return first
    except KeyboardInterrupt:
        return Chosen(replace(first.run, interrupted=True, cut_short=True, ending="interrupt"), first.ranked)
    tried, cut_short = first.run.tried + more.run.tried, first.run.cut_short or more.run.cut_short
    run = replace(more.run, tried=tried, cut_short=cut_short)
    return Chosen(run, _merged(first.ranked, more.ranked))


def _chosen(asked: _Question, spent: Budget, record: Decisions) -> Chosen:
    """The same with one effort."""
    specs, deadline, began = asked.specs, spent.deadline(), now()
    opening = _opening(asked, spent, deadline, record)
    if opening is not None and not opening.settled and specs.between_sites:
        opening = _with_sites(asked, spent.left_after(now() - began), opening, record)
    if opening is not None and opening.settled:
        return opening.chosen(spent)
    strict = spent.strict_deadline or opening is not None
    if strict and deadline.expired(UNTRIED):
        if opening is not None:
            return opening.chosen(spent)
        raise HetesynthError("no time is left to choose by time", code="HS610", exit_code=3, help=WAY_OUT)
    left = replace(spent.left_after(now() - began), strict_deadline=strict)
    if timed_target(specs.request) is not None:
        left = left.part(0.75)  # the rest is for programs
    try:
        run = tune(
            specs,
            asked.progress,
            budget=left,
            decisions=record,
            trace=asked.trace,
            told=lambda bounds, tried, candidate: asked.keep(bounds, tried, Ranked(candidate)),
        )
    except (HetesynthError, KeyboardInterrupt) as error:
        if opening is None:
            raise
        return replace(opening, interrupted=isinstance(error, KeyboardInterrupt)).chosen(spent)
    ranking = _ranking(specs, deadline, record, spent) if opening is None else opening.ranking
    if ranking is None:
        return Chosen(run, [Ranked(candidate) for candidate in run.candidates])
    try:
        if run.interrupted:
            soon = now() + SECONDS_AFTER_INTERRUPT
            ranking.deadline = replace(deadline, at=min(deadline.at, soon))
        ranking.decisions = record.inside("programs")
        return Chosen(run, ranking.of(run.candidates))
    except KeyboardInterrupt:
        run = replace(run, interrupted=True, cut_short=True, ending="interrupt")
        return Chosen(run, [*ranking.sorted, *map(Ranked, run.candidates)])


def _ranking(
    specs: CandidateSpecs, deadline: Deadline, record: Decisions, budget: Budget
) -> ProgramRanking | None:
    """Of programs for the target; None where none is asked for."""
    target, effort = timed_target(specs.request), program_effort(budget, specs.topology.ranks)
    return None if target is None else ProgramRanking(specs, target, deadline, record, effort)


def with_schedule(chosen: Chosen, request: Request, solved: SolvedRequest, deadline: Deadline) -> Chosen:
    """The same with the schedule of the fewest steps, its program timed only where that may be the quickest."""
    size = chosen.run.size
    candidate, best = step_candidate(solved, size), chosen.ranked[0]
    untimed = [*chosen.ranked, Ranked(candidate)]
    if timed_target(request) is None:
        return replace(chosen, ranked=sorted(untimed, key=lambda r: r.candidate.seconds))
    behind = best.seconds is not None and candidate.seconds >= best.seconds
    if behind or chosen.run.interrupted or deadline.expired(UNTIMED):
        return replace(chosen, ranked=untimed)
    program = step_program(solved, candidate, size, deadline, Decisions())
    return replace(chosen, ranked=_merged(chosen.ranked, [program]))


def _merged(steady: list[Ranked], ranked: list[Ranked]) -> list[Ranked]:
    """All by the time of their programs; those that were not timed, or do not fit, after the others."""
    timed = sorted((r for r in [*steady, *ranked] if r.seconds is not None), key=lambda r: r.seconds or 0.0)
    return [*timed, *(r for r in [*steady, *ranked] if r.seconds is None)]


@dataclass(frozen=True)
class _Opening:
    """The library's programs and those in steady state. ``settled``: nothing else has to be tried."""

    bounds: Bounds
    ranking: ProgramRanking
    settled: bool
    interrupted: bool = False

    @property
    def seconds(self) -> float:
        """Of the quickest."""
        return self.ranking.best_seconds

    def chosen(self, budget: Budget) -> Chosen:
        """The choice among these alone."""
        verified = self.ranking.verified
        ranked = self.ranking.sorted or ([] if verified is None else [verified])
        tried = tuple((r.candidate.label, r.candidate.seconds) for r in ranked)
        cut_short = self.interrupted or bool(budget.clock_decisions)
        ending: Ending = "interrupt" if self.interrupted else "time" if cut_short else "tried"
        candidates, size = tuple(r.candidate for r in ranked), self.ranking.specs.size
        run = TuningRun(size, self.bounds, candidates, tried, cut_short, self.interrupted, ending)
        return Chosen(run, ranked)


def _with_sites(asked: _Question, budget: Budget, opening: _Opening, record: Decisions) -> _Opening:
    """``opening`` with what strategy wan finds, which is not taken from the effort of others."""
    request = replace(asked.specs.request, strategy=WAN)
    alone = replace(asked, specs=replace(asked.specs, request=request))
    try:
        more = _chosen(alone, replace(budget, strict_deadline=True), record.inside("between sites"))
    except HetesynthError:  # it does not take the cluster, or time is over
        return opening
    opening.ranking.ranked += [r for r in more.ranked if r.seconds is not None]
    near = opening.bounds.seconds(asked.specs.size) >= NEAR_THE_LIMIT * opening.seconds
    interrupted = more.run.interrupted
    return replace(opening, settled=near or interrupted, interrupted=interrupted)


def _opening(asked: _Question, budget: Budget, deadline: Deadline, record: Decisions) -> _Opening | None:
    """What is tried first; None where no such program is asked for, or none was in time or fits."""
    specs, request, size = asked.specs, asked.specs.request, asked.specs.size
    target, rule = timed_target(request), record.inside("opening")
    if target is None or request.strategy not in ("auto", NAME):
        reason = "no program is made" if target is None else f"strategy {request.strategy} is stated"
        rule.note("steady state", "skipped", reason)
        return None
    if request.sketch is not None and request.sketch.offsets:
        rule.note("steady state", "skipped", "the sketch has symmetries, which are of steps")
        return None
    specs.demand_possible()
    bounds = specs.bounds
    number, best = count(1), math.inf

    def tried(ranked: Ranked) -> None:
        nonlocal best
        seconds = ranked.seconds or 0.0
        best = min(best, seconds)
        asked.progress(f"{ranked.candidate.label}: {microseconds(seconds)}{BEST}{microseconds(best)}", None)
        asked.keep(bounds, next(number), ranked)

    root, topology, costs = specs.factory.root, specs.topology, specs.costs
    limit = max(bounds.seconds(size), target_seconds(topology, bounds, root, size, costs, target))
    effort = program_effort(budget, topology.ranks)
    alone = request.strategy == NAME
    ranking = ProgramRanking(specs, target, deadline, rule, effort, limit, tried, alone=alone)

    def near() -> bool:
        quickest, limit = ranking.best_seconds, ranking.limit
        rival = rival_at(topology, request.collective, root, size, costs)
        least = rival.seconds if isinstance(rival, Rival) and rival.seconds >= limit else math.inf
        if limit >= NEAR_THE_LIMIT * quickest and least >= (1 - ALIKE) * quickest:
            return True
        enough = max(bounds.seconds(size) / ENOUGH, limit / 0.95)  # of what the target allows
        return budget.effort is not None and budget.effort <= 1 and min(enough, least) >= quickest

    # of what is tried before there is no trace: the choice is that of a run without a budget
    before = replace(ranking, decisions=Decisions(), effort=Effort(math.inf), ranked=[])
    try:
        if asked.soon and not alone:
            LibraryCandidates(before).try_all()
        SteadyCandidates(ranking).try_all()
        if not alone and not near():
            LibraryCandidates(ranking).try_all()
    except KeyboardInterrupt:
        kept = before if not ranking.ranked and ranking.verified is None else ranking
        if not kept.ranked and kept.verified is None:
            raise
        return _Opening(bounds, kept, settled=True, interrupted=True)
    return _Opening(bounds, ranking, settled=alone or near()) if ranking.ranked else None
