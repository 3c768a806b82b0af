"""Strategy ``repair``: the first candidate, a schedule of the cluster as it was, made one of the cluster as it is.

In: a search whose first candidate is a schedule on the links and chunks of the problem, valid or not. What is
mended is taken where it is near the bound; else greedy rounds follow and, where these are not near it either,
repair of the best from checkpoint to checkpoint (HeteCCL, algorithm 1). Without such a candidate there are greedy
rounds alone. ``WHOLE`` takes an allreduce as it is, for old schedules that are not a reduce-scatter followed by an
allgather.
"""

from __future__ import annotations

from hetesynth.model.schedule import Schedule
from hetesynth.synthesis.greedy import greedy
from hetesynth.synthesis.repair.mend import mended
from hetesynth.synthesis.search import Search
from hetesynth.synthesis.strategy import Strategy

NAME = "repair"


def improve(search: Search) -> None:
    """Offer what is mended; more where it is far from the bound."""
    _mend(search)
    if not _near(search, 0):
        greedy.improve(search, rounds=search.policy.repair.greedy_rounds)
    if not _near(search, search.policy.repair.near_steps) and search.problem.max_peers is None:
        _checkpoints(search)


def _mend(search: Search) -> None:
    """Offer the schedules along the mended trees of the first candidate, as long as they get shorter."""
    first = search.first_candidate
    if not isinstance(first, Schedule):
        return
    for schedule in mended(search.problem, first.transfers, search.target, search.policy.repair):
        search.offer(schedule, NAME)
        if search.done or search.out_of_time():
            return


def _near(search: Search, steps: int) -> bool:
    """Whether the best schedule is as near to the bound as makes a search not worth its time: ``steps`` steps, or
    more where the bound is many."""
    slack = max(steps, int(search.policy.repair.near_share * search.target))
    return search.best is not None and (search.best.makespan <= search.target + slack or search.out_of_time())


def _checkpoints(search: Search) -> None:
    """The best so far in fewer steps, from checkpoint to checkpoint."""
    from hetesynth.synthesis.smt import cegis

    policy, best = search.policy.repair, search.best
    deliveries = search.problem.collective.deliveries * search.problem.ranks
    if best is None or deliveries > policy.checkpoint_work:
        return
    for steps in range(search.target + policy.near_steps, best.makespan):
        schedule = cegis.from_checkpoints(
            search, steps, policy.checkpoint_rlimit, policy.checkpoint_attempts, share=1.0
        )
        if schedule is not None:
            search.offer(schedule, NAME)
            return


STRATEGY = Strategy(NAME, improve)
WHOLE = Strategy(NAME, _mend, whole=True)
