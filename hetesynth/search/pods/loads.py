"""What rounds and spreads load, and how long they take at least.

In: gates, the network, the size of a chunk. Out: durations in picoseconds, rounded up: the latency of the slowest
path, then the bytes of the fullest wire or group over its rate, then the addition where values are summed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fractions import Fraction

import numpy as np

from hetesynth.errors import HetesynthError
from hetesynth.machine_code import Ints, rows
from hetesynth.model.collective import Chunk
from hetesynth.model.pods import rate_of
from hetesynth.model.topology import Rank, Topology
from hetesynth.search.chunking import ChunkingOptions, chunk
from hetesynth.search.collectives import collective
from hetesynth.search.copy_problem import NoRoute, grouped
from hetesynth.search.pods.gates import Gates, Network
from hetesynth.search.solve import Solution, Solver


@dataclass(frozen=True, slots=True)
class Spread:
    """A schedule that spreads chunks in a pod. ``steps[s]``: (slot, link) of each transfer; slot i starts at GPU
    ``origins[i]``. ``optimal``: no spread is shorter."""

    origins: tuple[Rank, ...]
    steps: tuple[tuple[tuple[int, int], ...], ...]
    optimal: bool


@dataclass
class Spreads:
    """Spreads by pod type and origins. The first of ``solvers`` decides, but for types in ``sharing``, whose wires
    also lead out of the pod: there the schedule that loads its fullest wire least."""

    types: tuple[Topology, ...]
    options: ChunkingOptions
    solvers: tuple[Solver, ...]
    sharing: frozenset[int]
    solved: dict[tuple[int, tuple[Rank, ...]], Spread] = field(default_factory=dict)

    def spread(self, number: int, origins: Sequence[Rank]) -> Spread:
        """Return the spread of chunks that start at ``origins`` to every GPU of a pod of type ``number``."""
        key = number, tuple(origins)
        if key in self.solved:
            return self.solved[key]
        pod = self.types[number]
        if pod.ranks == 1:
            return self.solved.setdefault(key, Spread(key[1], (), True))
        often, everyone = Counter(origins), frozenset(range(pod.ranks))
        parts = len(origins) // pod.ranks
        goal = collective("allgather", pod.ranks, max(1, parts))
        slot_of: Sequence[int] = range(len(origins))
        if all(often[rank] == parts for rank in range(pod.ranks)):  # every GPU is the origin of equally many
            slot_of = sorted(slot_of, key=origins.__getitem__)
        else:
            goal = replace(
                goal,
                chunks_per_rank=1,
                chunks=tuple(Chunk(i, (rank,), 0) for i, rank in enumerate(origins)),
                pre=tuple(frozenset({rank}) for rank in origins),
                post=(everyone,) * len(origins),
            )
        problem = chunk(pod, self.options).problem(goal)
        solution = self.solvers[0].solve(problem)
        if not isinstance(solution, Solution):
            raise HetesynthError(
                f"pod {pod.name}: {solution.reason}",
                code="HS411",
                help="give more time with --time-budget, or check the links of the pod",
                exit_code=3,
            )
        solutions = [solution]
        for solver in self.solvers[1:] if number in self.sharing else ():
            with suppress(HetesynthError):  # it does not take this problem
                other = solver.solve(problem)
                solutions += [other] if isinstance(other, Solution) else []

        def cost(solution: Solution) -> tuple[Fraction, int]:
            """Return the chunks over rate of the fullest wire in all steps together, and the number of steps."""
            load = Counter(w for t in solution.schedule.transfers for w in pod.links[t.link].wires)
            rates = {w: rate_of(pod.wires[w]) for w in load}
            fullest = max((load[w] / rate for w, rate in rates.items() if rate is not None), default=Fraction(0))
            return fullest, solution.schedule.makespan

        best = min(solutions, key=cost)
        steps = tuple(tuple((slot_of[t.chunk], t.link) for t in ts) for ts in best.schedule.steps())
        return self.solved.setdefault(key, Spread(key[1], steps, best.certificate.proven_optimal))


PICOSECONDS = 10**12


def picoseconds(seconds: Fraction) -> int:
    """Return ``seconds`` in picoseconds, rounded up."""
    return math.ceil(seconds * PICOSECONDS)


class _Paths:
    """Lists of wires one after another, those of list i from ``begin[i]`` on, and the latency of each list."""

    def __init__(self, lists: Sequence[Sequence[int]], latency: Sequence[int]) -> None:
        self.begin, self.wires = rows(lists)
        self.latency: Ints = np.array([sum(latency[w] for w in row) for row in lists], np.int64)

    def load(self, count: Ints, size: int) -> Ints:
        carried = np.bincount(self.wires, weights=np.repeat(count, np.diff(self.begin)), minlength=size)
        return carried.astype(np.int64)


class Crossings:
    """Loads of transfers between gates, which are numbered over all pods one after another."""

    def __init__(self, gates: Gates, chunk_bytes: int, *, adding: bool) -> None:
        cluster = gates.cluster
        self._cluster = cluster
        self._bytes = chunk_bytes
        self._latency = [picoseconds(w.latency) for w in cluster.wires]
        rows_out, rows_in, heads, tails = [], [], [], []
        for p, pod in enumerate(cluster.pods):
            for gate, uplink in zip(gates.kind(p).gates, gates.uplinks[p], strict=True):
                rows_out.append([*(pod.wires[w] for w in gate.out), uplink.out])
                rows_in.append([uplink.into, *(pod.wires[w] for w in gate.into)])
                heads.append(cluster.wires[uplink.out].dst)
                tails.append(cluster.wires[uplink.into].src)
        self._out, self._in = _Paths(rows_out, self._latency), _Paths(rows_in, self._latency)
        self._heads, self._tails = np.array(heads, np.int64), np.array(tails, np.int64)
        self.network = Network(cluster)
        self.paths: dict[tuple[int, int], tuple[int, ...]] = {}
        # the different rates, the wires that have one ordered by it, and where each rate begins
        by_rate = [(rate, numbers) for rate, numbers in grouped(map(rate_of, cluster.wires)).items() if rate]
        self._rates, ordered = [rate for rate, _ in by_rate], [numbers for _, numbers in by_rate]
        self._by_rate = np.array([w for numbers in ordered for w in numbers], np.int64)
        self._begin = np.cumsum([0, *map(len, ordered[:-1])], dtype=np.int64)[: len(ordered)]
        self.after = max((_addition(t, chunk_bytes) for t in cluster.types), default=0) if adding else 0

    def lasting(self, load: Ints, wait: int) -> int:
        """Picoseconds in which all wires carry ``load`` chunks after ``wait``."""
        most = np.maximum.reduceat(load[self._by_rate], self._begin).tolist() if len(self._begin) else []
        seconds = (m * self._bytes / r for m, r in zip(most, self._rates, strict=True))
        return wait + self.after + picoseconds(max(seconds, default=Fraction(0)))

    def load(self, src: Ints, dst: Ints) -> tuple[Ints, int]:
        """Return the chunks that each wire carries from gates ``src`` to gates ``dst``, and the longest latency in
        picoseconds. Raises NoRoute."""
        gates, wires = len(self._heads), len(self._cluster.wires)
        load = self._out.load(np.bincount(src, minlength=gates), wires)
        load += self._in.load(np.bincount(dst, minlength=gates), wires)
        numbers = self._heads[src] * len(self._cluster.vertices) + self._tails[dst]
        pairs, of_pair, often = np.unique(numbers, return_inverse=True, return_counts=True)
        between = []
        for pair, count in zip(pairs.tolist(), often.tolist(), strict=True):
            head, tail = divmod(pair, len(self._cluster.vertices))
            path = self.paths.get((head, tail)) or self.network.path(head, tail)
            if path is None:
                names = self._cluster.vertices[head].name, self._cluster.vertices[tail].name
                raise NoRoute(f"nothing leads from {names[0]} to {names[1]}")
            self.paths[head, tail] = path
            between.append(sum(self._latency[w] for w in path))
            for wire in path:
                load[wire] += count
        waits = self._out.latency[src] + self._in.latency[dst] + np.array(between, np.int64)[of_pair.ravel()]
        return load, int(waits.max(initial=0))


def _addition(pod: Topology, chunk_bytes: int) -> int:
    return max((picoseconds(chunk_bytes / r) for r in pod.reduce_bandwidth if r), default=0)


@dataclass
class Inside:
    """Durations of the steps of spreads, by type and how many chunks each slot has."""

    types: Sequence[Topology]
    chunk_bytes: int
    adding: bool
    _durations: dict[tuple[int, Spread, tuple[int, ...]], tuple[int, ...]] = field(default_factory=dict)

    def durations(self, number: int, spread: Spread, count: tuple[int, ...]) -> tuple[int, ...]:
        """Picoseconds of each step of ``spread`` with ``count[i]`` chunks in slot i."""
        key = number, spread, count
        if key not in self._durations:
            pod, counts, durations = self.types[number], np.array(count, np.int64), []
            for step in spread.steps:
                loads = StepLoads.of(pod, step, len(count))
                carried = zip((counts @ loads.wires).tolist(), map(rate_of, pod.wires), strict=True)
                seconds = [n * self.chunk_bytes / rate for n, rate in carried if rate is not None]
                groups = zip((counts @ loads.groups).tolist(), loads.group_rates, strict=True)
                seconds += [n * self.chunk_bytes / rate for n, rate in groups]
                lasting = int(loads.waits[counts > 0].max(initial=-1))  # -1: nothing is sent
                if lasting >= 0:
                    lasting += picoseconds(max(seconds)) + (_addition(pod, self.chunk_bytes) if self.adding else 0)
                durations.append(max(0, lasting))
            self._durations[key] = tuple(durations)
        return self._durations[key]


@dataclass(frozen=True)
class StepLoads:
    """The load of one step of a spread on wires and stated groups of a pod, for one chunk in each slot."""

    wires: Ints
    groups: Ints
    group_rates: tuple[Fraction, ...]
    waits: Ints  # of the slowest link of each slot, -1 where it has none

    @classmethod
    def of(cls, pod: Topology, step: Sequence[tuple[int, int]], slots: int) -> StepLoads:
        """The loads of ``step``."""
        wires = np.zeros((slots, len(pod.wires)), np.int64)
        groups = np.zeros((slots, len(pod.groups)), np.int64)
        waits = np.full(slots, -1, np.int64)
        for slot, link in step:
            wires[slot, list(pod.links[link].wires)] += 1
            wait = sum(picoseconds(pod.wires[w].latency) for w in pod.links[link].wires)
            waits[slot] = max(waits[slot], wait)
            for g, group in enumerate(pod.groups):
                groups[slot, g] += link in group.links
        rates = tuple(group.bandwidth * group.lanes for group in pod.groups)
        return cls(wires, groups, rates, waits)
