"""Counterexample-guided synthesis with checkpoints (HeteCCL 5.2 and algorithm 1).

In: a copying problem, a number of steps, a seed. The solver proposes with the laws it knows; the oracle names
the laws the proposal breaks; these are added for good. The earliest violated step is the checkpoint: the steps
before it are frozen, the checkpoint is stripped of what overloads it and filled greedily, the steps after it are
synthesized anew. When the frozen steps leave no way out, an unsatisfiable core over them says how far back to
unfreeze; a core without frozen steps proves that no schedule with so few steps exists.
"""

import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

import numpy as np

from hetesynth.errors import InternalError
from hetesynth.machine_code import Bools
from hetesynth.model.cegis_trace import Action, CegisEntry, Sent
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.verdict import GaveUp, Infeasible, Outcome, Synthesized, Violation
from hetesynth.search.copy_problem import CopyProblem, of_chunks, start_arrays, without_useless
from hetesynth.search.effort import scaled
from hetesynth.search.interrupts import deferred
from hetesynth.search.search import Candidate, OutOfTime, Search, excess
from hetesynth.search.smt.clauses import Answer, Clauses
from hetesynth.search.smt.step_choice import Peers, Refill, Send, Step, StepChoice, SuffixLaws
from hetesynth.search.smt.step_model import Law, Sending, StepModel, every_law, size


def candidate(problem: Problem, seed: Candidate, most_steps: int) -> Schedule | None:
    """The first candidate, of ``most_steps`` steps at most; None: there is none.

    ``greedy``: the paper's GREEDYHEURISTIC (appendix H), one pass that fills each link up to C(u, v) and knows
    nothing of shared resources nor of what others send to the same rank. ``flood``: every rank sends all it holds
    to all who lack it, whatever the capacities. ``nothing``: no candidate. Or a schedule that is handed in.
    """
    if isinstance(seed, Schedule):
        return Schedule.of([t for t in seed.transfers if t.end <= most_steps], min(most_steps, seed.makespan))
    if seed == "nothing":
        return None
    # step by step what each link alone can carry, or with no capacity everything
    by_capacity = seed == "greedy"
    holds, lacks = start_arrays(problem)
    transfers: list[Transfer] = []
    step = 0
    while (lacks & ~holds).any() and step < most_steps:
        after = holds.copy()
        for a, arc in enumerate(problem.arcs):
            chunks = np.flatnonzero(holds[:, arc.src] & ~holds[:, arc.dst])
            if by_capacity:
                chunks = chunks[: arc.capacity]
            after[chunks, arc.dst] = True
            transfers += [Transfer(step, step + 1, int(k), a) for k in chunks]
        if (after == holds).all():
            break
        holds = after
        step += 1
    return Schedule.of(transfers, step)


Steps = list[list[Send]]


