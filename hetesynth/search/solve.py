"""From any collective to copying problems and back: inversion, composition, bound, search.

In: a problem, a strategy, a budget, an oracle. Out: the best schedule found with the best lower bound proved, or
``Infeasible``. Never raises on Ctrl-C once a schedule exists: it returns that schedule and says it was cut short.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hetesynth.errors import HetesynthError
from hetesynth.model.bound import Certificate, LowerBound
from hetesynth.model.cegis_trace import CegisTrace
from hetesynth.model.deadline import now
from hetesynth.model.decisions import Decisions
from hetesynth.model.problem import Budget, Problem
from hetesynth.model.schedule import Schedule
from hetesynth.model.verdict import GaveUp, Infeasible
from hetesynth.policy import DEFAULT, Policy
from hetesynth.search.bounds.lower import all_bounds, lower_bound, quick_bound, reach
from hetesynth.search.collectives import DUAL, invert, reverse_schedule, split
from hetesynth.search.interrupts import abandoned, finishing
from hetesynth.search.interrupts import interrupted as pressed
from hetesynth.search.search import (
    Candidate,
    Ending,
    Improve,
    Oracle,
    Progress,
    Search,
    Strategy,
    combined,
    excess,
    no_progress,
)


@dataclass(frozen=True, slots=True)
class Solution:
    """A schedule that the oracle accepted and what is known of the optimum. ``cut_short``: time or an interrupt
    ended the search, so another run may differ. ``within``: for allreduce, the bound on schedules that put a
    reduce-scatter before an allgather, as this one does (HeteCCL appendix I). ``ending``: which budget ended the
    search, or that it met the bound."""

    schedule: Schedule
    bound: LowerBound
    cut_short: bool
    bound_seconds: float
    first_seconds: float
    within: int | None = None
    ending: Ending = "tried"

    @property
    def certificate(self) -> Certificate:
        """The steps of the schedule beside the bound."""
        return Certificate(self.schedule.makespan, self.bound)


UNBOUNDED = LowerBound(0, "trivial", "nothing was proved")


def bounded(problem: Problem, solution: Solution, policy: Policy = DEFAULT) -> Solution:
    """``solution`` of ``problem`` with the best lower bound, where none was proved."""
    if solution.bound is not UNBOUNDED:
        return solution
    goal, started = problem.collective, now()
    within, bound = None, _best_bound(problem, policy)
    if goal.name == "allreduce" and solution.within is not None:
        within = sum(_best_bound(part, policy).steps for part in split(problem)[:2])
    return replace(solution, bound=bound, within=within, bound_seconds=now() - started)


def _best_bound(problem: Problem, policy: Policy) -> LowerBound:
    if problem.collective.name in DUAL:
        return _of_the_dual(lower_bound(invert(problem)[0], policy.packing))
    return lower_bound(problem, policy.packing)


def bounds_of(problem: Problem, policy: Policy = DEFAULT) -> list[LowerBound]:
    """Every lower bound for any collective, best first; a reduction to one rank is bounded by its dual."""
    if problem.collective.name in DUAL:
        dual, _ = invert(problem)
        return [_of_the_dual(bound) for bound in all_bounds(dual, policy.packing)]
    return all_bounds(problem, policy.packing)


def _of_the_dual(bound: LowerBound) -> LowerBound:
    return replace(bound, proof=f"{bound.proof} (in the reversed problem)", backwards=not bound.backwards)


@dataclass(frozen=True, slots=True)
class Solver:
    """Everything a search needs besides the problem."""

    strategy: Strategy
    budget: Budget
    oracle: Oracle
    progress: Progress = no_progress
    policy: Policy = DEFAULT
    decisions: Decisions = field(default_factory=Decisions, compare=False, repr=False)
    trace: CegisTrace = field(default_factory=CegisTrace, compare=False, repr=False)
    first_candidate: Candidate = "greedy"
    bounded: bool = True  # False: steps do not count, and the bound is trivial

    def solve(self, problem: Problem) -> Solution | Infeasible | GaveUp:
        """The best schedule for ``problem``, or why there is none."""
        if problem.collective.name == "allreduce" and not self.strategy.whole:
            first, second, join = split(problem)
            started = now()
            scatter = self._phase("reduce-scatter", self.budget.part(0.5)).solve(first)
            if not isinstance(scatter, Solution):
                return scatter
            interrupted = scatter.ending == "interrupt" or pressed()
            gather: Solution | Infeasible | GaveUp | None = None
            if not interrupted:
                try:
                    gather = self._phase("allgather", self.budget.left_after(now() - started)).solve(second)
                except KeyboardInterrupt:
                    if abandoned():
                        raise
                    interrupted = True
            if gather is None:  # the first schedule of the second phase completes the first
                with finishing():
                    gather = self._phase("allgather", replace(self.budget, seconds=1e-3)).solve(second)
            if not isinstance(gather, Solution):
                return gather
            schedule = join(scatter.schedule, gather.schedule)
            crowded = excess(problem, {t.link for t in schedule.transfers})
            if crowded is not None:  # a limit of one peer is too little for two phases that use different links
                return GaveUp(f"both phases together: {crowded}", now() - started)
            before = now()
            with finishing(however_often=True) as interrupt:
                bound = self._bound(problem)
            interrupted |= interrupt.is_set()
            whole = Search(
                problem,
                bound.steps,
                self.budget.left_after(before - started),
                self.oracle,
                self.progress,
                self.policy,
                self.decisions.inside("both phases"),
                best=schedule,
                interrupted=interrupted,
            )
            bound_seconds = scatter.bound_seconds + gather.bound_seconds + now() - before
            ending = combined((scatter.ending, gather.ending), interrupted=interrupted, cut_short=False)
            if self.strategy.joined is not None and not interrupted and not whole.done:
                bound = self._proved(whole, bound, self.strategy.joined)
                ending = combined(
                    (scatter.ending, gather.ending, whole.ending), interrupted=whole.interrupted, cut_short=False
                )
            return Solution(
                whole.best or schedule,
                bound,
                scatter.cut_short or gather.cut_short or whole.cut_short,
                bound_seconds,
                scatter.first_seconds + gather.first_seconds,
                scatter.bound.steps + gather.bound.steps,
                ending,
            )
        if problem.collective.name in DUAL:
            dual, recover = invert(problem)
            solved = self._copying(dual, backwards=True)
            if not isinstance(solved, Solution):
                return solved
            bound = _of_the_dual(solved.bound) if self.bounded else UNBOUNDED
            return replace(solved, schedule=recover(solved.schedule), bound=bound)
        return self._copying(problem)

    def _phase(self, name: str, budget: Budget) -> Solver:
        decisions, trace, first = self.decisions.inside(name), self.trace.inside(name), self.first_candidate
        if isinstance(first, Schedule):  # its additions or its copies, which begin with the first of them
            part = [t for t in first.transfers if t.reduce == (name == "reduce-scatter")]
            begin = min((t.start for t in part), default=0)
            first = Schedule.of(replace(t, start=t.start - begin, end=t.end - begin) for t in part)
        return replace(self, budget=budget, decisions=decisions, trace=trace, first_candidate=first)

    def _bound(self, problem: Problem) -> LowerBound:
        return lower_bound(problem, self.policy.packing) if self.bounded else UNBOUNDED

    @staticmethod
    def _proved(search: Search, bound: LowerBound, improve: Improve) -> LowerBound:
        """Return the bound after ``improve``, which Ctrl-C ends where there is a schedule."""
        proved: LowerBound | None = None
        try:
            proved = improve(search)
        except KeyboardInterrupt:
            if search.best is None:
                raise
            search.interrupted = True
        return proved if proved is not None and proved.steps > bound.steps else bound

    def _copying(self, problem: Problem, *, backwards: bool = False) -> Solution | Infeasible | GaveUp:
        """Return the solution of a copying problem. ``backwards``: a reduction's, reversed, and texts say so."""
        stranded = reach(problem).stranded
        if stranded is not None:
            chunk, rank = stranded
            return Infeasible(f"no path leads chunk {chunk} to rank {rank}")
        refused = self.strategy.refuses(problem, self.policy)
        if refused:
            raise HetesynthError(
                f"strategy {self.strategy.name} does not take this problem: {refused}"
                + (" (in the reversed problem)" if backwards else ""),
                code="HS306",
                help="use --strategy auto, fewer chunks, or a larger --max-peers; "
                "`hetesynth strategies` lists which collectives each takes",
            )
        first = self.first_candidate
        if backwards and isinstance(first, Schedule):
            first = reverse_schedule(first)

        def search_for(bound: LowerBound) -> Search:
            tools = self.oracle, self.progress, self.policy, self.decisions, self.trace
            return Search(problem, bound.steps, self.budget, *tools, first)

        started = now()
        self.progress("bound", None)
        search: Search | None = None
        if self.strategy.opening is not None:
            bound = quick_bound(problem)
            bound_seconds = now() - started
            search = search_for(bound)
            self.strategy.opening(search)
        if search is None or not search.done:  # no schedule that meets a bound which is proved in no time
            bound = self._bound(problem)
            bound_seconds = now() - started
            search = search_for(bound)
            bound = self._proved(search, bound, self.strategy.improve)
            search.target = max(search.target, bound.steps)
        if search.best is None:
            reason = f"strategy {self.strategy.name} found no schedule"
            return GaveUp(f"{reason} ({search.crowded})" if search.crowded else reason, search.elapsed())
        first_seconds = search.first_seconds or 0.0
        return Solution(search.best, bound, search.cut_short, bound_seconds, first_seconds, ending=search.ending)
