"""Earliest arrival first, in seconds: routes for a given chunk size, from the fewest hops to the least load.

In: a copying problem, seconds of latency per arc, seconds a chunk keeps each resource busy. Out: routes with start
times, and a schedule of the step model with these routes. A delivery is chosen by when it would arrive, the sooner
the farther it leads, plus a price for the resources it uses; without prices chunks take the quickest way (small
buffers), with prices they cross scarce resources once and spread (large buffers). Prices are negotiated over
rounds: what was busiest becomes dearer.

Sources: TACOS (MICRO 2024), matching over time; PathFinder's negotiated congestion. A transfer keeps a resource
busy for the chunk's bytes at the resource's own rate, so that a wide port serves several slow flows at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from hetesynth.machine_code import most_interpreted
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.policy import DEFAULT
from hetesynth.policy.machine_code import MachineCodePolicy
from hetesynth.synthesis.copy_problem import CopyProblem, without_useless
from hetesynth.synthesis.peers import stranded, within_peers
from hetesynth.synthesis.search import Search
from hetesynth.synthesis.strategy import Strategy
from hetesynth.synthesis.timed.earliest_arrival_kernel import (
    Floats,
    Ints,
    compiled,
    run_round,
)

ROUNDS = 4
GROWTH = 0.5  # how much dearer the busiest resource becomes in a round


@dataclass(frozen=True, slots=True)
class LinkTimes:
    """Seconds: ``alpha[a]`` of arc a before its bytes flow, ``busy[r]`` that a chunk takes of resource r alone."""

    alpha: Sequence[float]
    busy: Sequence[float]


@dataclass(frozen=True, slots=True)
class TimedRoutes:
    """When chunk k begins to cross arc a, ``start[k, a]``, seconds of work per resource, and when all is there, in
    the greedy's own reckoning."""

    start: dict[tuple[int, int], float]
    load: list[float]
    seconds: float


def seats(tables: CopyProblem, clock: LinkTimes) -> list[int]:
    """For each resource how many of its slowest transfers it serves at full speed; those of one step share it."""
    stays = [max((clock.busy[r] for r in used), default=0.0) for used in tables.resources_of]
    longest = [max(stays[a] for a in resource.arcs) for resource in tables.resources]
    return [max(1, int(stay / b + 1e-9)) if b > 0 else 1 for stay, b in zip(longest, clock.busy, strict=True)]


def schedule_of(tables: CopyProblem, timed: TimedRoutes, most: Sequence[int] | None = None) -> Schedule:
    """The routes in the step model: every resource serves its transfers in the order of their start times, at most
    ``most`` in a step."""
    problem = tables.problem
    at = [0] * len(tables.resources)  # the step that a resource is filling
    full = [r.capacity for r in tables.resources]
    if most is not None:
        full = [min(capacity, number) for capacity, number in zip(full, most, strict=True)]
    room = list(full)
    held = {(k, rank): 0 for k, pre in enumerate(problem.collective.pre) for rank in pre}
    sent: dict[tuple[int, int], int] = {}
    transfers = []
    for _, k, a in sorted((begins, k, a) for (k, a), begins in timed.start.items()):
        arc, used = problem.arcs[a], tables.resources_of[a]
        step = max([held[k, arc.src], *(at[r] + (room[r] == 0) for r in used)])
        if problem.exclusive_reduction:
            step = max(step, sent.get((k, arc.src), -1) + 1)
        for r in used:
            room[r] = (room[r] if at[r] == step else full[r]) - 1
            at[r] = step
        held[k, arc.dst], sent[k, arc.src] = step + 1, step
        transfers.append(Transfer(step, step + 1, k, a))
    return without_useless(problem, transfers, max((t.end for t in transfers), default=0))


def rounds(
    tables: CopyProblem, clock: LinkTimes, weight: float, number: int, ended: Callable[[], bool]
) -> list[TimedRoutes]:
    """Up to ``number`` rounds with prices of ``weight`` times the seconds a resource is kept busy."""
    scarcity = [1.0] * len(tables.resources)
    found: list[TimedRoutes] = []
    while len(found) < number and not (found and ended()):
        price = [weight * s * b for s, b in zip(scarcity, clock.busy, strict=True)]
        timed = earliest_arrival(tables, clock, price)
        found.append(timed)
        most = max(timed.load, default=0.0) or 1.0
        scarcity = [s * (1 + GROWTH * (used / most) ** 2) for s, used in zip(scarcity, timed.load, strict=True)]
        least = min(scarcity, default=1.0)
        scarcity = [s / least for s in scarcity]
    return found