@dataclass
class Checkpoints:
    """A search for a schedule of ``steps`` steps. ``units``: solver resource units that are left; ``first``: the
    first candidate, valid or not; ``reserve``: seconds of the budget that are left for others.

    VERIFY names the earliest step with a counterexample; the steps before are frozen. At the checkpoint what
    breaks no law is kept and the step is filled greedily. The prefix with this step must obey the laws of
    suffixes: where one is broken, which is a counterexample as well, Z3 learns the law and chooses anew what
    enters the regions that are short of time. When Z3 has no answer, the last steps are unfrozen, more and more of
    them, and given to Z3 as a whole. Proves nothing: what Z3 is shown of a step are the sends worth making, not
    all of them.
    """

    search: Search
    tables: CopyProblem
    steps: int
    units: int
    stop: threading.Event
    first: Candidate
    reserve: float = 0.0
    learned: set[int] = field(default_factory=set)  # regions whose laws Z3 was told

    def __post_init__(self) -> None:
        self.laws = SuffixLaws(self.tables)
        self._began = time.perf_counter()

    def run(self, attempts: int) -> Schedule | None:
        """Return a verified schedule, or None: nothing is known then. ``attempts``: passes over the steps."""
        prefix, hints = self._verified_seed()
        for number in range(attempts):
            if self.units <= 0:
                return None
            refill = Refill(self.laws, np.random.default_rng([self.search.budget.seed, number]))
            frozen = prefix if number < 2 else []
            schedule = self._attempt(frozen, hints if number == 0 else {}, refill, unfreeze=number >= 3)
            if schedule is not None:
                return schedule
        return None

    def _verified_seed(self) -> tuple[Steps, dict[int, list[Send]]]:
        """Return the first candidate's steps before the checkpoint (VERIFY), and the sends of all its steps."""
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
        holds = self._held([])
        for t, step in enumerate(sends[:checkpoint]):
            for k, a in step:
                holds[k, problem.arcs[a].dst] = True
            broken = self.laws.broken(holds, self.steps - t - 1)
            if broken:
                violations = [*violations, *(self._as_violation(i, holds, t) for i in broken)]
                checkpoint = t
                break
        shown = checkpoint + 1 if violations else len(sends)
        self._note("seed", checkpoint if violations else None, sends[:shown], violations)
        return sends[:checkpoint], dict(enumerate(sends))

    def _attempt(
        self, prefix: Steps, hints: dict[int, list[Send]], refill: Refill, *, unfreeze: bool
    ) -> Schedule | None:
        """Return the schedule of one pass over the steps after ``prefix``; None: it leads nowhere. ``unfreeze``:
        Z3 then gets its last steps as a whole."""
        steps = [list(step) for step in prefix]
        holds = self._held(steps)
        while len(steps) < self.steps and (self.laws.wants & ~holds).any():
            self._stop_check()
            t, rest = len(steps), self.steps - len(steps) - 1
            links = [a for step in steps for _, a in step] if self.tables.problem.max_peers is not None else []
            filled = refill.step(holds, hints.get(t, ()), links, rest)
            broken = self.laws.broken(filled.after, rest)
            self._note("fill", t, [*steps, filled.sends], [self._as_violation(i, filled.after, t) for i in broken])
            # first only the regions that break a law and few of their sends, then all
            for few, checks in ((True, 4), (False, 1)):
                for _ in range(checks):
                    if not broken or self.units <= 0:
                        break
                    self.learned.update(broken)
                    chosen = self._chosen(steps, holds, broken, links, few=few)
                    if chosen is None:
                        break
                    filled = refill.step(holds, chosen, links, rest)
                    broken = self.laws.broken(filled.after, rest)
                    if broken:
                        wrong = [self._as_violation(i, filled.after, t) for i in broken]
                        self._note("fill", t, [*steps, filled.sends], wrong)
            if broken:
                return self._unfrozen(steps) if unfreeze else None
            steps.append(filled.sends)
            holds = filled.after
        return self._accepted(steps, [])

    def _chosen(
        self, steps: Steps, holds: Bools, broken: Sequence[int], links: Sequence[int], *, few: bool
    ) -> list[Send] | None:
        """Return what Z3 lets enter the regions after ``steps``, which use ``links``; None: it has no answer."""
        # regions that are no complement of a smaller one
        ranks = self.tables.problem.ranks
        parts = {i for i, region in enumerate(self.laws.regions) if 2 * len(region.ranks) <= ranks}
        regions = (self.learned & parts) | set(broken) if few else parts
        rest = self.steps - len(steps) - 1
        model = StepChoice(self.laws, holds, rest, regions, Peers(self.tables, links), few=few)
        likely = model.likely()
        if likely is None:
            self._note("solve", len(steps), steps, [], len(model.sends), "infeasible")
            return None
        if len(model.sends) <= 6_000 and likely[0] != likely[1]:
            likely = model.likely(100) or likely
        # of 730 models each that has an answer has one among the sends that the linear program uses
        among, assumed = likely
        clauses, variables = model.clauses(among, self.stop)
        answer = self._answer(clauses, len(among), [variables[n] for n in assumed])
        true = set(clauses.true(variables.values())) if answer == "sat" else set()
        chosen = [model.sends[n] for n, variable in variables.items() if variable in true]
        self._note("solve", len(steps), [*steps, chosen], [], len(among), answer, clauses.spent)
        return sorted(chosen) if answer == "sat" else None

    def _answer(self, clauses: Clauses, sends: int, assumed: Sequence[int] = ()) -> Answer:
        """Return Z3's answer within the units of one check: it spends 450 a variable before it searches."""
        units = min(self.units, 300_000 + 700 * sends)
        remaining = self.search.remaining()
        seconds = None if remaining is None else remaining - self.reserve
        answer = clauses.check(assumed, max(1, units), seconds)
        if clauses.timed_out:
            self.search.clock_decisions.note("solver")
        self.units -= clauses.spent
        return answer

    def _stop_check(self) -> None:
        self.search.stop_check(self.stop, self.reserve)()

    def _unfrozen(self, steps: Steps) -> Schedule | None:
        """Return a schedule whose last steps, more at each try, Z3 chooses under every law; small models only."""
        for rest in range(max(2, self.steps - len(steps)), min(self.steps, 3) + 1):
            kept = steps[: self.steps - rest]
            residual, chunks = residual_problem(self.tables.problem, self._held(kept))
            tables = CopyProblem(residual)
            if self.units <= 0 or size(tables, rest) > 60_000:
                return None
            model = StepModel(tables, rest, self._stop_check, self.stop)
            for law in every_law(tables):
                model.add(law)
            answer = self._answer(model.clauses, len(model.send))
            self._note("whole", len(kept), kept, [], len(model.send), answer, model.clauses.spent)
            if answer == "sat":
                ends = [(t, t.start + len(kept)) for t in model.transfers()]
                return self._accepted(kept, [Transfer(b, b + 1, chunks[t.chunk], t.link) for t, b in ends])
        return None

    def _accepted(self, steps: Steps, tail: Sequence[Transfer]) -> Schedule | None:
        """Return the schedule, or None if the oracle finds something wrong."""
        transfers = [Transfer(t, t + 1, k, a) for t, sends in enumerate(steps) for k, a in sends]
        schedule = without_useless(self.tables.problem, [*transfers, *tail], self.steps)
        if excess(self.tables.problem, {t.link for t in schedule.transfers}) is not None:
            return None
        violations = self.search.oracle(self.tables.problem, schedule)
        if violations:
            self._note("fill", violations[0].step, steps, violations)
            return None
        return schedule

    def _held(self, steps: Steps) -> Bools:
        """Return which ranks hold which chunks after ``steps``, chunks x ranks."""
        holds: Bools = start_arrays(self.tables.problem)[0]
        for k, a in chain.from_iterable(steps):
            holds[k, self.tables.problem.arcs[a].dst] = True
        return holds

    def _as_violation(self, i: int, after: Bools, step: int) -> Violation:
        """Return the law of suffixes that region ``i`` breaks after ``step``."""
        region = self.laws.regions[i]
        lacking, rest = int(self.laws.lacking(after)[:, i].sum()), self.steps - step - 1
        first, number = region.ranks[0], len(region.ranks)
        where = f"rank {first}" if number == 1 else f"{number} ranks from {first} on"
        message = f"step {step}: {where} lack {lacking} chunks, and {region.limit(rest)} can still come"
        return Violation("not-delivered", message, step=step, rank=first)

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
        """Add an entry to the trace."""
        now = time.perf_counter()
        sent = [(k, a, t) for t, step in enumerate(steps) for k, a in step]
        words, told = tuple(v.message for v in violations[:3]), len(self.learned)
        spent = units, round(now - self._began, 6)
        number = len(violations)
        self.search.trace.note(
            CegisEntry(self.steps, action, checkpoint, words, number, told, sends, answer, *spent, few(sent))
        )
        self._began = now


