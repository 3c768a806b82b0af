"""The step model of HeteCCL 5.1 in Z3: Send(k, u, v, t) and Has(k, u, t) for a fixed number of steps.

In: a copying problem and T. The laws of motion (eq. 2, 3, delivery) are always there; capacity (eq. 4, 5),
single receipt (eq. 6) and exclusion (eq. 8) are added one by one, as counterexamples demand them. Variables that
distance alone decides are constants. Everything is Boolean and pseudo-Boolean, so Z3's finite-domain solver
takes it; ``unknown`` is reported as such and never read as unsatisfiable.
"""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from hetesynth.model.schedule import Transfer
from hetesynth.search.copy_problem import CopyProblem
from hetesynth.search.smt.clauses import Answer, Clauses

Sending = tuple[int, int, int]  # chunk, arc, step


@dataclass(frozen=True, slots=True)
class Law:
    """``peers``: rank ``a`` sends to, and receives from, at most ``max_peers`` others in all steps. In each step:
    ``capacity``: of resource ``a`` (eq. 4, 5). ``once``: chunk ``a`` reaches rank ``b`` over one link (eq. 6).
    ``exclusive``: rank ``b`` sends chunk ``a`` to one peer (eq. 8 in the dual)."""

    kind: Literal["capacity", "once", "exclusive", "peers"]
    a: int
    b: int = 0


def every_law(tables: CopyProblem) -> list[Law]:
    """All laws of a problem: capacity (eq. 4, 5), single receipt (eq. 6), exclusion (eq. 8) where asked."""
    problem = tables.problem
    pairs = [(k, r) for k in range(len(problem.collective.chunks)) for r in range(problem.ranks)]
    laws = [Law("capacity", r) for r in range(len(problem.resources))]
    laws += [Law("once", k, r) for k, r in pairs]
    if problem.max_peers is not None:
        laws += [Law("peers", r) for r in range(problem.ranks)]
    if problem.exclusive_reduction:
        laws += [Law("exclusive", k, r) for k, r in pairs]
    return laws


def size(tables: CopyProblem, steps: int) -> int:
    """Return how many Send variables a model has, before it is built."""
    problem = tables.problem
    total = 0
    origins: dict[frozenset[int], int] = defaultdict(int)
    for pre in problem.collective.pre:
        origins[pre] += 1
    for pre, count in origins.items():
        early = [min(tables.hops[u][v] for u in pre) for v in range(problem.ranks)]
        total += count * sum(max(0, steps - early[arc.src]) for arc in problem.arcs if arc.dst not in pre)
    return total


def few_peers(
    clauses: Clauses, tables: CopyProblem, send: Mapping[Sending, int], rank: int, *, sending: bool
) -> None:
    """State that ``rank`` sends to, or receives from, at most ``max_peers`` others over the whole schedule."""
    problem = tables.problem
    met: dict[int, int] = {}
    around = set((tables.out_of if sending else tables.into)[rank])
    for a in sorted(around):
        peer = problem.arcs[a].dst if sending else problem.arcs[a].src
        if peer not in met:
            met[peer] = clauses.variable(f"met_{rank}_{peer}_{int(sending)}")
    for (_, a, _), variable in send.items():
        if a in around:
            clauses.clause(-variable, met[problem.arcs[a].dst if sending else problem.arcs[a].src])
    most = problem.max_peers or problem.ranks
    if len(met) > most:
        clauses.at_most([met[peer] for peer in sorted(met)], most)


