"""Where in a program something stands, and the list of findings about it.

In: the name of a rule, a sentence and a place. Out: Violations that name gpu, thread block, step and, when the
program was read from a file, the line. Knows nothing of what is checked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hetesynth.judge.msccl.rules import RULES
from hetesynth.model.program import BufferSlice, Program
from hetesynth.model.verdict import Violation

MAX_FINDINGS = 50


@dataclass(frozen=True, slots=True)
class Place:
    """Positions, not ids: the ``gpu``-th GPU, its ``block``-th thread block, that one's ``step``-th step."""

    gpu: int
    block: int | None = None
    step: int | None = None


Lines = Mapping[tuple[int, int], list[int]]
"""(position of the GPU, position of the thread block) -> line of the block, then of each of its steps.
The position -1 for the thread block stands for the GPU itself."""


@dataclass(slots=True)
class Findings:
    """Collects at most ``limit`` violations, and at most ``per_rule`` of each rule.

    ``context`` and the place are put before each message.
    """

    program: Program
    lines: Lines
    limit: int = MAX_FINDINGS
    context: str = ""
    violations: list[Violation] = field(default_factory=list)
    per_rule: int = MAX_FINDINGS
    _counts: dict[str, int] = field(default_factory=dict)

    @property
    def full(self) -> bool:
        """Whether further findings are dropped."""
        return len(self.violations) >= self.limit

    def add(self, rule: str, message: str, place: Place | None = None) -> None:
        """Keeps the finding, unless there are enough already. ``rule``: a name in rules.RULES."""
        seen = self._counts.get(rule, 0)
        if self.full or seen >= self.per_rule:
            return
        self._counts[rule] = seen + 1
        checked = RULES[rule]
        if place is None:
            self.violations.append(Violation(checked.kind, self.context + message, rule=checked.id))
            return
        text = f"{self.context}{self.where(place)}: {message}"
        gpu = self.program.gpus[place.gpu]
        block = None if place.block is None else gpu.thread_blocks[place.block].id
        self.violations.append(
            Violation(
                checked.kind, text, step=place.step, rank=gpu.rank, thread_block=block, line=self._line(place),
                rule=checked.id,
            )
        )  # fmt: skip

    def _line(self, place: Place) -> int | None:
        lines = self.lines.get((place.gpu, -1 if place.block is None else place.block))
        index = 0 if place.step is None else place.step + 1
        return None if lines is None else lines[index]

    def where(self, place: Place) -> str:
        """``gpu 0 thread block 1 step 2`` in the file's own ids."""
        gpu = self.program.gpus[place.gpu]
        text = f"gpu {gpu.rank}"
        if place.block is not None:
            text += f" thread block {gpu.thread_blocks[place.block].id}"
        return text if place.step is None else f"{text} step {place.step}"


def shown(part: BufferSlice, count: int = 1) -> str:
    """``o[3]`` or ``o[3..5]``."""
    last = part.offset + count - 1
    return f"{part.buffer}[{part.offset}]" if last <= part.offset else f"{part.buffer}[{part.offset}..{last}]"