def few(sent: Sequence[Sent]) -> tuple[Sent, ...] | None:
    """Return what was sent as a tuple, or None where it is more than the trace keeps."""
    return tuple(sent) if len(sent) <= 2_000 else None


def residual_problem(problem: Problem, holds: Bools) -> tuple[Problem, list[int]]:
    """Return the problem left when rank r holds chunk k where ``holds[k, r]``, and each chunk's old number."""
    left = [k for k, post in enumerate(problem.collective.post) if not holds[k, sorted(post)].all()]
    rest = of_chunks(problem, left)
    pre = tuple(frozenset(np.flatnonzero(holds[k]).tolist()) for k in left)
    return replace(rest, collective=replace(rest.collective, pre=pre)), left


def synthesize(search: Search, steps: int, *, rlimit: int | None = None) -> tuple[Outcome, StepModel | None]:
    """Return a schedule of ``steps`` steps, a proof that there is none, or neither; and the model that says so."""
    share = search.policy.smt.units
    units = scaled(20_000_000, share) if rlimit is None else rlimit
    tables = CopyProblem(search.problem)
    with deferred() as interrupted:
        try:
            if search.first_candidate != "nothing":
                checkpoints = Checkpoints(search, tables, steps, units, interrupted, search.first_candidate)
                schedule = checkpoints.run(scaled(16, share))
                if schedule is not None:
                    return Synthesized(schedule), None
            if size(tables, steps) > 300_000:
                return GaveUp(f"no schedule of {steps} steps from any checkpoint", search.elapsed()), None
            model = StepModel(tables, steps, search.stop_check(interrupted), interrupted)
            return _refine(search, model, units), model
        except OutOfTime:
            return GaveUp("out of time", search.elapsed()), None


