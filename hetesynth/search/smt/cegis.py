"""Counterexample-guided synthesis with checkpoints (HeteCCL 5.2 and algorithm 1).

In: a copying problem, a number of steps, a seed. The solver proposes with the laws it knows; the oracle names
the laws the proposal breaks; these are added for good. The earliest violated step is the checkpoint: the steps
before it are frozen, the checkpoint is stripped of what overloads it and filled greedily, the steps after it are
synthesized anew. When the frozen steps leave no way out, an unsatisfiable core over them says how far back to
unfreeze; a core without frozen steps proves that no schedule with so few steps exists.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from hetesynth.errors import InternalError
from hetesynth.model.cegis_trace import CegisEntry, Sent
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.verdict import GaveUp, Infeasible, Outcome, Synthesized, Violation
from hetesynth.search.copy_problem import CopyProblem, without_useless
from hetesynth.search.interrupts import deferred
from hetesynth.search.search import Candidate, OutOfTime, Search
from hetesynth.search.smt.checkpoints import Checkpoints
from hetesynth.search.smt.step_model import Law, Sending, StepModel, size


def synthesize(search: Search, steps: int, *, rlimit: int | None = None) -> tuple[Outcome, StepModel | None]:
    """A schedule of ``steps`` steps, a proof that there is none, or neither; and the model that says so.

    From checkpoint to checkpoint where there is a first candidate; all steps together where that fails, or there
    is none. ``rlimit``: solver resource units; None: those of the policy.
    """
    units = search.policy.smt.cegis_rlimit if rlimit is None else rlimit
    tables = CopyProblem(search.problem)
    with deferred() as interrupted:
        try:
            if search.first_candidate != "nothing":
                checkpoints = Checkpoints(search, tables, steps, units, interrupted, search.first_candidate)
                schedule = checkpoints.run(search.policy.smt.checkpoint_attempts)
                if schedule is not None:
                    return Synthesized(schedule), None
            if size(tables, steps) > search.policy.smt.whole_sends:
                return GaveUp(f"no schedule of {steps} steps from any checkpoint", search.elapsed()), None
            model = StepModel(tables, steps, search.stop_check(interrupted), interrupted)
            return _refine(search, model, units), model
        except OutOfTime:
            return GaveUp("out of time", search.elapsed()), None


def from_checkpoints(search: Search, steps: int, rlimit: int, attempts: int, share: float) -> Schedule | None:
    """A schedule of ``steps`` steps from one checkpoint to the next, the best so far as the first candidate; None:
    nothing is known.

    ``rlimit``: solver resource units; ``attempts``: passes over the steps, each with other ties; ``share``: of the
    time that is left.
    """
    reserve = (1.0 - share) * (search.remaining() or 0.0)
    with deferred() as interrupted:
        try:
            tables = CopyProblem(search.problem)
            first: Candidate = "nothing" if search.best is None else search.best
            return Checkpoints(search, tables, steps, rlimit, interrupted, first, reserve).run(attempts)
        except OutOfTime:
            return None


def _refine(search: Search, model: StepModel, rlimit: int) -> Outcome:
    """The loop of algorithm 1."""
    steps = model.steps
    frozen = _seed(search, steps, model)
    while True:
        search.stop_check(model.clauses.stop)()
        left = rlimit - model.spent
        if left <= 0:
            return GaveUp(f"no answer for {steps} steps within the solver's budget", search.elapsed())
        spend = max(1, left // search.policy.smt.frozen_share if frozen else left)
        before, began = model.spent, search.elapsed()
        answer = model.check([s for step in frozen for s in step], spend, search.remaining())
        entry = CegisEntry(
            steps, "whole", len(frozen), laws=len(model.laws), sends=len(model.send), answer=answer,
            units=model.spent - before, seconds=round(search.elapsed() - began, 6),
        )  # fmt: skip
        if answer != "sat":
            search.trace.note(entry)
        if answer == "unknown":
            if model.clauses.timed_out:
                search.clock_decisions.note("solver")
            frozen = frozen[: int(search.policy.smt.frozen_kept * len(frozen))]
        elif answer == "unsat":
            core = model.core()
            if not core:
                return Infeasible("the step model is unsatisfiable", steps)
            frozen = frozen[: max(t for _, _, t in core)]
        else:
            proposal = Schedule.of(model.transfers(), steps)
            violations = search.oracle(search.problem, proposal)
            words = tuple(v.message for v in violations[: search.policy.smt.trace_counterexamples])
            seen = _snapshot(search, proposal)
            search.trace.note(replace(entry, counterexamples=words, number=len(violations), snapshot=seen))
            if not violations:
                return Synthesized(without_useless(search.problem, proposal.transfers, steps))
            frozen = _revise(model, proposal, violations, at_their_step=bool(search.policy.smt.laws_at_their_step))


def _snapshot(search: Search, proposal: Schedule) -> tuple[Sent, ...] | None:
    """The proposal, where it is small."""
    if len(proposal.transfers) > search.policy.smt.snapshot_sends:
        return None
    return tuple((t.chunk, t.link, t.start) for t in proposal.transfers)


def _seed(search: Search, steps: int, model: StepModel) -> list[set[Sending]]:
    """The first steps of the best schedule so far, as far as the model has them."""
    if search.best is None:
        return []
    number = int(search.policy.smt.frozen_seed * steps)
    return [{s for s in _sendings(step) if s in model.send} for step in search.best.steps()[:number]]


def _sendings(transfers: Iterable[Transfer]) -> set[Sending]:
    return {(t.chunk, t.link, t.start) for t in transfers}


def _revise(
    model: StepModel, proposal: Schedule, violations: list[Violation], *, at_their_step: bool
) -> list[set[Sending]]:  # fmt: skip
    """REVISEFULL: learn the broken laws, everywhere or ``at_their_step``, keep the steps before the checkpoint,
    mend the checkpoint."""
    laws = [_law(model, violation) for violation in violations]
    if at_their_step:
        laws = [replace(w, step=v.step) if w.kind != "peers" else w for w, v in zip(laws, violations, strict=True)]
    learned = [model.add(law) for law in laws]
    if not any(learned):
        raise InternalError(f"the solver broke a law it was told: {violations[0].message}")
    checkpoint = min((v.step for v in violations if v.step is not None), default=0)
    steps = proposal.steps()
    mended = _Checkpoint(model.tables, proposal, checkpoint).mend()
    return [*(_sendings(step) for step in steps[:checkpoint]), {s for s in mended if s in model.send}]


def _law(model: StepModel, violation: Violation) -> Law:
    """The law that ``violation`` broke, in the solver's terms."""
    problem = model.tables.problem
    if violation.kind == "overloaded" and violation.resource is not None:
        names = {resource.name: r for r, resource in enumerate(problem.resources)}
        return Law("capacity", names[violation.resource])
    if violation.kind == "too-many-peers" and violation.rank is not None:
        return Law("peers", violation.rank)
    if violation.chunk is not None and violation.rank is not None:
        if violation.kind in ("received-twice", "already-held"):
            return Law("once", violation.chunk, violation.rank)
        if violation.kind == "not-exclusive":
            return Law("exclusive", violation.chunk, violation.rank)
    raise InternalError(f"the step model allowed what it must not: {violation.message}")


