"""Earliest arrival first, in seconds: routes for a given chunk size, from the fewest hops to the least load.

A delivery is chosen by when it would arrive, the sooner the farther it leads, plus a price for the resources it
uses; without prices chunks take the quickest path (small buffers), with prices they cross scarce resources once
and spread (large buffers). Prices are negotiated over rounds: what was busiest becomes dearer. Sources: TACOS
(MICRO 2024), matching over time; PathFinder's negotiated congestion. A transfer keeps a resource busy for the
chunk's bytes at the resource's own rate, so that a wide port serves several slow flows at once.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np

from hetesynth.machine_code import rows, run_kernel
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.search.copy_problem import CopyProblem, distances, start_arrays, without_useless
from hetesynth.search.peers import stranded, within_peers
from hetesynth.search.portable_math import added, dearer
from hetesynth.search.search import Accepts, Search, Strategy
from hetesynth.search.timed.kernels import Arrival, Network, Round, run_round


@dataclass(frozen=True, slots=True)
class LinkTimes:
    """Seconds: ``alpha[a]`` of arc a before its bytes flow, ``busy[r]`` that a chunk takes of resource r alone."""

    alpha: Sequence[float]
    busy: Sequence[float]

    def bandwidth_seconds(self, tables: CopyProblem) -> list[float]:
        """Return for each arc the seconds from the first byte of a chunk to the last."""
        return [max((self.busy[r] for r in used), default=0.0) for used in tables.resources_of]

    def transfer_seconds(self, tables: CopyProblem) -> list[float]:
        """Return for each arc the seconds that a transfer of a chunk takes alone, alpha included."""
        return [alpha + s for alpha, s in zip(self.alpha, self.bandwidth_seconds(tables), strict=True)]


@dataclass(frozen=True, slots=True)
class TimedRoutes:
    """The time ``start[k, a]`` when chunk k begins to cross arc a, the seconds of work ``load`` of each resource,
    and the time ``seconds`` when all has arrived. ``lasting``: for each arc the seconds in which other transfers
    may share a step on its resources; later ones take a later step. Empty: a step takes as many as fit."""

    start: dict[tuple[int, int], float]
    load: list[float]
    seconds: float
    lasting: Sequence[float] = ()

    @property
    def busiest(self) -> float:
        """The seconds of work of the busiest resource."""
        return max(self.load, default=0.0)


Rounds = Callable[[Search, CopyProblem, LinkTimes], Iterator[TimedRoutes]]


def full_speed_transfers(tables: CopyProblem, link_times: LinkTimes) -> list[int]:
    """Return for each resource how many of its slowest transfers one step can take at full speed."""
    seconds = link_times.bandwidth_seconds(tables)
    longest = [max(seconds[a] for a in resource.arcs) for resource in tables.resources]
    return [
        max(1, int(slowest / b + 1e-9)) if b > 0 else 1
        for slowest, b in zip(longest, link_times.busy, strict=True)
    ]


def schedule_of(tables: CopyProblem, timed: TimedRoutes, most: Sequence[int] | None = None) -> Schedule:
    """Return ``timed`` in steps: resources serve transfers in order of start, at most ``most[r]`` in a step."""
    problem = tables.problem
    current = [0] * len(tables.resources)  # the step that a resource is filling
    full = [r.capacity for r in tables.resources]
    if most is not None:
        full = [min(capacity, number) for capacity, number in zip(full, most, strict=True)]
    room = list(full)
    ended = [inf] * len(full)  # when the first transfer of that step is over
    arrival = {(k, rank): 0 for k, pre in enumerate(problem.collective.pre) for rank in pre}
    sent: dict[tuple[int, int], int] = {}
    transfers = []
    for begins, k, a in sorted((begins, k, a) for (k, a), begins in timed.start.items()):
        arc, used = problem.arcs[a], tables.resources_of[a]
        step = max([arrival[k, arc.src], *(current[r] + (room[r] == 0 or begins >= ended[r]) for r in used)])
        if problem.exclusive_reduction:
            step = max(step, sent.get((k, arc.src), -1) + 1)
        for r in used:
            if current[r] != step:
                current[r], room[r], ended[r] = step, full[r], inf
            room[r] -= 1
            ended[r] = min(ended[r], begins + timed.lasting[a]) if timed.lasting else inf
        arrival[k, arc.dst], sent[k, arc.src] = step + 1, step
        transfers.append(Transfer(step, step + 1, k, a))
    return without_useless(problem, transfers, max((t.end for t in transfers), default=0))


def earliest_arrival(tables: CopyProblem, link_times: LinkTimes, price: Sequence[float]) -> TimedRoutes:
    """Return the routes of one round, which always takes the delivery with the least arrival time plus price."""
    arcs, n = tables.problem.arcs, tables.problem.ranks
    network = network_of(tables, link_times)
    # seconds from every rank to every other along the quickest arcs, on idle links
    usable = np.array(tables.arcs, dtype=np.int64)
    distance = distances(n, network.arc_src[usable], network.arc_dst[usable], network.flow[usable])
    cost = np.array([added(price[r] for r in used) for used in tables.resources_of], dtype=np.float64)
    starts, lacks = start_arrays(tables.problem)
    chunks, resources = len(starts), len(tables.resources)
    progress = Round(
        holds=np.where(starts, 0.0, np.inf).ravel(),
        lacks=lacks.ravel(),
        nearest=np.zeros(starts.size),
        lacking=np.zeros(chunks, dtype=np.int64),
        free=np.zeros(resources),
        left=np.zeros(resources),
        chunks=np.zeros(starts.size, dtype=np.int64),
        arcs=np.zeros(starts.size, dtype=np.int64),
        begins=np.zeros(starts.size),
    )
    arrival = Arrival(cost, distance.ravel())
    count, seconds = run_kernel(run_round, network, arrival, progress, seconds=1.5e-5 * chunks * len(arcs))
    transfers = zip(progress.chunks[:count].tolist(), progress.arcs[:count].tolist(), strict=True)
    start = dict(zip(transfers, progress.begins[:count].tolist(), strict=True))
    return TimedRoutes(start, (0.0 - progress.left).tolist(), float(seconds))


def network_of(tables: CopyProblem, link_times: LinkTimes) -> Network:
    """Return the arcs and resources of ``tables`` with their seconds as arrays for a kernel."""
    return Network(
        *tables.ends,
        *rows(tables.out_of),
        *rows(tables.resources_of),
        np.array(link_times.transfer_seconds(tables)),
        np.array(link_times.busy),
    )


@dataclass(frozen=True, slots=True)
class Rates:
    """The cost of arcs: ``alpha[a]`` in seconds, ``resources[a]`` the physical resources behind arc a, ``rate[r]``
    of a resource in bytes per second, and the bytes of a chunk. ``servers``: the server of each rank, if known."""

    alpha: Sequence[float]
    resources: Sequence[Sequence[int]]
    rate: Sequence[float]
    chunk_bytes: float
    servers: Sequence[str] = ()

    def link_times(self, tables: CopyProblem) -> LinkTimes:
        """Return the seconds of ``tables``: a law is as fast as the slowest resource that all its arcs use."""
        busy = []
        for resource in tables.resources:
            common = set(self.resources[resource.arcs[0]]).intersection(
                *(self.resources[a] for a in resource.arcs)
            )
            slowest = min((self.rate[r] for r in common), default=float("inf"))
            busy.append(self.chunk_bytes / slowest)
        return LinkTimes(self.alpha, busy)


def quickest(
    name: str, rates: Rates, rounds: Rounds, refuses: Accepts = stranded, *, full_speed: bool = False
) -> Strategy:
    """Return a strategy that offers the routes of ``rounds`` with the fewest predicted seconds. ``full_speed``: if
    no two links share anything, transfers that would slow each other are in different steps."""

    def improve(search: Search) -> None:
        tables = within_peers(search.problem)
        if tables is not None:
            link_times = rates.link_times(tables)
            best = min(rounds(search, tables, link_times), key=lambda timed: timed.seconds, default=None)
            apart = full_speed and all(len(resource.arcs) == 1 for resource in tables.resources)
            if best is not None:
                most = full_speed_transfers(tables, link_times) if apart else None
                search.offer(schedule_of(tables, best, most), name)

    return Strategy(name, improve, refuses)


def timed_strategy(rates: Rates, weight: float) -> Strategy:
    """Return the quickest of four rounds priced at ``weight`` times seconds of work; 0: one round, no prices."""

    def rounds(search: Search, tables: CopyProblem, link_times: LinkTimes) -> Iterator[TimedRoutes]:
        scarcity = [1.0] * len(tables.resources)
        for number in range(4 if weight else 1):
            if number and search.out_of_time():
                return
            price = [weight * s * b for s, b in zip(scarcity, link_times.busy, strict=True)]
            timed = earliest_arrival(tables, link_times, price)
            yield timed
            # what each resource costs in the next round
            shares = [seconds / (timed.busiest or 1.0) for seconds in timed.load]
            raised = [dearer(s, share, 0.5, 2) for s, share in zip(scarcity, shares, strict=True)]
            least = min(raised, default=1.0)
            scarcity = [s / least for s in raised]

    return quickest("timed", rates, rounds)
