"""The state of a search: its deadline, its seed, the best schedule so far, and the oracle.

A search is anytime: every accepted schedule has passed the oracle that the pipeline handed in, and the best one
survives a deadline or an interrupt. Work is counted in rounds and solver resource units, not in seconds, so the
same seed gives the same schedule; the deadline only ends a search early, and ``clock_decisions`` says where.
``ending`` says which budget ended it.
"""

import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from hetesynth.errors import InternalError
from hetesynth.model.bound import LowerBound, UnsatWitness
from hetesynth.model.cegis_trace import CegisTrace
from hetesynth.model.deadline import ClockDecisions, Deadline, now
from hetesynth.model.decisions import Decisions
from hetesynth.model.problem import Budget, Problem
from hetesynth.model.schedule import Schedule
from hetesynth.model.verdict import Violation
from hetesynth.policy import DEFAULT, Policy

Oracle = Callable[[Problem, Schedule], list[Violation]]
Candidate = Literal["greedy", "flood", "nothing"] | Schedule  # what CEGIS begins with
Progress = Callable[[str, int | None], None]  # what is being done; steps of the best schedule so far
BEST = "; best "  # in a progress line: what follows is how the best so far stands, by time


# what ended a search: the bound was met, nothing was left to try, the solver's resource units, time, Ctrl-C
Ending = Literal["bound", "tried", "solver", "time", "interrupt"]
ENDINGS: tuple[Ending, ...] = get_args(Ending)  # of two searches in a row, the later in this list counts


def combined(endings: Iterable[Ending], *, interrupted: bool, cut_short: bool) -> Ending:
    """Return what ended several searches: Ctrl-C or the clock if either decided, else the last in ``ENDINGS``."""
    if interrupted:
        return "interrupt"
    return "time" if cut_short else max(endings, key=ENDINGS.index, default="tried")


class OutOfTime(Exception):
    """The deadline passed in the middle of something."""


def no_progress(what: str, steps: int | None) -> None:
    """A progress callback that shows nothing."""


def most_peers(problem: Problem, links: Iterable[int]) -> int:
    """The most ranks that one rank sends to, or receives from, over ``links``."""
    pairs = {(problem.arcs[a].src, problem.arcs[a].dst) for a in links}
    receivers, senders = Counter(src for src, _ in pairs), Counter(dst for _, dst in pairs)
    return max((*receivers.values(), *senders.values()), default=0)


def excess(problem: Problem, links: Iterable[int]) -> str | None:
    """Return why no schedule may use all of ``links``, or None."""
    if problem.max_peers is None:
        return None
    most = most_peers(problem, links)
    if most <= problem.max_peers:
        return None
    return f"a rank would send to, or receive from, {most} others, and may only {problem.max_peers}"


