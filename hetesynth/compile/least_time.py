"""The least time that a command takes whatever its budget: a cost model of the phases that cannot be left out.

In: what is asked for and the number of ranks. Out: seconds by phase. The budget is for the search; before it the
problem and its bound have to be there, with it comes at least one schedule, and after it stand the judges and the
programs. Each of these grows with the transfers, of which there are about as many as there are deliveries.
``PRICES`` holds all figures: seconds on one core of an AMD EPYC (2 cores, otherwise idle), fitted to the phases of
alltoall on 128 and 256 GPUs in servers of 8 H20, and of allreduce and reduce-scatter on 64 and 128. Expect a
factor of 1.5 either way on such clusters. It may be several times as much where other work shares the cores, where
links share many groups, where programs fit the target only after many drafts (few NICs, servers of different
sizes), and with a size, for which several ways may be tried.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hetesynth.model.collective import REDUCING, CollectiveName

if TYPE_CHECKING:
    from hetesynth.compile.request import Request

if TYPE_CHECKING:
    from hetesynth.compile.request import Request

WORTH_TELLING = 3.0  # seconds; less than that nobody waits for


@dataclass(frozen=True, slots=True)
class Prices:
    """Seconds for each unit of work.

    ``start``: imports and parsing. ``problem``: capacities and bound, for each pair of ranks. ``schedule``: one
    greedy round, for each transfer and 100 ranks. ``replay``: the judge of schedules, for each transfer.
    ``lower``, ``judge``: one program, for each transfer. ``predict``: one simulation of the schedule, for each
    transfer. ``adding``: times as much for the programs of collectives that add. ``composed``: times as much for
    the bound of allreduce, which is that of three problems.
    """

    start: float = 0.7
    problem: float = 8.0e-5
    schedule: float = 3.0e-5
    replay: float = 1.0e-5
    lower: float = 6.1e-5
    judge: float = 5.8e-5
    predict: float = 1.9e-4
    adding: float = 2.0
    composed: float = 2.5


PRICES = Prices()


@dataclass(frozen=True, slots=True)
class LeastTime:
    """Seconds by phase, named as in the report of what was spent."""

    phases: tuple[tuple[str, float], ...]

    @property
    def seconds(self) -> float:
        """All phases together."""
        return sum(seconds for _, seconds in self.phases)


def least_time(request: Request, ranks: int, prices: Prices = PRICES) -> LeastTime:
    """What ``request`` takes at least on a cluster of ``ranks`` GPUs."""
    from hetesynth.compile.formats import variants

    number = transfers(request.collective, ranks, request.chunks)
    programs = 0.0 if request.schedule_only else float(len([*variants(request.targets, request.collective)]))
    programs *= prices.adding if request.collective in REDUCING else 1.0
    problems = prices.composed if request.collective == "allreduce" else 1.0
    simulated = request.size is not None or number <= told_unasked(request.budget.seconds, prices)
    return LeastTime((
        ("parse", prices.start),
        ("bound", prices.problem * problems * ranks**2),
        ("search", prices.schedule * number * ranks / 100),
        ("predict", prices.predict * number * simulated),
        ("verify", (prices.replay + prices.judge * programs) * number),
        ("lower", prices.lower * programs * number),
    ))  # fmt: skip


def of_all_roots(request: Request, ranks: int, prices: Prices = PRICES) -> LeastTime:
    """What a rooted ``request`` takes at least for all roots, one after the other."""
    one = least_time(request, ranks, prices)
    return LeastTime(tuple((name, s if name == "parse" else ranks * s) for name, s in one.phases))


def told_unasked(budget: float | None, prices: Prices = PRICES) -> int:
    """Transfers up to which a schedule is simulated though nobody asked: that takes less than the budget."""
    from hetesynth.compile.time_optimality import MAX_TRANSFERS

    return MAX_TRANSFERS if budget is None else min(MAX_TRANSFERS, int(max(budget, 1.0) / prices.predict))


def warning(request: Request, ranks: int, least: LeastTime, what: str = "") -> str | None:
    """What to say before the search where the budget is less than the least time; None where nothing is.

    ``what``: is made of the collective, where that is more than one schedule.
    """
    budget = request.budget.seconds
    if budget is None or least.seconds <= max(budget, WORTH_TELLING):
        return None
    of = f", {what}" if what else ""
    said = (
        f"{ranks} GPUs, {request.collective}{of}: about {least.seconds:.0f} s are needed whatever the budget; "
        f"{budget:g} s are for the search alone"
    )
    if request.schedule_only or what:
        return said
    bare = least_time(replace(request, schedule_only=True), ranks).seconds
    return f"{said}; --schedule-only needs about {bare:.0f} s"


ROOTED_ALIKE: tuple[CollectiveName, ...] = ("broadcast", "reduce", "gather", "scatter")


def transfers(name: CollectiveName, ranks: int, chunks: int) -> int:
    """Deliveries of the collective, times two where each goes by another rank."""
    if name in ROOTED_ALIKE:
        return (ranks - 1) * chunks
    return ranks * (ranks - 1) * chunks * (2 if name in ("alltoall", "allreduce") else 1)
