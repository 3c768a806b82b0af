"""The one choice for a size: the candidate whose program is quickest. Steady-state candidates come first; where
the best of them is near what is possible, nothing else is tried. Else candidates of all strategies follow."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count

from hetesynth.engine.artifacts import SolvedRequest
from hetesynth.engine.choice.candidates import CandidateSpecs
from hetesynth.engine.choice.program_ranking import (
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
    SECONDS_AFTER_INTERRUPT,
    UNTRIED,
    Effort,
    TuningRun,
    program_effort,
    tune,
)
from hetesynth.engine.request import Request
from hetesynth.engine.rival import Rival
from hetesynth.engine.time_verdict import ALIKE, Bounds, rival_at, target_seconds
from hetesynth.errors import HetesynthError
from hetesynth.model.cegis_trace import CegisTrace
from hetesynth.model.deadline import Deadline, now
from hetesynth.model.decisions import Decisions
from hetesynth.model.problem import Budget
from hetesynth.model.words import microseconds
from hetesynth.search.auto import NO_SEARCH
from hetesynth.search.search import BEST, Ending, Progress, no_progress

WAN = "wan"
# An opening at this share of the limit ends the choice at effort 1; with 0.9 one of 60 cells is 8 % slower.
ENOUGH = 0.92


Keep = Callable[[Bounds, int, Ranked], None]
WAY_OUT = "raise --time-budget"


@dataclass(frozen=True)
class _Question:
    """The candidates to choose from and the callbacks. ``soon``: some program is wanted first, however slow."""

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
    """Return the candidates of ``specs``, the quickest program first. ``keep`` is called with the bounds, the
    number of candidates so far and each candidate; ``soon``: with a program of the library's strategies first.
    Nothing is begun after ``budget``; HetesynthError: with a strict deadline none was found. More effort than 1
    keeps what effort 1 finds, which is tried first, as what is tried depends on the effort."""
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
    """Return the candidates of ``asked`` with the one effort of ``spent``, the quickest program first."""
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
    """Return the ranking of programs for the target, or None where no program is asked for."""
    target, effort = timed_target(specs.request), program_effort(budget, specs.topology.ranks)
    return None if target is None else ProgramRanking(specs, target, deadline, record, effort)


def with_schedule(chosen: Chosen, request: Request, solved: SolvedRequest, deadline: Deadline) -> Chosen:
    """Return ``chosen`` with the schedule of the fewest steps, ``solved``: first if its program is within 5 % of
    the quickest, and with its program timed only where that is possible."""
    size = chosen.run.size
    candidate, best = step_candidate(solved, size), chosen.ranked[0]
    untimed = [*chosen.ranked, Ranked(candidate)]
    if timed_target(request) is None:
        return replace(chosen, ranked=sorted(untimed, key=lambda r: r.candidate.seconds))
    longest = math.inf if best.seconds is None else 1.05 * best.seconds
    if candidate.seconds > longest or chosen.run.interrupted or deadline.expired(UNTIMED):
        return replace(chosen, ranked=untimed)
    program = step_program(solved, candidate, size, deadline, Decisions())
    if program.seconds is not None and program.seconds <= longest:
        return replace(chosen, ranked=[program, *chosen.ranked])
    return replace(chosen, ranked=_merged(chosen.ranked, [program]))


def _merged(steady: list[Ranked], ranked: list[Ranked]) -> list[Ranked]:
    """Return all by the time of their programs; those that were not timed, or do not fit, after the others."""
    timed = sorted((r for r in [*steady, *ranked] if r.seconds is not None), key=lambda r: r.seconds or 0.0)
    return [*timed, *(r for r in [*steady, *ranked] if r.seconds is None)]


@dataclass(frozen=True)
class _Opening:
    """The library's programs and those in steady state, tried first. ``settled``: nothing else has to be tried."""

    bounds: Bounds
    ranking: ProgramRanking
    settled: bool
    interrupted: bool = False

    @property
    def seconds(self) -> float:
        """The seconds of the quickest program."""
        return self.ranking.best_seconds

    def chosen(self, budget: Budget) -> Chosen:
        """Return the choice among these programs alone."""
        verified = self.ranking.verified
        ranked = self.ranking.sorted or ([] if verified is None else [verified])
        tried = tuple((r.candidate.label, r.candidate.seconds) for r in ranked)
        cut_short = self.interrupted or bool(budget.clock_decisions)
        ending: Ending = "interrupt" if self.interrupted else "time" if cut_short else "tried"
        candidates, size = tuple(r.candidate for r in ranked), self.ranking.specs.size
        run = TuningRun(size, self.bounds, candidates, tried, cut_short, self.interrupted, ending)
        return Chosen(run, ranked)


def _with_sites(asked: _Question, budget: Budget, opening: _Opening, record: Decisions) -> _Opening:
    """Return ``opening`` with the programs of strategy wan, which spend no effort of other strategies."""
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
    """Return the programs tried first; None where the request excludes them, or none was in time or fits."""
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

    quick = budget.effort is not None and budget.effort <= 1 and not specs.between_sites

    def near() -> bool:
        quickest, limit = ranking.best_seconds, ranking.limit
        rival = rival_at(topology, request.collective, root, size, costs)
        least = rival.seconds if isinstance(rival, Rival) and rival.seconds >= limit else math.inf
        if limit >= NEAR_THE_LIMIT * quickest and least >= (1 - ALIKE) * quickest:
            return True
        enough = max(bounds.seconds(size) / ENOUGH, limit / 0.95)  # of what the target allows
        return quick and min(enough, least) >= quickest

    # of what is tried before there is no trace: the choice is that of a run without a budget
    before = replace(ranking, decisions=Decisions(), effort=Effort(0.0), ranked=[], known=set(), alone=True)
    try:
        for name in NO_SEARCH if asked.soon and not alone else ():
            if not before.ranked:
                before.run(SteadyCandidates(before).without_search(name))
        steady = SteadyCandidates(ranking, with_rings=not alone, enough=near)
        steady.try_all()
    except KeyboardInterrupt:
        kept = before if not ranking.ranked and ranking.verified is None else ranking
        if not kept.ranked and kept.verified is None:
            raise
        return _Opening(bounds, kept, settled=True, interrupted=True)
    settled = alone or near() or (quick and steady.large)
    return _Opening(bounds, ranking, settled) if ranking.ranked else None
