"""The strategies that are put together from several techniques: auto, and those that end with Z3.

``auto`` applies the rules of ``RULES`` one after the other to the same search: each names its conditions and what
it runs. What was applied or skipped, and why, is noted in the search's decisions.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Any

from hetesynth.model.bound import LowerBound
from hetesynth.model.collective import COLLECTIVE_NAMES, PERSONALIZED, CollectiveName
from hetesynth.model.problem import Problem
from hetesynth.model.verdict import GaveUp, Infeasible, Outcome, Synthesized
from hetesynth.policy import Policy
from hetesynth.search.effort import scaled
from hetesynth.search.interrupts import finishing
from hetesynth.search.registry import TO_EVERYBODY
from hetesynth.search.registry import strategy as registered
from hetesynth.search.search import Search, Strategy, unsat_bound


@dataclass(frozen=True)
class Rule:
    """A technique of ``auto``, skipped for the first reason that ``unless`` gives. ``run`` may prove a bound."""

    name: str
    unless: tuple[Callable[[Search], str | None], ...]
    run: Callable[[Search], LowerBound | None]


def applying(rules: tuple[Rule, ...]) -> Callable[[Search], LowerBound | None]:
    """Return a function that applies ``rules`` in order, notes what each did and returns the last bound proved."""

    def improve(search: Search) -> LowerBound | None:
        last: LowerBound | None = None
        for rule in rules:
            reason = next((why for condition in rule.unless if (why := condition(search)) is not None), None)
            if reason is not None:
                search.decisions.note(rule.name, "skipped", reason)
                continue
            before = None if search.best is None else search.best.makespan
            search.fewest_offered = None
            proved: LowerBound | None = None
            try:
                proved = rule.run(search)
            finally:
                offered = search.fewest_offered
                result = "no schedule" if offered is None else f"steps: {offered}"
                if before is not None and (offered is None or offered >= before):
                    result += f"; the best has {before}"
                if proved is not None:
                    result += f"; proved that no schedule has fewer than {proved.steps}"
                search.decisions.note(rule.name, "applied", result)
            last = proved or last
        return last

    return improve


def _bound_met(search: Search) -> str | None:
    return f"the bound of {search.target} steps is met" if search.done else None


def _out_of_time(search: Search) -> str | None:
    return "the time budget is over" if search.out_of_time() else None


def _schedule_found(search: Search) -> str | None:
    """Return why few peers do not matter, or None: there is no schedule, or most chunks have to be relayed."""
    if search.best is None:
        return None
    if not _relays(search.problem):
        return "there is a schedule, and most chunks need no relay"
    return _bound_met(search) or _out_of_time(search)


def _model_large(search: Search) -> str | None:
    sends = _sends(search.problem, search.target)
    return f"{sends:,} Send variables are more than 60,000" if sends > 60_000 else None


def _many_checkpoints(search: Search) -> str | None:
    """Return why filling steps takes too long, or None: each delivery looks at all ranks, or at all steps."""
    work = search.problem.collective.deliveries * max(search.problem.ranks, search.target)
    return f"{work:,} ranks or steps to look at are more than 3,000,000" if work > 3_000_000 else None


def _much_relayed(search: Search) -> str | None:
    """Return why refilling is no use, or None: it sends chunks nearer to targets, whichever way is crowded."""
    return "most chunks have to be relayed, and refilling spreads no relays" if _relays(search.problem) else None


def _few_peers(search: Search) -> None:
    """Offer the first baseline with few peers that takes the problem; greedy rounds may run out of peers."""
    for name in ("hierarchical", "doubling", "server-rings", "ring", "sph"):
        strategy = registered(name)
        reason = strategy.refuses(search.problem, search.policy)
        if reason is None:
            search.decisions.note(name, "applied", "the first of those with few peers that takes the problem")
            strategy.improve(search)
            return
        search.decisions.note(name, "refused", reason)


# solvers are imported when they run, not before: hence the imports inside of functions


def _refused_by(name: str) -> Callable[[Search], str | None]:
    return lambda search: registered(name).refuses(search.problem, search.policy)


def _by(name: str) -> Callable[[Search], LowerBound | None]:
    return lambda search: registered(name).improve(search)


def _checkpoints(search: Search) -> None:
    """Offer a schedule repaired from checkpoint to checkpoint, of the fewest steps not excluded or one more."""
    from hetesynth.search.smt import cegis

    share, best = search.policy.smt.units_in_auto, search.best
    last = search.target + 2
    for steps in range(search.target, last if best is None else min(last, best.makespan)):
        schedule = cegis.from_checkpoints(search, steps, scaled(40_000_000, share), scaled(40, share), 0.5)
        if schedule is not None:
            search.offer(schedule, "cegis")
            return
        search.solver_spent = True  # other ties and more units might do


def _flow_small(search: Search) -> str | None:
    from hetesynth.search.step_flow import columns

    number = columns(search.problem, search.target)
    return f"{number:,} columns of a flow are no more than 100,000" if number <= 100_000 else None


def _orbits(search: Search) -> None:
    from hetesynth.search import orbits

    orbits.improve(search)


def _exact(search: Search) -> LowerBound | None:
    units = 30_000_000 if _sends(search.problem, search.target) <= 10_000 else 2_000_000
    return _by_cegis(search, rlimit=scaled(units, search.policy.smt.units_in_auto))


RULES: tuple[Rule, ...] = (
    Rule("direct", (_refused_by("direct"),), _by("direct")),
    Rule("orbits", (_bound_met, _refused_by("flow"), _flow_small, _out_of_time), _orbits),
    Rule("greedy", (_bound_met,), _by("greedy")),
    Rule("flow", (_bound_met, _refused_by("flow"), _out_of_time), _by("flow")),
    Rule("few peers", (_schedule_found,), _few_peers),
    Rule("checkpoints", (_bound_met, _many_checkpoints, _much_relayed, _out_of_time), _checkpoints),
    Rule("tree-packing", (_bound_met, _refused_by("tree-packing"), _out_of_time), _by("tree-packing")),
    Rule("cegis", (_bound_met, _model_large, _out_of_time), _exact),
)
"""The techniques that ``auto`` tries, in this order."""


def _overlap(search: Search) -> None:
    from hetesynth.search.overlap import improve

    improve(search)


def _whole_large(search: Search) -> str | None:
    from hetesynth.search.smt.contributions import too_large

    steps = search.target if search.best is None else search.best.makespan - 1
    return too_large(search.problem, steps, search.policy.smt.units_in_auto)


def _contributions(search: Search) -> LowerBound | None:
    from hetesynth.search.smt.contributions import joined

    return joined(search)


JOINED: tuple[Rule, ...] = (
    Rule("overlap", (_bound_met,), _overlap),
    Rule("contributions", (_bound_met, _whole_large, _out_of_time), _contributions),
)
"""The techniques that ``auto`` tries on an allreduce whose reduce-scatter and allgather it has put together."""


def _relays(problem: Problem) -> bool:
    """Return True if most chunks have to be relayed because ranks may not send to all others."""
    few = problem.max_peers is not None and problem.max_peers < problem.ranks - 1
    return few and problem.collective.name in PERSONALIZED


def _sends(problem: Problem, steps: int) -> int:
    """Return an upper estimate of the Send variables of a model of ``steps`` steps."""
    return len(problem.collective.chunks) * len(problem.arcs) * max(1, steps)


def _too_many_sends(problem: Problem, policy: Policy) -> str | None:
    """Return why a problem is too large for a model of all steps that the user asks for, or None."""
    from hetesynth.search.copy_problem import CopyProblem

    diameter = max((h for row in CopyProblem(problem).hops for h in row if h < problem.ranks), default=1)
    sends, most = _sends(problem, diameter), 2_000_000
    return f"its model would have more than {most} variables ({sends})" if sends > most else None


Decide = Callable[[int], tuple[Outcome, Any]]
"""A function from a number of steps to the outcome, and the model that says so, where there is one."""


def raise_target(search: Search, decide: Decide, what: str) -> LowerBound | None:
    """Ask for schedules of ever more steps, from the bound up to one fewer than the best has; return the last
    bound proved. Steps rise on a proof or where the budget for a number is spent, the bound on a proof only."""
    proved: LowerBound | None = None
    steps = max(1, search.target)
    while (search.best is None or steps < search.best.makespan) and not search.out_of_time():
        search.progress(f"{what}: {steps} steps?", search.best.makespan if search.best else None)
        outcome, model = decide(steps)
        match outcome:
            case Synthesized(schedule=schedule):
                search.offer(schedule, what)
                return proved
            case Infeasible():
                # covers every smaller number as well
                proved = unsat_bound(steps, model.smt2() if model is not None else "")
                search.target = proved.steps
            case GaveUp():  # nothing is known of this number; the next may still be found
                search.solver_spent = True
        steps += 1
    return proved


def _by_cegis(search: Search, *, rlimit: int | None = None) -> LowerBound | None:
    from hetesynth.search.smt import cegis

    return raise_target(search, lambda steps: cegis.synthesize(search, steps, rlimit=rlimit), "cegis")


def _cegis(search: Search) -> LowerBound | None:
    """Run CEGIS from a first candidate (algorithm 1); where it ends before there is a schedule, a greedy round."""
    from hetesynth.search.greedy import greedy

    try:
        return _by_cegis(search)
    finally:
        if search.best is None:
            with finishing(however_often=True):  # short, and without it there is nothing
                greedy.improve(search, rounds=1)


def _monolithic(search: Search) -> LowerBound | None:
    from hetesynth.search.smt import cegis

    return raise_target(search, lambda steps: cegis.monolithic(search, steps), "monolithic")


AUTO = Strategy("auto", applying(RULES), joined=applying(JOINED))
CEGIS = Strategy("cegis", _cegis, _too_many_sends)
MONOLITHIC = Strategy("monolithic", _monolithic, _too_many_sends)


@dataclass(frozen=True)
class Attempt:
    """A strategy that ``auto`` tries for a size with each number of chunks. ``why``: what is lost without it;
    ``only``: its collectives; ``most``: transfers, past which it takes too long. ``early``: with that many chunks
    or fewer it is tried before all else, the fewest first, for half the effort at most."""

    strategy: str
    why: str
    only: tuple[CollectiveName, ...] = COLLECTIVE_NAMES
    most: float = inf
    early: int = 0

    def reason_against(self, name: CollectiveName, transfers: int) -> str | None:
        """Return why the strategy is not tried for collective ``name`` with ``transfers`` transfers, or None."""
        if name not in self.only:
            return f"it is not for {name}"
        return f"{transfers:,} transfers are more than {self.most:,}" if transfers > self.most else None


FOR_A_SIZE: tuple[Attempt, ...] = (
    Attempt(
        "server-rings",
        "NICs keep one partner: h20_64 allgather of 64 MB in 374, not 631 us; early: 16 MB up to 9 % quicker",
        TO_EVERYBODY,
        140_000,
        early=8,
    ),
    Attempt("exchange", "balanced paths: AllToAll of 16 MB 8 % quicker", PERSONALIZED),
    Attempt("matching", "direct networks: torus 8x8 of 64 MB 5 % quicker", TO_EVERYBODY, 70_000),
    Attempt("timed", "earliest arrival: small buffers up to 30 % quicker", most=70_000),
    Attempt("negotiated", "loads that even out: 16 MB up to 2.5 times as quick", TO_EVERYBODY, 70_000),
    Attempt("greedy", "counts steps, as the paper does: 16 MB up to 27 % quicker"),
    Attempt("hierarchical", "few messages between servers: 64 KB up to 6 % quicker", most=12_000),
    Attempt(
        "crossing",
        "one crossing of what has two sides: 64 KB up to 1.9 x as quick",
        ("allreduce",),
        12_000,
        early=1,
    ),
    Attempt(
        "trading",
        "one crossing between several servers: 64 KB up to 19 % quicker, 1 MB up to 1.56 x as quick",
        ("allreduce",),
        12_000,
        early=1,
    ),
    Attempt("timed-trees", "balanced trees: 64 KB up to 5 % quicker", TO_EVERYBODY, 20_000),
)
"""The strategies that ``auto`` tries for a size, in this order. The trees of the steady state come before them
(``engine/choice/choice.py``): where one of these is within 8 % of the proved limit, or 5 % of the target's, no
strategy is tried, nor for large calls on many GPUs, where earliest arrival comes with the trees. All figures but
the first are of 114 cells on clusters made at random, of up to 32 GPUs; no other strategy of the registry won a
cell."""
NO_SEARCH = ("server-rings", "ring", "sph")
"""The strategies tried for a size where time is over and nothing was found; ``sph`` takes any cluster."""
