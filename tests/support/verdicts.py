"""What the judges say, in the form in which tests ask for it."""

from __future__ import annotations

from hetesynth.judge.bounds.judge import Unsat, recheck
from hetesynth.judge.msccl.linter import Acceptance, lint_targets
from hetesynth.judge.msccl.reader import ReadResult
from hetesynth.model.bound import LowerBound
from hetesynth.model.problem import Problem
from hetesynth.model.target import TARGETS, Target
from hetesynth.model.verdict import Violation

XML_TARGETS: tuple[str, ...] = tuple(name for name, target in TARGETS.items() if target.format.program)


def certificate_violations(problem: Problem, bound: LowerBound, *, unsat: Unsat | None = None) -> list[Violation]:
    """What is wrong with ``bound``. A query that ``unsat`` does not decide is no violation."""
    return list(recheck(problem, bound, unsat=unsat).violations)


def acceptance(read: ReadResult, target: Target) -> Acceptance:
    """What ``target``'s reader does with the file."""
    return lint_targets(read, [target])[0].acceptance
