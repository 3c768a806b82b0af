"""A copying problem as arrays: what every strategy for copying collectives reads.

In: a problem whose collective copies (each chunk starts at one rank or more, values are never summed). Out:
incidence of arcs and resources, and hop distances.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from hetesynth.machine_code import Bools, Floats, Ints, rows
from hetesynth.model.problem import Problem, Resource
from hetesynth.model.schedule import Schedule, Transfer

Key = TypeVar("Key")
Routes = Sequence[Sequence[int]]
"""The arcs that each chunk takes."""


class NoRoute(Exception):
    """The graph lacks what a way of routing needs; the message says what in words."""


class Load:
    """The load of every resource so far, in chunks; for choosing the arc that is loaded least."""

    def __init__(self, tables: CopyProblem) -> None:
        self.tables = tables
        self.carried = [0] * len(tables.resources)

    def after(self, arc: int) -> float:
        """Return the steps of work on the busiest resource of ``arc`` if one more chunk took it."""
        resources = self.tables.resources
        return max((self.carried[r] + 1) / resources[r].capacity for r in self.tables.resources_of[arc])

    def take(self, arc: int) -> None:
        """Add a chunk to the load of ``arc``."""
        for r in self.tables.resources_of[arc]:
            self.carried[r] += 1


def grouped(keys: Iterable[Key]) -> dict[Key, list[int]]:
    """Return the places of each key, by first appearance."""
    places: dict[Key, list[int]] = {}
    for place, key in enumerate(keys):
        places.setdefault(key, []).append(place)
    return places


def transposed(rows: Iterable[Iterable[int]], columns: int) -> list[list[int]]:
    """Return for each column the rows that have it."""
    table: list[list[int]] = [[] for _ in range(columns)]
    for row, used in enumerate(rows):
        for column in used:
            table[column].append(row)
    return table


def arcs_between(tables: CopyProblem) -> Mapping[tuple[int, int], list[int]]:
    """The arcs that join each pair of ranks."""
    return grouped((arc.src, arc.dst) for arc in tables.problem.arcs)


@dataclass(frozen=True)
class CopyProblem:
    """Incidence tables of a copying problem. ``usable``: arcs that ``into`` and ``out_of`` list (None: all)."""

    problem: Problem
    usable: frozenset[int] | None = None

    @cached_property
    def arcs(self) -> list[int]:
        """The usable arcs in order."""
        return list(range(len(self.problem.arcs))) if self.usable is None else sorted(self.usable)

    @cached_property
    def resources(self) -> tuple[Resource, ...]:
        """The resources that can limit a schedule: all but those that another one implies."""
        return self.problem.binding_resources

    @cached_property
    def resources_of(self) -> list[list[int]]:
        """For each arc, the indices of the resources it draws from."""
        return transposed((resource.arcs for resource in self.resources), len(self.problem.arcs))

    def use_matrix(self, arcs: Sequence[int]) -> Any:
        """Return a matrix, resources x ``arcs`` (which may repeat): 1 where the arc draws from the resource."""
        from scipy.sparse import csc_matrix

        start, used = rows([self.resources_of[a] for a in arcs])
        columns = np.repeat(np.arange(len(arcs)), np.diff(start))
        return csc_matrix((np.ones(len(used)), (used, columns)), shape=(len(self.resources), len(arcs)))

    @cached_property
    def ends(self) -> tuple[Ints, Ints]:
        """The senders and the receivers of all arcs."""
        pairs = [(arc.src, arc.dst) for arc in self.problem.arcs]
        src, dst = np.array(pairs, dtype=np.int64).reshape(-1, 2).T.copy()
        return src, dst

    @cached_property
    def uses(self) -> tuple[Ints, Ints]:
        """The arcs and the resources that they draw from, a pair for each use, arc after arc."""
        start, flat = rows(self.resources_of)
        return np.repeat(np.arange(len(start) - 1), np.diff(start)), flat

    def arc_prices(self, prices: Floats) -> Floats:
        """Return for each arc the sum of the prices of its resources."""
        arc, resource = self.uses
        return np.bincount(arc, prices[resource], len(self.problem.arcs)).astype(np.float64)

    @cached_property
    def into(self) -> list[list[int]]:
        """For each rank, the usable arcs that end there."""
        return self._at([arc.dst for arc in self.problem.arcs])

    @cached_property
    def out_of(self) -> list[list[int]]:
        """For each rank, the usable arcs that start there."""
        return self._at([arc.src for arc in self.problem.arcs])

    def _at(self, ranks: Sequence[int]) -> list[list[int]]:
        table: list[list[int]] = [[] for _ in range(self.problem.ranks)]
        for a in self.arcs:
            table[ranks[a]].append(a)
        return table

    @cached_property
    def hops(self) -> list[list[int]]:
        """``hops[u][v]``: links on the shortest path from u to v; as many as ranks where there is none."""
        unreachable = self.problem.ranks
        table = [[unreachable] * self.problem.ranks for _ in range(self.problem.ranks)]
        for start, hops in enumerate(table):
            hops[start] = 0
            queue = [start]
            for at in queue:
                for a in self.out_of[at]:
                    to = self.problem.arcs[a].dst
                    if hops[to] == unreachable:
                        hops[to] = hops[at] + 1
                        queue.append(to)
        return table


def start_arrays(problem: Problem) -> tuple[Bools, Bools]:
    """Return which ranks hold, and which lack, each chunk at the start, chunks x ranks each."""
    collective = problem.collective
    holds = np.zeros((len(collective.chunks), problem.ranks), dtype=np.bool_)
    lacks = np.zeros_like(holds)
    for k, (pre, post) in enumerate(collective.ends):
        holds[k, sorted(pre)] = True
        lacks[k, sorted(post - pre)] = True
    return holds, lacks


def cheapest_links(ranks: int, src: Ints, dst: Ints, costs: Floats) -> tuple[Floats, Ints]:
    """Return the cost of the cheapest link, ranks x ranks (infinite: none), and its place in ``costs`` (or -1)."""
    dear_first = np.argsort(-costs, kind="stable")  # the last to be written stays
    least = np.full((ranks, ranks), np.inf)
    link = np.full((ranks, ranks), -1, dtype=np.int64)
    least[src[dear_first], dst[dear_first]] = costs[dear_first]
    link[src[dear_first], dst[dear_first]] = dear_first
    return least, link


def reachable(ranks: int, pairs: Iterable[tuple[int, int]]) -> Bools:
    """Ranks x ranks: True where a path over ``pairs`` leads from one to the other, or they are the same."""
    reached: Bools = np.eye(ranks, dtype=np.bool_)
    for u, v in pairs:
        reached[u, v] = True
    for _ in range(ranks.bit_length()):
        reached = (reached.astype(np.float32) @ reached.astype(np.float32)) > 0
    return reached


def distances(ranks: int, src: Ints, dst: Ints, costs: Floats) -> Floats:
    """Return the cost of the cheapest path, ranks x ranks (Floyd 1962)."""
    least, _ = cheapest_links(ranks, src, dst, costs)
    np.fill_diagonal(least, 0.0)
    for via in range(ranks):
        np.minimum(least, least[:, via, None] + least[None, via, :], out=least)
    return least


def of_chunks(problem: Problem, chunks: Sequence[int]) -> Problem:
    """The problem of ``chunks`` alone, which are numbered anew."""
    whole = problem.collective
    part = replace(
        whole,
        chunks=tuple(replace(whole.chunks[k], index=i) for i, k in enumerate(chunks)),
        pre=tuple(whole.pre[k] for k in chunks),
        post=tuple(whole.post[k] for k in chunks),
    )
    return replace(problem, collective=part)


def without_useless(problem: Problem, transfers: Iterable[Transfer], makespan: int) -> Schedule:
    """The schedule without deliveries that nobody wants: not to a target, and never forwarded."""
    kept: list[Transfer] = []
    useful = {(k, rank) for k, targets in enumerate(problem.collective.post) for rank in targets}
    for transfer in sorted(transfers, key=lambda t: t.start, reverse=True):
        arc = problem.arcs[transfer.link]
        if (transfer.chunk, arc.dst) in useful:
            useful.add((transfer.chunk, arc.src))
            kept.append(transfer)
    return Schedule.of(kept, makespan)