def earliest_arrival(
    tables: CopyProblem,
    clock: LinkTimes,
    price: Sequence[float],
    policy: MachineCodePolicy = DEFAULT.machine_code,
) -> TimedRoutes:
    """One round: always the delivery with the least arrival time plus price of its resources."""
    problem, collective = tables.problem, tables.problem.collective
    arcs = problem.arcs
    cost = [sum(price[r] for r in used) for used in tables.resources_of]
    flow = [
        alpha + max((clock.busy[r] for r in used), default=0.0)
        for alpha, used in zip(clock.alpha, tables.resources_of, strict=True)
    ]
    held = np.full((len(collective.chunks), problem.ranks), np.inf)
    wanted = np.zeros(held.shape, dtype=bool)
    for k, (pre, post) in enumerate(zip(collective.pre, collective.post, strict=True)):
        held[k, sorted(pre)] = 0.0
        wanted[k, sorted(post - pre)] = True
    most = len(collective.chunks) * problem.ranks
    chunks, ways, begins = np.zeros(most, np.int64), np.zeros(most, np.int64), np.zeros(most)
    load = np.zeros(len(tables.resources))
    large = len(collective.chunks) * len(arcs) > most_interpreted(run_round, policy.earliest_arrival)
    kernel = compiled() if large else run_round
    count, seconds = kernel(
        np.array([arc.dst for arc in arcs]), np.array([arc.src for arc in arcs]),
        *rows(tables.out_of), *rows(tables.resources_of),
        np.array(cost), np.array(flow), np.array(clock.busy), _distances(tables, flow), held, wanted,
        chunks, ways, begins, load,
    )  # fmt: skip
    chosen = zip(chunks[:count].tolist(), ways[:count].tolist(), begins[:count].tolist(), strict=True)
    return TimedRoutes({(k, a): start for k, a, start in chosen}, load.tolist(), float(seconds))


def rows(table: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """A table for a kernel: where each row begins, one more for the end, and the rows one after the other."""
    start = np.concatenate(([0], np.cumsum([len(row) for row in table]))).astype(np.int64)
    return start, np.array([value for row in table for value in row], dtype=np.int64)


def _distances(tables: CopyProblem, flow: Sequence[float]) -> Floats:
    """Seconds from every rank to every other along the quickest arcs, nothing else under way."""
    n = tables.problem.ranks
    distance = np.full((n, n), np.inf)
    np.fill_diagonal(distance, 0.0)
    for a in tables.arcs:
        arc = tables.problem.arcs[a]
        distance[arc.src, arc.dst] = min(distance[arc.src, arc.dst], flow[a])
    for via in range(n):
        np.minimum(distance, distance[:, via, None] + distance[None, via, :], out=distance)
    return distance


@dataclass(frozen=True, slots=True)
class Rates:
    """What arcs cost: ``alpha[a]`` seconds, ``resources[a]`` the physical resources behind arc a, ``rate`` theirs
    in bytes per second, and the bytes of a chunk."""

    alpha: Sequence[float]
    resources: Sequence[Sequence[int]]
    rate: Sequence[float]
    chunk_bytes: float

    def link_times(self, tables: CopyProblem) -> LinkTimes:
        """The seconds of a problem on these links: a law is as fast as the slowest resource all its arcs use."""
        busy = []
        for resource in tables.resources:
            common = set(self.resources[resource.arcs[0]]).intersection(
                *(self.resources[a] for a in resource.arcs)
            )
            slowest = min((self.rate[r] for r in common), default=float("inf"))
            busy.append(self.chunk_bytes / slowest)
        return LinkTimes(self.alpha, busy)


def timed_strategy(rates: Rates, weight: float) -> Strategy:
    """A strategy that offers the quickest of a few rounds, in its own reckoning."""

    def improve(search: Search) -> None:
        tables = within_peers(search.problem)
        if tables is None:
            return
        found = rounds(tables, rates.link_times(tables), weight, ROUNDS if weight else 1, search.out_of_time)
        best = min(found, key=lambda timed: timed.seconds)
        search.offer(schedule_of(tables, best), "timed")

    return Strategy("timed", improve, stranded)
