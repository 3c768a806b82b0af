"""One step of a schedule as a model: what enters the regions that are short of time.

In: who holds what at the start of the step, the regions and how much they may lack at its end. Out: sends that
keep every capacity and leave each region enough time, or that there are none, or neither. A chunk enters a region
over one link at most. What else the step carries is filled in greedily afterwards, so it is no part of the model.

The model is shown to a linear program first. Where that has no answer there is none; else Z3 is told the sends
that it uses, and all of them where those do not suffice.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass

import numpy as np

from hetesynth.search.copy_problem import CopyProblem
from hetesynth.search.smt.clauses import Clauses
from hetesynth.search.smt.refill import Peers, Send
from hetesynth.search.smt.relaxation import Row, cheapest
from hetesynth.search.smt.suffix_laws import Bools, SuffixLaws


@dataclass(frozen=True, slots=True)
class Sample:
    """Which sends are looked at: of each region the rarest chunks, ``steps`` times what can enter it, and for each
    chunk and receiver so many of the senders. None: all."""

    steps: int | None = None
    most_senders: int | None = None

    def chunks(self, capacity: int) -> int | None:
        """How many chunks of a region."""
        return None if self.steps is None else self.steps * capacity

    def senders(self, routes: Sequence[int], first: int) -> Sequence[int]:
        """Those of ``routes`` that are looked at, spread over them."""
        if self.most_senders is None or len(routes) <= self.most_senders:
            return routes
        turned = [*routes[first % len(routes) :], *routes[: first % len(routes)]]
        return turned[:: -(-len(turned) // self.most_senders)]


class StepChoice:
    """The model of a step after which ``rest`` steps remain. ``regions``: those whose chunks may enter."""

    def __init__(
        self,
        tables: CopyProblem,
        laws: SuffixLaws,
        holds: Bools,
        rest: int,
        regions: Set[int],
        peers: Peers,
        sample: Sample,
    ) -> None:
        self.tables = tables
        self.sends: list[Send] = []
        self.rows: list[Row] = []
        self._numbers: dict[Send, int] = {}
        self._rarity: list[float] = holds.mean(axis=1).tolist()
        lacking = laws.lacking(holds)
        for i in sorted(regions):
            # what may enter region i
            arcs = self.tables.problem.arcs
            region = laws.regions[i]
            chunks = sorted(np.flatnonzero(lacking[:, i]).tolist(), key=lambda k: (self._rarity[k], k))
            into: dict[int, list[int]] = defaultdict(list)
            for a in region.entering:
                if peers.may(a):
                    into[arcs[a].dst].append(a)
            for k in chunks[: sample.chunks(region.capacity)]:
                for rank, entering in into.items():
                    routes = [a for a in entering if holds[k, arcs[a].src]]
                    for a in sample.senders(routes, k + rank):
                        if (k, a) not in self._numbers:
                            self._numbers[k, a] = len(self.sends)
                            self.sends.append((k, a))
        uses, resources = self.tables.resources_of, self.tables.resources
        limits = {r: resource.capacity for r, resource in enumerate(resources)}
        self._at_most_by(lambda send: uses[send[1]], lambda r: limits[r])  # type: ignore[index]
        self._nothing_arrives_twice()
        for i in sorted(regions):
            self._enough_enters(laws, i, lacking, rest)

    def _at_most_by(self, key: Callable[[Send], Sequence[object]], limit: Callable[[object], int]) -> None:
        """Of the sends with the same key at most so many."""
        alike: dict[object, list[int]] = defaultdict(list)
        for number, send in enumerate(self.sends):
            for one in key(send):
                alike[one].append(number)
        for one, numbers in alike.items():
            if len(numbers) > limit(one):
                self.rows.append(Row(tuple(numbers), most=limit(one)))

    def _nothing_arrives_twice(self) -> None:
        """Eq. 6; with exclusive reductions a rank sends a chunk to one peer (eq. 8)."""
        arcs = self.tables.problem.arcs
        self._at_most_by(lambda send: [(send[0], arcs[send[1]].dst)], lambda _: 1)
        if self.tables.problem.exclusive_reduction:
            self._at_most_by(lambda send: [(send[0], arcs[send[1]].src)], lambda _: 1)

    def _enough_enters(self, laws: SuffixLaws, i: int, lacking: Bools, rest: int) -> None:
        """Region ``i`` lacks no more at the end of the step than can enter it later."""
        region = laws.regions[i]
        needed = int(lacking[:, i].sum()) - region.limit(rest)
        if needed <= 0:
            return
        entering = set(region.entering)
        entries: dict[int, list[int]] = defaultdict(list)
        for number, (k, a) in enumerate(self.sends):
            if a in entering and lacking[k, i]:
                entries[k].append(number)
        self.rows += [Row(tuple(numbers), most=1) for numbers in entries.values() if len(numbers) > 1]
        self.rows.append(Row(tuple(n for numbers in entries.values() for n in numbers), least=needed))

    def likely(self, most_nodes: int = 0) -> tuple[list[int], list[int]] | None:
        """The sends that a linear program uses, the rarest chunks first, and of these the whole ones; None: there
        is no answer. ``most_nodes``: of a branch and bound that leaves whole ones only, and may give up."""
        if any(row.least is not None and row.least > len(row.variables) for row in self.rows):
            return None
        costs = [self._rarity[k] - 2.0 for k, _ in self.sends]
        return cheapest(len(self.sends), self.rows, costs, most_nodes=most_nodes)

    def clauses(self, among: Sequence[int], stop: threading.Event | None) -> tuple[Clauses, dict[int, int]]:
        """The model of the sends ``among`` for Z3, and the variable of each."""
        clauses = Clauses(stop)
        variables = {n: clauses.variable("send_{}_{}".format(*self.sends[n])) for n in among}
        for row in self.rows:
            stated = [variables[n] for n in row.variables if n in variables]
            if row.most is not None and len(stated) > row.most:
                clauses.at_most(stated, row.most)
            if row.least is not None:
                clauses.at_least(stated, row.least)
        return clauses, variables