def monolithic(search: Search, steps: int) -> tuple[Outcome, StepModel | None]:
    """Return what ``synthesize`` does, with every law stated from the start (as SCCL does, PPoPP 2021, section 3):
    for small problems, and the reference that faster strategies must agree with."""
    with deferred() as interrupted:
        stop_check = search.stop_check(interrupted)
        try:
            model = StepModel(CopyProblem(search.problem), steps, stop_check, interrupted)
            for law in every_law(model.tables):
                stop_check()
                model.add(law)
            answer = model.check((), scaled(200_000_000, search.policy.smt.units), search.remaining())
        except OutOfTime:
            return GaveUp("out of time", search.elapsed()), None
    if answer == "sat":
        return Synthesized(without_useless(search.problem, model.transfers(), steps)), model
    if answer == "unsat":
        return Infeasible("the monolithic step model is unsatisfiable", steps), model
    if model.clauses.timed_out:
        search.clock_decisions.note("solver")
    return GaveUp(f"no answer for {steps} steps within the solver's budget", search.elapsed()), model


def from_checkpoints(search: Search, steps: int, rlimit: int, attempts: int, share: float) -> Schedule | None:
    """A schedule of ``steps`` steps, from checkpoint to checkpoint of the best so far; None: nothing is known."""
    reserve = (1.0 - share) * (search.remaining() or 0.0)
    with deferred() as interrupted:
        try:
            tables = CopyProblem(search.problem)
            first: Candidate = "nothing" if search.best is None else search.best
            return Checkpoints(search, tables, steps, rlimit, interrupted, first, reserve).run(attempts)
        except OutOfTime:
            return None


def _refine(search: Search, model: StepModel, rlimit: int) -> Outcome:
    """Run the loop of algorithm 1; the best schedule's first half so far is frozen as far as the model has it."""
    steps = model.steps
    seed = [] if search.best is None else search.best.steps()[: steps // 2]
    frozen = [{s for s in _sendings(step) if s in model.send} for step in seed]
    while True:
        search.stop_check(model.clauses.stop)()
        left = rlimit - model.clauses.spent
        if left <= 0:
            return GaveUp(f"no answer for {steps} steps within the solver's budget", search.elapsed())
        # a check with frozen steps gets a part only, as it may have no answer that helps
        spend = max(1, left // 4 if frozen else left)
        before, began = model.clauses.spent, search.elapsed()
        answer = model.check([s for step in frozen for s in step], spend, search.remaining())
        units, seconds = model.clauses.spent - before, round(search.elapsed() - began, 6)
        violations, sent = list[Violation](), None
        if answer == "sat":
            proposal = Schedule.of(model.transfers(), steps)
            violations = search.oracle(search.problem, proposal)
            sent = few([(t.chunk, t.link, t.start) for t in proposal.transfers])
        told, words = (len(model.laws), len(model.send)), tuple(v.message for v in violations[:3])
        search.trace.note(
            CegisEntry(steps, "whole", len(frozen), words, len(violations), *told, answer, units, seconds, sent)
        )
        if answer == "unknown":
            if model.clauses.timed_out:
                search.clock_decisions.note("solver")
            frozen = frozen[: len(frozen) // 2]
        elif answer == "unsat":
            core = model.core()
            if not core:
                return Infeasible("the step model is unsatisfiable", steps)
            frozen = frozen[: max(t for _, _, t in core)]
        elif not violations:
            return Synthesized(without_useless(search.problem, proposal.transfers, steps))
        else:
            frozen = _revise(model, proposal, violations)


def _sendings(transfers: Iterable[Transfer]) -> set[Sending]:
    return {(t.chunk, t.link, t.start) for t in transfers}


def _revise(model: StepModel, proposal: Schedule, violations: list[Violation]) -> list[set[Sending]]:
    """REVISEFULL: learn the broken laws, keep the steps before the checkpoint, mend the checkpoint."""
    learned = [model.add(_law(model, violation)) for violation in violations]
    if not any(learned):
        raise InternalError(f"the solver broke a law it was told: {violations[0].message}")
    checkpoint = min((v.step for v in violations if v.step is not None), default=0)
    before = [_sendings(step) for step in proposal.steps()[:checkpoint]]
    # the first step that breaks a law: what fits of it, in order, then deliveries while there is room
    tables, problem = model.tables, model.tables.problem
    holds, _ = start_arrays(problem)
    for k, a, _ in chain.from_iterable(before):
        holds[k, problem.arcs[a].dst] = True
    filled = Step(tables, holds, Peers(tables, tables.arcs))
    for k, a, _ in sorted(_sendings(proposal.steps()[checkpoint])):
        filled.send(k, a)
    for k, targets in enumerate(problem.collective.post):
        for rank in sorted(targets):
            for a in tables.into[rank]:
                if filled.send(k, a):
                    break
    return [*before, {s for k, a in filled.sends if (s := (k, a, checkpoint)) in model.send}]


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
