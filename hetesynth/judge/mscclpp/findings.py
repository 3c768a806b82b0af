"""Where in a plan something stands, and the list of findings about it.

In: the name of a rule, a sentence and a place. Out: Violations. Knows nothing of what is checked. The judge of
programs has a list of its own, ``msccl/findings.py``: its places are ids and lines of a file.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hetesynth.judge.msccl.findings import MAX_FINDINGS
from hetesynth.judge.mscclpp.rules import PLAN_RULES
from hetesynth.model.verdict import Violation


@dataclass(frozen=True, slots=True)
class PlanPlace:
    """Positions: the GPU, its thread block, that one's operation."""

    gpu: int
    block: int | None = None
    operation: int | None = None

    def __str__(self) -> str:
        text = f"gpu {self.gpu}"
        if self.block is not None:
            text += f" thread block {self.block}"
        return text if self.operation is None else f"{text} operation {self.operation}"


@dataclass(slots=True)
class PlanFindings:
    """Collects at most ``limit`` violations."""

    limit: int = MAX_FINDINGS
    violations: list[Violation] = field(default_factory=list)

    @property
    def full(self) -> bool:
        """Whether further findings are dropped."""
        return len(self.violations) >= self.limit

    def add(self, rule: str, message: str, place: PlanPlace | None = None) -> None:
        """Keeps the finding, unless there are enough already. ``rule``: a name in rules.PLAN_RULES."""
        if self.full:
            return
        checked = PLAN_RULES[rule]
        if place is None:
            self.violations.append(Violation(checked.kind, message, rule=checked.id))
            return
        text, step, block = f"{place}: {message}", place.operation, place.block
        violation = Violation(checked.kind, text, step=step, rank=place.gpu, thread_block=block, rule=checked.id)
        self.violations.append(violation)