class _Checkpoint:
    """The step at which a proposal first breaks a law."""

    def __init__(self, tables: CopyProblem, proposal: Schedule, step: int) -> None:
        self.tables = tables
        self.step = step
        self.transfers = proposal.steps()[step]
        self.left = [r.capacity for r in tables.resources]
        self.holders = {(k, r) for k, pre in enumerate(tables.problem.collective.pre) for r in pre}
        for t in proposal.transfers:
            if t.start < step:
                self.holders.add((t.chunk, tables.problem.arcs[t.link].dst))
        self.arriving: set[tuple[int, int]] = set()
        self.leaving: Counter[tuple[int, int]] = Counter()

    def mend(self) -> set[Sending]:
        """Keep what fits, in order, then add deliveries while there is room."""
        mended = {s for s in sorted(_sendings(self.transfers)) if self._take(s[0], s[1])}
        collective = self.tables.problem.collective
        for k, targets in enumerate(collective.post):
            for rank in sorted(targets):
                for a in self.tables.into[rank]:
                    if self._take(k, a):
                        mended.add((k, a, self.step))
                        break
        return mended

    def _take(self, k: int, a: int) -> bool:
        arc = self.tables.problem.arcs[a]
        resources = self.tables.resources_of[a]
        exclusive = self.tables.problem.exclusive_reduction
        if (
            (k, arc.src) not in self.holders
            or (k, arc.dst) in self.holders | self.arriving
            or (exclusive and self.leaving[k, arc.src])
            or any(self.left[r] <= 0 for r in resources)
        ):
            return False
        for r in resources:
            self.left[r] -= 1
        self.arriving.add((k, arc.dst))
        self.leaving[k, arc.src] += 1
        return True
