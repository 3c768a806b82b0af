"""The least time that a command takes whatever its budget: a cost model of the phases that cannot be left out.

In: what is asked for and the number of ranks. Out: seconds by phase. The budget is for the search; before it the
problem and its bound have to be there, with it comes at least one schedule, and after it stand the judges and the
programs. Each of these grows with the transfers, of which there are about as many as there are deliveries.
``LeastTimePolicy`` holds all figures, and says what they were fitted to. Expect a factor of 1.5 either
way on such clusters. It may be several times as much where other work shares the cores, where
links share many groups, where programs fit the target only after many drafts (few NICs, servers of different
sizes), and with a size, for which several candidates may be tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hetesynth.model.collective import REDUCING, CollectiveName
from hetesynth.model.problem import Budget
from hetesynth.policy import Policy

if TYPE_CHECKING:
    from hetesynth.compile.request import Request


@dataclass(frozen=True, slots=True)
class LeastTime:
    """Seconds by phase, named as in the report of what was spent."""

    phases: tuple[tuple[str, float], ...]

    @property
    def seconds(self) -> float:
        """All phases together."""
        return sum(seconds for _, seconds in self.phases)


def least_time(
    request: Request, ranks: int, *, sized: bool | None = None, schedule_only: bool | None = None,
    budget: Budget | None = None,
) -> LeastTime:  # fmt: skip
    """What ``request`` takes at least on a cluster of ``ranks`` GPUs.

    ``sized``: whether the time is predicted in any case, by default where a size is stated. ``schedule_only``:
    whether no programs are made, by default as the request says. ``budget``: by default that of the request.
    """
    from hetesynth.compile.formats import variants

    prices = request.policy.least_time
    number = transfers(request.collective, ranks, request.chunks)
    bare = request.schedule_only if schedule_only is None else schedule_only
    programs = 0.0 if bare else float(len([*variants(request.targets, request.collective)]))
    programs *= prices.adding if request.collective in REDUCING else 1.0
    problems = prices.composed if request.collective == "allreduce" else 1.0
    simulated = request.size is not None if sized is None else sized
    simulated = simulated or number <= predicted_unasked((budget or request.budget).seconds, request.policy)
    return LeastTime((
        ("parse", prices.start),
        ("bound", prices.problem * problems * ranks**2),
        ("search", prices.schedule * number * ranks / 100),
        ("predict", prices.predict * number * simulated),
        ("verify", (prices.replay + prices.judge * programs) * number),
        ("lower", prices.lower * programs * number),
    ))  # fmt: skip


def of_all_roots(request: Request, ranks: int) -> LeastTime:
    """What a rooted ``request`` takes at least for all roots, one after the other."""
    single = least_time(request, ranks)
    return LeastTime(tuple((name, s if name == "parse" else ranks * s) for name, s in single.phases))


def predicted_unasked(budget: float | None, policy: Policy) -> int:
    """Transfers up to which a schedule is simulated though nobody asked: that takes less than the budget."""
    most = policy.compile.max_predicted_unasked
    return most if budget is None else min(most, int(max(budget, 1.0) / policy.least_time.predict))


def warning(
    request: Request, ranks: int, least: LeastTime, what: str = "", budget: Budget | None = None
) -> str | None:  # fmt: skip
    """What to say before the search where the budget is less than the least time; None where nothing is.

    ``what``: is made of the collective, where that is more than one schedule. ``budget``: by default that of the
    request.
    """
    seconds = (budget or request.budget).seconds
    if seconds is None or least.seconds <= max(seconds, request.policy.compile.least_time_worth_telling):
        return None
    of = f", {what}" if what else ""
    text = (
        f"{ranks} GPUs, {request.collective}{of}: about {least.seconds:.0f} s are needed whatever the budget; "
        f"{seconds:g} s are for the search alone"
    )
    if request.schedule_only or what:
        return text
    bare = least_time(request, ranks, schedule_only=True, budget=budget).seconds
    return f"{text}; --schedule-only needs about {bare:.0f} s"


ROOTED_ALIKE: tuple[CollectiveName, ...] = ("broadcast", "reduce", "gather", "scatter")


def transfers(name: CollectiveName, ranks: int, chunks: int) -> int:
    """Deliveries of the collective, times two where each goes by another rank."""
    if name in ROOTED_ALIKE:
        return (ranks - 1) * chunks
    return ranks * (ranks - 1) * chunks * (2 if name in ("alltoall", "allreduce") else 1)