@dataclass
class Search:
    """A search over one problem. ``target``: a proved lower bound; reaching it ends the search. ``trace``: what
    CEGIS did; ``first_candidate``: what CEGIS begins with (``smt/cegis.py``). ``fewest_offered``: steps of the
    shortest schedule that was offered since the field was last set to None."""

    problem: Problem
    target: int
    budget: Budget
    oracle: Oracle
    progress: Progress = no_progress
    policy: Policy = DEFAULT
    decisions: Decisions = field(default_factory=Decisions)
    trace: CegisTrace = field(default_factory=CegisTrace)
    first_candidate: Candidate = "greedy"
    best: Schedule | None = None
    interrupted: bool = False
    solver_spent: bool = False  # the solver's budget ended before it had an answer
    crowded: str | None = None  # why a schedule with too many peers was not kept
    started: float = field(default_factory=now)
    first_seconds: float | None = None
    fewest_offered: int | None = None
    clock_decisions: ClockDecisions = field(init=False)  # of this search; the record of the budget is told too

    def __post_init__(self) -> None:
        self.clock_decisions = self.budget.clock_decisions.inside()

    @property
    def cut_short(self) -> bool:
        """True if the clock or Ctrl-C decided anything, so that another run may find something else."""
        return self.interrupted or bool(self.clock_decisions)

    def offer(self, schedule: Schedule, what: str, *, ties: bool = False) -> bool:
        """Keep ``schedule`` if it is better than the best (or, with ``ties``, as good) and needs no more peers
        than the problem allows; return True if it was kept. InternalError: the oracle finds a violation."""
        if self.fewest_offered is None or schedule.makespan < self.fewest_offered:
            self.fewest_offered = schedule.makespan
        if self.best is not None and schedule.makespan >= self.best.makespan + ties:
            return False
        crowded = excess(self.problem, {t.link for t in schedule.transfers})
        if crowded is not None:
            self.crowded = f"{what}: {crowded}"
            return False
        violations = self.oracle(self.problem, schedule)
        if violations:
            raise InternalError(f"{what} proposed a schedule that does not verify: {violations[0].message}")
        self.best = schedule
        if self.first_seconds is None:
            self.first_seconds = self.elapsed()
        self.progress(what, schedule.makespan)
        return True

    @property
    def done(self) -> bool:
        """True if the best schedule meets the bound."""
        return self.reached(0)

    def reached(self, steps: int) -> bool:
        """Return True if the best schedule meets the bound, or has no more than ``steps`` steps."""
        return self.best is not None and self.best.makespan <= max(steps, self.target)

    @property
    def ending(self) -> Ending:
        """The reason that the search ended."""
        if self.done:
            return "bound"
        if self.interrupted:
            return "interrupt"
        if self.cut_short:
            return "time"
        return "solver" if self.solver_spent else "tried"

    def elapsed(self) -> float:
        """Seconds since the search began."""
        return now() - self.started

    @property
    def deadline(self) -> Deadline:
        """The end of the budget; what it decides is noted as of this search."""
        return replace(self.budget.deadline(self.started), clock_decisions=self.clock_decisions)

    def remaining(self) -> float | None:
        """Seconds left, or None without a limit."""
        return None if self.budget.seconds is None else self.budget.seconds - self.elapsed()

    def stop_check(self, interrupted: threading.Event, reserve: float = 0.0) -> Callable[[], None]:
        """Return a check that long work calls: it raises where the work is to end, ``reserve`` seconds early."""

        def check() -> None:
            if interrupted.is_set():
                raise KeyboardInterrupt
            if self.out_of_time(reserve):
                raise OutOfTime

        return check

    def may_leave(self) -> bool:
        """Return True if the deadline has passed and either there is a schedule or the deadline is strict."""
        return (self.best is not None or self.budget.strict_deadline) and self.out_of_time()

    def out_of_time(self, seconds: float = 0.0) -> bool:
        """Return True if the deadline passes within ``seconds``, and note that it cut the search short."""
        left = self.remaining()
        if left is not None and left <= seconds:
            self.clock_decisions.note("search")
            return True
        return False


Improve = Callable[[Search], LowerBound | None]
Accepts = Callable[[Problem, Policy], str | None]


@dataclass(frozen=True, slots=True)
class Strategy:
    """A way to find schedules. ``improve`` works on a search: it offers schedules and may return a better lower
    bound, proved on the way. ``refuses`` says in words why a problem is not for it, or None. ``whole``: it takes
    an allreduce as it is; for others that is a reduce-scatter followed by an allgather, and ``joined`` works on
    both together. ``opening``: tried before bounds that take long, and all there is where it meets a quick one.

    A strategy knows nothing of the judge nor, unless one is handed to it, of other strategies. Where the problem
    limits the peers of a rank, a strategy refuses it, or chooses among the arcs that ``peers.within_peers``
    leaves, or counts peers itself; should a schedule need more all the same, the search does not take it
    (``Search.offer``).
    """

    name: str
    improve: Improve
    refuses: Accepts = lambda problem, policy: None
    whole: bool = False
    opening: Improve | None = None
    joined: Improve | None = None


def unsat_bound(infeasible_steps: int, query: str) -> LowerBound:
    """The bound that an unsatisfiable query for ``infeasible_steps`` steps proves."""
    steps = f"{infeasible_steps} step" + ("" if infeasible_steps == 1 else "s")
    proof = f"Z3: no schedule has only {steps}"
    return LowerBound(infeasible_steps + 1, "unsat", proof, UnsatWitness(infeasible_steps, query))
