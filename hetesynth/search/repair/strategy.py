"""Strategy ``repair``: the first candidate, a schedule of the cluster as it was, made one of the cluster as it is.

In: a search whose first candidate is a schedule on the links and chunks of the problem, valid or not. What is
mended is taken where it is near the bound; else greedy rounds follow and, where these are not near it either,
repair of the best from checkpoint to checkpoint (HeteCCL, algorithm 1). Without such a candidate there are greedy
rounds alone. Near is the bound itself, or one step more where there are many; the phases of an allreduce share
that step. ``MENDED`` ends with what is mended; so does ``WHOLE``, which takes an allreduce as it is, for old
schedules that are not a reduce-scatter followed by an allgather.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule
from hetesynth.search.greedy import greedy
from hetesynth.search.repair.mend import mended
from hetesynth.search.search import Search
from hetesynth.search.strategy import Strategy

NAME = "repair"


@dataclass
class _Progress:
    """Of the repair of one schedule. ``used``: a step more than the bound was accepted, in whatever phase;
    ``mended``: what was mended last, of which problem and for which bound."""

    used: bool = False
    mended: tuple[Problem, int, Schedule] | None = None

    def enough(self, search: Search) -> int:
        """Steps so near to the bound that a search for fewer is not worth its time."""
        near = min(1, int(search.policy.repair.near_share * search.target))
        return search.target + (0 if self.used else near)


def strategy() -> Strategy:
    """For the repair of one schedule."""
    progress = _Progress()
    return Strategy(NAME, partial(improve, progress=progress), opening=partial(_mend, progress=progress))


def improve(search: Search, progress: _Progress | None = None) -> None:
    """Offer what is mended; more where it is far from the bound."""
    progress = progress or _Progress()
    enough = progress.enough(search)
    _mend(search, progress)
    if not search.reached(enough) and not (search.best is not None and search.out_of_time()):
        policy = search.policy.repair
        most = policy.greedy_work // max(1, search.problem.collective.deliveries)
        greedy.improve(search, max(policy.min_greedy_rounds, min(policy.max_greedy_rounds, most)), enough)
    if not search.reached(search.target + search.policy.repair.near_steps) and search.problem.max_peers is None:
        _checkpoints(search)
    progress.used |= not search.done


def _mend(search: Search, progress: _Progress | None = None) -> None:
    """Offer the shortest schedule along the mended trees of the first candidate, as far as time goes."""
    first, best = search.first_candidate, None
    if not isinstance(first, Schedule):
        return
    progress = progress or _Progress()
    if progress.mended is not None and progress.mended[:2] == (search.problem, search.target):
        search.offer(progress.mended[2], NAME)
        return
    for schedule in mended(search.problem, first.transfers, search.target, search.policy.repair):
        best = schedule
        if best.makespan <= search.target or search.out_of_time():
            break
    if best is not None:
        progress.mended = search.problem, search.target, best
        search.offer(best, NAME)


def _checkpoints(search: Search) -> None:
    """The best so far in fewer steps, from checkpoint to checkpoint."""
    from hetesynth.search.smt import cegis

    policy, best = search.policy.repair, search.best
    deliveries = search.problem.collective.deliveries * search.problem.ranks
    if best is None or deliveries > policy.checkpoint_work or search.out_of_time():
        return
    for steps in range(search.target + policy.near_steps, best.makespan):
        schedule = cegis.from_checkpoints(
            search, steps, policy.checkpoint_rlimit, policy.checkpoint_attempts, share=1.0
        )
        if schedule is not None:
            search.offer(schedule, NAME)
            return


STRATEGY = Strategy(NAME, improve)
MENDED = Strategy(NAME, _mend)
WHOLE = Strategy(NAME, _mend, whole=True)
