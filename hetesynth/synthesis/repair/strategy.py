"""Strategy ``repair``: the first candidate, a schedule of the cluster as it was, made one of the cluster as it is.

In: a search whose first candidate is a schedule on the links and chunks of the problem, valid or not. What is
mended is taken where it is near the bound; else greedy rounds follow and, where most of the time is still
unspent, repair from checkpoint to checkpoint. Without such a candidate there are greedy rounds alone.
"""

from __future__ import annotations

from hetesynth.bounds.lower import lower_bound
from hetesynth.collectives.composition import split
from hetesynth.collectives.inversion import invert
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule
from hetesynth.synthesis.greedy import greedy
from hetesynth.synthesis.repair.mend import mended
from hetesynth.synthesis.search import Search
from hetesynth.synthesis.strategy import Strategy

NAME = "repair"


def improve(search: Search) -> None:
    """Offer what is mended; more where it is far from the bound."""
    first = search.first_candidate
    if isinstance(first, Schedule):
        for schedule in mended(search.problem, first.transfers, search.target, search.policy.repair):
            search.offer(schedule, NAME)
            if search.done:
                return
    if search.problem.collective.name == "allreduce":
        _phases(search)
    elif not _near(search, search.target):
        _searched(search)


def _near(search: Search, steps: int) -> bool:
    """Whether the best schedule is as near to ``steps`` as makes a search not worth its time."""
    return search.best is not None and search.best.makespan <= steps + search.policy.repair.near_steps


def _searched(search: Search) -> None:
    """Greedy rounds, the best so far being the one to beat."""
    greedy.improve(search, rounds=search.policy.repair.greedy_rounds)


def _phases(search: Search) -> None:
    """An allreduce whose mended schedule is far from the bound of two phases, one after the other: these."""
    problem, policy = search.problem, search.policy
    first, second, join = split(problem)
    dual, recover = invert(first)
    targets = [lower_bound(p, policy.bounds, policy.packing).steps for p in (dual, second)]
    if _near(search, sum(targets)):
        return
    halves = [_half(search, p, target) for p, target in zip((dual, second), targets, strict=True)]
    if halves[0] is not None and halves[1] is not None:
        search.offer(join(recover(halves[0]), halves[1]), "greedy")


def _half(search: Search, problem: Problem, target: int) -> Schedule | None:
    """A schedule of one phase."""
    half = Search(problem, target, search.budget, search.oracle, policy=search.policy)
    greedy.improve(half, rounds=search.policy.repair.greedy_rounds)
    return half.best


STRATEGY = Strategy(NAME, improve, whole=True)
