"""SCCL's encoding of the step model (PPoPP 2021, section 3): time(k, v) and snd(k, u, v).

In: a copying problem and a number of steps. Out: sat, unsat or unknown, and a schedule. Says when a rank holds a
chunk and over which link it got it, where the step model says which link carries which chunk in which step. It is
the yardstick of docs/decisions.md, 4 and an independent second opinion on optima.
"""

from __future__ import annotations

import z3

from hetesynth.model.schedule import Transfer
from hetesynth.search.copy_problem import CopyProblem
from hetesynth.search.smt.clauses import Answer


class TimeModel:
    """Integers for times, Booleans for links taken; every law from the start."""

    def __init__(self, tables: CopyProblem, steps: int) -> None:
        self.tables = tables
        self.steps = steps
        self.solver = z3.Solver()
        problem = tables.problem
        chunks = range(len(problem.collective.chunks))
        self.time = [[z3.Int(f"time_{k}_{v}") for v in range(problem.ranks)] for k in chunks]
        self.snd = {
            (k, a): z3.Bool(f"snd_{k}_{a}")
            for k in chunks for a, arc in enumerate(problem.arcs) if arc.dst not in problem.collective.pre[k]
        }  # fmt: skip
        for k in chunks:
            self._arrivals(k)
        for t in range(1, steps + 1):
            self._capacities(t)
            if problem.exclusive_reduction:
                self._exclusions(t)
        if problem.max_peers is not None:
            for rank in range(problem.ranks):
                self._peers(rank, sending=True)
                self._peers(rank, sending=False)

    def _arrivals(self, k: int) -> None:
        """C1 to C4: when a chunk is where, by one link from a rank that had it before."""
        problem, time = self.tables.problem, self.time[k]
        for v in range(problem.ranks):
            if v in problem.collective.pre[k]:
                self.solver.add(time[v] == 0)
                continue
            self.solver.add(time[v] >= 1, time[v] <= self.steps + 1)
            into = [self.snd[k, a] for a in self.tables.into[v]]
            self.solver.add(z3.Or(time[v] > self.steps, *into))
            if len(into) > 1:
                self.solver.add(z3.PbLe([(sent, 1) for sent in into], 1))
            if v in problem.collective.post[k]:
                self.solver.add(time[v] <= self.steps)
        for a, arc in enumerate(problem.arcs):
            if (k, a) in self.snd:
                self.solver.add(z3.Implies(self.snd[k, a], time[arc.src] < time[arc.dst]))

    def _arriving(self, k: int, a: int, t: int) -> z3.BoolRef:
        return z3.And(self.snd[k, a], self.time[k][self.tables.problem.arcs[a].dst] == t)

    def _capacities(self, t: int) -> None:
        """C5: what a resource carries in a step."""
        for resource in self.tables.resources:
            variables = [(k, a) for k in range(len(self.time)) for a in resource.arcs if (k, a) in self.snd]
            self._at_most([self._arriving(k, a, t) for k, a in variables], resource.capacity)

    def _exclusions(self, t: int) -> None:
        for k in range(len(self.time)):
            for leaving in self.tables.out_of:
                self._at_most([self._arriving(k, a, t) for a in leaving if (k, a) in self.snd], 1)

    def _peers(self, rank: int, *, sending: bool) -> None:
        problem = self.tables.problem
        met: dict[int, list[z3.BoolRef]] = {}
        for a in self.tables.out_of[rank] if sending else self.tables.into[rank]:
            peer = problem.arcs[a].dst if sending else problem.arcs[a].src
            met.setdefault(peer, []).extend(sent for (_, b), sent in self.snd.items() if b == a)
        self._at_most([z3.Or(*sent) for _, sent in sorted(met.items())], problem.max_peers or problem.ranks)

    def _at_most(self, terms: list[z3.BoolRef], limit: int) -> None:
        if len(terms) > limit:
            self.solver.add(z3.PbLe([(term, 1) for term in terms], limit))

    def check(self, rlimit: int, seconds: float | None = None) -> Answer:
        """Solve; ``unknown`` after ``rlimit`` resource units or ``seconds``."""
        self.solver.set("rlimit", rlimit)
        if seconds is not None:
            self.solver.set("timeout", max(1, int(seconds * 1000)))
        answer = self.solver.check()
        return "sat" if answer == z3.sat else "unsat" if answer == z3.unsat else "unknown"

    def transfers(self) -> list[Transfer]:
        """The sends of the model; those that arrive after the last step are none."""
        model = self.solver.model()
        transfers: list[Transfer] = []
        for (k, a), sent in self.snd.items():
            if z3.is_true(model[sent]):
                at = model.eval(self.time[k][self.tables.problem.arcs[a].dst], model_completion=True).as_long()
                if at <= self.steps:
                    transfers.append(Transfer(at - 1, at, k, a))
        return sorted(transfers)
