"""The model of a neighbourhood for Z3: its free deliveries, and one literal for each frozen one that meets them.

In: where deliveries are frozen, which are free, a number of steps. Out: a schedule that keeps every law it was
told, or the frozen deliveries that make it impossible. Free deliveries have the Send and Has variables of the step
model (HeteCCL eq. 2, 3); a frozen one, while its literal is assumed, uses capacity (eq. 4, 5), and its sender must
hold the chunk in time. Capacity, exclusion (eq. 8) and limits of peers are told by resource and by rank.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping

from hetesynth.model.schedule import Transfer
from hetesynth.search.copy_problem import CopyProblem
from hetesynth.search.smt.clauses import Answer, Clauses
from hetesynth.search.smt.step_model import Law, Sending

Delivery = tuple[int, int]  # chunk, rank it is brought to
Place = tuple[int, int]  # link, step


class NeighbourhoodModel:
    """``free`` deliveries within ``steps`` steps, beside those that are ``placed``.

    ``ready``: from when on a rank can hold a chunk, see ``first_steps``. A free delivery to a rank that does not
    want the chunk may be left out: it is a relay.
    """

    def __init__(
        self,
        tables: CopyProblem,
        steps: int,
        placed: Mapping[Delivery, Place],
        free: set[Delivery],
        ready: Mapping[Delivery, int],
        stop_check: Callable[[], None],
        stop: threading.Event,
    ) -> None:
        self.tables = tables
        self.steps = steps
        self.placed = placed
        self.free = free
        self.clauses = Clauses(stop)
        self.laws: set[Law] = set()
        self.send: dict[Sending, int] = {}
        self._has: dict[tuple[int, int, int], int] = {}
        self._fixed: dict[Delivery, int] = {}  # only those that some law told so far speaks of
        self._ready = ready
        for delivery in sorted(free):
            stop_check()
            self._declare(*delivery)
        for delivery in sorted(free):
            stop_check()
            self._motion(*delivery)
        self._dependents_hold_in_time()
        self._sends_by_resource: dict[tuple[int, int], list[int]] = defaultdict(list)
        for (_, a, t), send in self.send.items():
            for r in tables.resources_of[a]:
                self._sends_by_resource[r, t].append(send)
        self._placed_by_resource: dict[tuple[int, int], list[Delivery]] = defaultdict(list)
        for delivery, (a, t) in placed.items():
            for r in tables.resources_of[a]:
                if (r, t) in self._sends_by_resource:
                    self._placed_by_resource[r, t].append(delivery)

    def _declare(self, k: int, rank: int) -> None:
        """Send and Has variables of one free delivery, as far as its chunk can be there."""
        ready = self._ready
        for t in range(ready.get((k, rank), self.steps + 1), self.steps + 1):
            self._has[k, rank, t] = self.clauses.variable(f"has_{k}_{rank}_{t}")
        for a in self.tables.into[rank]:
            source = self.tables.problem.arcs[a].src
            for t in range(ready.get((k, source), self.steps), self.steps):
                self.send[k, a, t] = self.clauses.variable(f"send_{k}_{a}_{t}")

    def _motion(self, k: int, rank: int) -> None:
        """Eq. 2, 3 and single receipt (eq. 6) of one free delivery, and that it is made where it is wanted."""
        clause = self.clauses.clause
        every: list[int] = []
        for t in range(self.steps):
            now, then = self._has.get((k, rank, t)), self._has.get((k, rank, t + 1))
            causes: list[int] = []
            for a in self.tables.into[rank]:
                send = self.send.get((k, a, t))
                if send is None:
                    continue
                causes.append(send)
                source = self.tables.problem.arcs[a].src
                if (k, source) in self.free:
                    clause(-send, self._has[k, source, t])
                if now is not None:
                    clause(-send, -now)
            every += causes
            if then is not None:
                if now is not None:
                    causes.append(now)
                clause(-then, *causes)
                for cause in causes:
                    clause(-cause, then)
        if len(every) > 1:
            self.clauses.at_most(every, 1)
        if rank in self.tables.problem.collective.post[k]:
            clause(*self._holds(k, rank, self.steps))

    def _holds(self, k: int, rank: int, t: int) -> tuple[int, ...]:
        """The variable of a free delivery; nothing where the chunk cannot be there yet."""
        variable = self._has.get((k, rank, t))
        return () if variable is None else (variable,)

    def _dependents_hold_in_time(self) -> None:
        """A frozen delivery from a free one needs it before it starts."""
        chunks = {k for k, _ in self.free}
        for delivery, (a, t) in sorted(self.placed.items()):
            k = delivery[0]
            if k in chunks and (k, self.tables.problem.arcs[a].src) in self.free:
                self.clauses.clause(-self._frozen(delivery), *self._holds(k, self.tables.problem.arcs[a].src, t))

    def _frozen(self, delivery: Delivery) -> int:
        if delivery not in self._fixed:
            self._fixed[delivery] = self.clauses.variable(f"frozen_{delivery[0]}_{delivery[1]}")
        return self._fixed[delivery]

    def full(self) -> list[Law]:
        """The capacity laws of resources that frozen deliveries alone fill in some step."""
        resources = self.tables.resources
        full = {r for (r, t), placed in self._placed_by_resource.items() if len(placed) >= resources[r].capacity}
        return [Law("capacity", r) for r in sorted(full)]

    def add(self, law: Law) -> bool:
        """Tell the solver ``law``; False when it knew. ``capacity``: ``law.a`` indexes the binding resources."""
        if law in self.laws:
            return False
        self.laws.add(law)
        if law.kind == "capacity":
            self._capacity(law.a)
        elif law.kind == "exclusive":
            k = law.a
            for t in range(self.steps):
                leaving = self.tables.out_of[law.b]
                sends = [self.send[k, a, t] for a in leaving if (k, a, t) in self.send]
                deliveries = [(k, self.tables.problem.arcs[a].dst) for a in leaving]
                self._at_most(
                    sends,
                    [d for d in deliveries if d in self.placed and self.placed[d] in {(a, t) for a in leaving}],
                    1,
                )
        elif law.kind == "peers":
            self._peers(law.a, sending=True)
            self._peers(law.a, sending=False)
        return True

    def _capacity(self, r: int) -> None:
        """Eq. 4, 5, for every step in which a free delivery may use the resource."""
        for t in range(self.steps):
            sends = self._sends_by_resource.get((r, t), [])
            self._at_most(sends, self._placed_by_resource.get((r, t), []), self.tables.resources[r].capacity)

    def _peers(self, rank: int, *, sending: bool) -> None:
        """A rank sends to, or receives from, few others over the whole schedule."""
        arcs = self.tables.problem.arcs
        around = set(self.tables.out_of[rank] if sending else self.tables.into[rank])
        met: dict[int, int] = {}

        def peer(a: int) -> int:
            other = arcs[a].dst if sending else arcs[a].src
            if other not in met:
                met[other] = self.clauses.variable(f"met_{rank}_{other}_{int(sending)}")
            return met[other]

        for (_, a, _), send in self.send.items():
            if a in around:
                self.clauses.clause(-send, peer(a))
        for delivery, (a, _) in self.placed.items():
            if a in around:
                self.clauses.clause(-self._frozen(delivery), peer(a))
        self._at_most([met[other] for other in sorted(met)], [], self.tables.problem.max_peers or len(met))

    def _at_most(self, free: list[int], placed: list[Delivery], limit: int) -> None:
        if free and len(free) + len(placed) > limit:
            frozen = [self._frozen(delivery) for delivery in placed]
            self.clauses.at_most([*free, *frozen], limit)

    @property
    def spent(self) -> int:
        """Solver resource units."""
        return self.clauses.spent

    def check(self, rlimit: int, seconds: float | None) -> Answer:
        """Solve with everything frozen; ``unknown`` after ``rlimit`` resource units or ``seconds``."""
        return self.clauses.check([self._fixed[d] for d in sorted(self._fixed)], rlimit, seconds)

    def core(self) -> list[Delivery]:
        """The frozen deliveries that the last ``unsat`` blames."""
        names = self.clauses.core()
        return [d for d in sorted(self._fixed) if f"frozen_{d[0]}_{d[1]}" in names]

    def transfers(self) -> list[Transfer]:
        """Frozen and free ones together, by the last model."""
        true = set(self.clauses.true(self.send.values()))
        sends = [s for s, variable in self.send.items() if variable in true]
        sends += [(k, a, t) for (k, _), (a, t) in self.placed.items()]
        return sorted(Transfer(t, t + 1, k, a) for k, a, t in sends)


def size(tables: CopyProblem, steps: int, free: set[Delivery], ready: Mapping[Delivery, int]) -> int:
    """How many Send variables the model has, before it is built."""
    arcs = tables.problem.arcs
    return sum(max(0, steps - ready.get((k, arcs[a].src), steps)) for k, rank in free for a in tables.into[rank])


def first_steps(
    tables: CopyProblem, placed: Mapping[Delivery, Place], free: set[Delivery]
) -> dict[tuple[int, int], int]:
    """The first step before which a rank can hold a chunk that is free somewhere; absent: never."""
    problem = tables.problem
    chunks = sorted({k for k, _ in free})
    ready: dict[tuple[int, int], int] = {(k, r): 0 for k in chunks for r in problem.collective.pre[k]}
    free_chunks = set(chunks)
    for (k, rank), (_, t) in placed.items():
        if k in free_chunks:
            ready[k, rank] = t + 1
    waiting = sorted(free)
    changed = True
    while changed:
        changed = False
        for k, rank in waiting:
            senders = [
                ready[k, problem.arcs[a].src] for a in tables.into[rank] if (k, problem.arcs[a].src) in ready
            ]
            if senders and min(senders) + 1 < ready.get((k, rank), 1 << 30):
                ready[k, rank] = min(senders) + 1
                changed = True
    return ready
