"""From checkpoint to checkpoint: a schedule is repaired and completed step by step (HeteCCL 5.2, algorithm 1).

In: a copying problem, a number of steps, a first candidate, valid or not. VERIFY names the earliest step with a
counterexample; the steps before are frozen. At the checkpoint what breaks no law is kept and the step is filled
greedily. The prefix with this step must obey the laws of suffixes: where one is broken, which is a counterexample
as well, Z3 chooses anew what enters the regions that are short of time, and learns which. When Z3 has no answer,
the last steps are unfrozen, more and more of them, and given to Z3 as a whole. Proves nothing: what Z3 is shown of
a step are the sends worth making, not all of them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hetesynth.model.cegis_trace import Action, CegisEntry, Sent
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.verdict import Violation
from hetesynth.search.copy_problem import CopyProblem, excess, without_useless
from hetesynth.search.search import Candidate, Search
from hetesynth.search.smt.clauses import Answer, Clauses
from hetesynth.search.smt.monolithic import every_law
from hetesynth.search.smt.refill import Peers, Refill, Send
from hetesynth.search.smt.seeds import candidate
from hetesynth.search.smt.step_choice import Sample, StepChoice
from hetesynth.search.smt.step_model import StepModel, size
from hetesynth.search.smt.suffix_laws import Bools, SuffixLaws

Steps = list[list[Send]]


@dataclass
class Checkpoints:
    """One number of steps of one problem. ``units``: solver resource units that are left; ``first``: the first
    candidate; ``reserve``: seconds of the budget that are left for others."""

    search: Search
    tables: CopyProblem
    steps: int
    units: int
    stop: threading.Event
    first: Candidate
    reserve: float = 0.0
    laws: SuffixLaws = field(init=False)
    learned: set[int] = field(default_factory=set)  # regions whose laws Z3 was told
    _began: float = field(init=False)

    def __post_init__(self) -> None:
        self.laws = SuffixLaws(self.tables, self.search.policy.bounds)
        self._began = time.perf_counter()

    def run(self, attempts: int) -> Schedule | None:
        """A verified schedule, or None: nothing is known then. ``attempts``: passes over the steps."""
        policy = self.search.policy.smt
        prefix, hints = self._verified_seed()
        for number in range(attempts):
            if self.units <= 0:
                return None
            frozen = prefix if number < policy.checkpoint_frozen_attempts else []
            rng = np.random.default_rng([self.search.budget.seed, number])
            refill = Refill(self.tables, self.laws, rng)
            unfreeze = number >= policy.checkpoint_plain_attempts
            schedule = self._attempt(frozen, hints if number == 0 else {}, refill, unfreeze=unfreeze)
            if schedule is not None:
                return schedule
        return None

    def _verified_seed(self) -> tuple[Steps, dict[int, list[Send]]]:
        """VERIFY of the first candidate: the steps before the checkpoint, and what the others sent."""
        problem = self.tables.problem
        seed = candidate(problem, self.first, self.steps)
        if seed is None:
            return [], {}
        violations = self.search.oracle(problem, seed)
        checkpoint = min((v.step for v in violations if v.step is not None), default=seed.makespan)
        arcs, chunks = len(problem.arcs), len(problem.collective.chunks)
        sends: Steps = [
            [(t.chunk, t.link) for t in step if 0 <= t.link < arcs and 0 <= t.chunk < chunks]
            for step in seed.steps()
        ]
        holds = self._start()
        for t, step in enumerate(sends[:checkpoint]):
            after = self._after(holds, step)
            broken = self.laws.broken(after, self.steps - t - 1)
            if broken:
                violations = [*violations, *(self._as_violation(i, after, t) for i in broken)]
                checkpoint = t
                break
            holds = after
        if violations:
            self._note("seed", checkpoint, sends[: checkpoint + 1], violations)
        else:
            self._note("seed", None, sends, [])
        return sends[:checkpoint], dict(enumerate(sends))

    def _attempt(
        self, prefix: Steps, hints: dict[int, list[Send]], refill: Refill, *, unfreeze: bool
    ) -> Schedule | None:
        """One pass over the steps from the checkpoint on. ``unfreeze``: where it leads nowhere."""
        steps = [list(step) for step in prefix]
        holds = self._start()
        for step in steps:
            holds = self._after(holds, step)
        while len(steps) < self.steps and (self.laws.wants & ~holds).any():
            self._stop_check()
            # the sends of the checkpoint after steps
            keep = hints.get(len(steps), ())
            t, rest = len(steps), self.steps - len(steps) - 1
            links = [a for step in steps for _, a in step] if self.tables.problem.max_peers is not None else []
            filled = refill.step(holds, keep, links, rest)
            broken = self.laws.broken(filled.after, rest)
            self._note("fill", t, [*steps, filled.sends], [self._as_violation(i, filled.after, t) for i in broken])
            policy = self.search.policy.smt
            few = Sample(policy.sample_steps, policy.sample_senders)
            for sample, checks in ((few, policy.checkpoint_checks), (Sample(), 1)):
                for _ in range(checks):
                    if not broken or self.units <= 0:
                        break
                    self.learned.update(broken)
                    chosen = self._chosen(steps, holds, broken, sample)
                    if chosen is None:
                        break
                    filled = refill.step(holds, chosen, links, rest)
                    broken = self.laws.broken(filled.after, rest)
                    if broken:
                        wrong = [self._as_violation(i, filled.after, t) for i in broken]
                        self._note("fill", t, [*steps, filled.sends], wrong)
            sends = None if broken else filled.sends
            if sends is None:
                return self._unfrozen(steps) if unfreeze else None
            steps.append(sends)
            holds = self._after(holds, sends)
        return self._accepted(steps, [])

    def _chosen(self, steps: Steps, holds: Bools, broken: Sequence[int], sample: Sample) -> list[Send] | None:
        """What Z3 lets enter the regions after ``steps``; None: it has no answer."""
        parts = {i for i in range(len(self.laws.regions)) if self._is_part(i)}
        regions = parts if sample == Sample() else (self.learned & parts) | set(broken)
        links = [a for step in steps for _, a in step] if self.tables.problem.max_peers is not None else []
        rest = self.steps - len(steps) - 1
        model = StepChoice(self.tables, self.laws, holds, rest, regions, Peers(self.tables, links), sample)
        likely = model.likely()
        if likely is None:
            self._note("solve", len(steps), steps, [], len(model.sends), "infeasible")
            return None
        policy = self.search.policy.smt
        small = len(model.sends) <= policy.checkpoint_model_sends
        if small and likely[0] != likely[1]:
            likely = model.likely(policy.checkpoint_nodes) or likely
        ways: list[tuple[Sequence[int], Sequence[int]]] = [likely]
        if small:
            ways.append((range(len(model.sends)), ()))
        for among, assumed in ways:
            clauses, variables = model.clauses(among, self.stop)
            answer = self._answer(clauses, len(among), [variables[n] for n in assumed])
            true = set(clauses.true(variables.values())) if answer == "sat" else set()
            chosen = [model.sends[n] for n, variable in variables.items() if variable in true]
            self._note("solve", len(steps), [*steps, chosen], [], len(among), answer, clauses.spent)
            if answer == "sat":
                return sorted(chosen)
        return None

    def _answer(self, clauses: Clauses, sends: int, assumed: Sequence[int] = ()) -> Answer:
        """Z3's, within the units of one check."""
        policy = self.search.policy.smt
        units = min(self.units, policy.checkpoint_check_rlimit + policy.checkpoint_send_rlimit * sends)
        remaining = self.search.remaining()
        seconds = None if remaining is None else remaining - self.reserve
        answer = clauses.check(assumed, max(1, units), seconds)
        if clauses.timed_out:
            self.search.clock_decisions.note("solver")
        self.units -= clauses.spent
        return answer

    def _stop_check(self) -> None:
        self.search.stop_check(self.stop, self.reserve)()

    def _is_part(self, i: int) -> bool:
        """Whether region ``i`` is no complement of a smaller one."""
        return 2 * len(self.laws.regions[i].ranks) <= self.tables.problem.ranks

    def _unfrozen(self, steps: Steps) -> Schedule | None:
        """The last steps as a whole, more and more of them, while the model is small."""
        policy = self.search.policy.smt
        for rest in range(max(2, self.steps - len(steps)), min(self.steps, policy.checkpoint_unfrozen) + 1):
            kept = steps[: self.steps - rest]
            holds = self._start()
            for step in kept:
                holds = self._after(holds, step)
            residual, chunks = residual_problem(self.tables.problem, holds)
            tables = CopyProblem(residual)
            if self.units <= 0 or size(tables, rest) > policy.checkpoint_sends:
                return None
            tail = self._last_steps(tables, kept, rest)
            if tail is not None:
                return self._accepted(kept, [replace(t, chunk=chunks[t.chunk]) for t in tail])
        return None

    def _last_steps(self, tables: CopyProblem, kept: Steps, rest: int) -> list[Transfer] | None:
        """Z3's choice for ``rest`` steps after those ``kept``, every law told."""
        model = StepModel(tables, rest, self._stop_check, self.stop)
        for law in every_law(tables):
            model.add(law)
        answer = self._answer(model.clauses, len(model.send))
        self._note("whole", len(kept), kept, [], len(model.send), answer, model.spent)
        if answer != "sat":
            return None
        return [replace(t, start=t.start + len(kept), end=t.end + len(kept)) for t in model.transfers()]

    def _accepted(self, steps: Steps, tail: Sequence[Transfer]) -> Schedule | None:
        """The schedule if the oracle finds nothing."""
        transfers = [Transfer(t, t + 1, k, a) for t, sends in enumerate(steps) for k, a in sends]
        schedule = without_useless(self.tables.problem, [*transfers, *tail], self.steps)
        if excess(self.tables.problem, {t.link for t in schedule.transfers}) is not None:
            return None
        violations = self.search.oracle(self.tables.problem, schedule)
        if violations:
            self._note("fill", violations[0].step, steps, violations)
            return None
        return schedule

    def _start(self) -> Bools:
        """Chunks x ranks: who holds what at first."""
        holds: Bools = np.zeros(self.laws.wants.shape, dtype=np.bool_)
        for k, pre in enumerate(self.tables.problem.collective.pre):
            holds[k, sorted(pre)] = True
        return holds

    def _after(self, holds: Bools, sends: Sequence[Send]) -> Bools:
        after = holds.copy()
        for k, a in sends:
            after[k, self.tables.problem.arcs[a].dst] = True
        return after

    def _as_violation(self, i: int, after: Bools, step: int) -> Violation:
        """The law of suffixes that region ``i`` breaks after ``step``."""
        region = self.laws.regions[i]
        lacking, rest = int(self.laws.lacking(after)[:, i].sum()), self.steps - step - 1
        where = (
            f"rank {region.ranks[0]}"
            if len(region.ranks) == 1
            else f"{len(region.ranks)} ranks from {region.ranks[0]} on"
        )
        message = f"step {step}: {where} lack {lacking} chunks, and {region.limit(rest)} can still come"
        return Violation("not-delivered", message, step=step, rank=region.ranks[0])

    def _note(
        self,
        action: Action,
        checkpoint: int | None,
        steps: Steps,
        violations: Sequence[Violation],
        sends: int = 0,
        answer: str | None = None,
        units: int = 0,
    ) -> None:
        """An entry of the trace."""
        policy = self.search.policy.smt
        snapshot: tuple[Sent, ...] | None = None
        if sum(map(len, steps)) <= policy.snapshot_sends:
            snapshot = tuple((k, a, t) for t, step in enumerate(steps) for k, a in step)
        now = time.perf_counter()
        words = tuple(v.message for v in violations[: policy.trace_counterexamples])
        self.search.trace.note(
            CegisEntry(
                self.steps, action, checkpoint, words, len(violations), len(self.learned), sends, answer, units,
                round(now - self._began, 6), snapshot,
            )
        )  # fmt: skip
        self._began = now


def residual_problem(problem: Problem, holds: Bools) -> tuple[Problem, list[int]]:
    """What is left when rank r holds chunk k where ``holds[k, r]``; and the number that each chunk had."""
    collective = problem.collective
    left = [k for k, post in enumerate(collective.post) if not holds[k, sorted(post)].all()]
    pre = tuple(frozenset(np.flatnonzero(holds[k]).tolist()) for k in left)
    rest = replace(
        collective,
        chunks=tuple(replace(collective.chunks[k], index=i) for i, k in enumerate(left)),
        pre=pre,
        post=tuple(collective.post[k] for k in left),
    )
    return replace(problem, collective=rest), left