class StepModel:
    """Z3's view of one problem with ``steps`` steps, step t of ``rounds[t]`` rounds (none: one). ``stop_check`` is
    called now and then while the model is built, and may raise to give it up; ``stop`` ends a check."""

    def __init__(
        self,
        tables: CopyProblem,
        steps: int,
        stop_check: Callable[[], None] = lambda: None,
        stop: threading.Event | None = None,
        rounds: Sequence[int] = (),
    ) -> None:
        self.tables = tables
        self.steps = steps
        self.rounds = rounds or (1,) * steps
        self.clauses = Clauses(stop)
        self.laws: set[Law] = set()
        self.send: dict[Sending, int] = {}
        has: dict[tuple[int, int, int], int | bool] = {}
        problem, clause = tables.problem, self.clauses.clause
        for k, pre in enumerate(problem.collective.pre):
            stop_check()
            earliest = [min(tables.hops[u][v] for u in pre) for v in range(problem.ranks)]
            # constants where distance or the start decides
            for rank in range(problem.ranks):
                for t in range(steps + 1):
                    if rank in pre:
                        has[k, rank, t] = True
                    elif t < earliest[rank]:
                        has[k, rank, t] = False
                    else:
                        has[k, rank, t] = self.clauses.variable(f"has_{k}_{rank}_{t}")
            for a, arc in enumerate(problem.arcs):
                if arc.dst not in pre:
                    for t in range(earliest[arc.src], steps):
                        self.send[k, a, t] = self.clauses.variable(f"send_{k}_{a}_{t}")
            # Send(k,u,v,t) implies Has(k,u,t) and not Has(k,v,t) (eq. 2)
            for a, arc in enumerate(problem.arcs):
                for t in range(steps):
                    send = self.send.get((k, a, t))
                    if send is not None:
                        sender, receiver = has[k, arc.src, t], has[k, arc.dst, t]
                        if not isinstance(sender, bool):
                            clause(-send, sender)
                        if not isinstance(receiver, bool):
                            clause(-send, -receiver)
            self._holding_is_having_received(k, has)
            # Has(k,u,T) for every u in post(k)
            for rank in sorted(problem.collective.post[k]):
                holds = has[k, rank, steps]
                if holds is not True:
                    clause(*(() if holds is False else (holds,)))

    def _holding_is_having_received(self, k: int, has: Mapping[tuple[int, int, int], int | bool]) -> None:
        """State that Has(k,u,t+1) holds iff Has(k,u,t) or some Send(k,v,u,t) does (eq. 3)."""
        for rank in range(self.tables.problem.ranks):
            for t in range(self.steps):
                now, then = has[k, rank, t], has[k, rank, t + 1]
                if isinstance(then, bool):
                    continue
                causes = [self.send[k, a, t] for a in self.tables.into[rank] if (k, a, t) in self.send]
                if not isinstance(now, bool):
                    causes.append(now)
                self.clauses.clause(-then, *causes)
                for cause in causes:
                    self.clauses.clause(-cause, then)

    def add(self, law: Law) -> bool:
        """Demand ``law``; False when it was already there."""
        if law in self.laws:
            return False
        self.laws.add(law)
        if law.kind == "peers":
            for sending in (True, False):
                few_peers(self.clauses, self.tables, self.send, law.a, sending=sending)
            return True
        for t in range(self.steps):
            if law.kind == "capacity":
                # eq. 4, 5: the sum of Send over the links of a resource
                resource = self.tables.problem.resources[law.a]
                chunks = range(len(self.tables.problem.collective.chunks))
                sends = [self.send[k, a, t] for k in chunks for a in resource.arcs if (k, a, t) in self.send]
                self._at_most(sends, resource.capacity * self.rounds[t])
            else:  # eq. 6 (eq. 2 already forbids it in different steps), or eq. 8 seen in the reversed problem
                around = (self.tables.into if law.kind == "once" else self.tables.out_of)[law.b]
                self._at_most([self.send[law.a, a, t] for a in around if (law.a, a, t) in self.send], 1)
        return True

    def _at_most(self, sends: list[int], limit: int) -> None:
        if len(sends) > limit:
            self.clauses.at_most(sends, limit)

    def check(self, frozen: Iterable[Sending], rlimit: int, seconds: float | None) -> Answer:
        """Solve with ``frozen`` sends forced; ``unknown`` after ``rlimit`` resource units or ``seconds``."""
        return self.clauses.check([self.send[s] for s in sorted(frozen)], rlimit, seconds)

    def core(self) -> list[Sending]:
        """The frozen sends that the last ``unsat`` blames; none: there is no schedule at all."""
        names = self.clauses.core()
        return [s for s in sorted(self.send) if f"send_{s[0]}_{s[1]}_{s[2]}" in names] if names else []

    def transfers(self) -> list[Transfer]:
        """The sends of the last model."""
        true = set(self.clauses.true(self.send.values()))
        return sorted(Transfer(t, t + 1, k, a) for (k, a, t), variable in self.send.items() if variable in true)

    def smt2(self) -> str:
        """The laws so far as SMT-LIB 2, to be checked by any solver."""
        return self.clauses.smt2()
