"""The memory of the GPUs of a program: what an access knows, and races in the words of MSCCL files.

In: accesses, each with the vector clock of the thread block that makes it. Out: values and findings.

A vector clock has one entry per thread block of the program: entry b is the number of b's instructions (of its
messages, where instructions are split) known to have finished. An access stamped (b, k) happened before an
access under vector clock c when c[b] >= k.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from hetesynth.judge.layout import Layout
from hetesynth.judge.msccl.checks import RECEIVES, SENDS
from hetesynth.judge.msccl.findings import Findings, Place
from hetesynth.judge.race_detection import Conflict, Kind, Memory, Part
from hetesynth.model.program import Instruction
from hetesynth.model.topology import Rank

Clock = npt.NDArray[np.unsignedinteger]


class Span(NamedTuple):
    """``size`` cells from ``first``, which the program calls ``buffer`` from ``offset``."""

    first: int
    size: int
    buffer: str
    offset: int


class ProgramAccess(NamedTuple):
    """Who touches memory: thread block ``actor`` at step ``operation``, in its ``stamp``-th message or other
    instruction, knowing ``clock``."""

    actor: int
    stamp: int
    clock: Clock
    operation: int

    def knows(self, actor: int, stamp: int, part: Part, position: int) -> bool:
        """Whether an access stamped so happened before; steps of one thread block are in order."""
        return actor == self.actor or bool(self.clock[actor] >= stamp)


class ProgramMemory(Memory[ProgramAccess, Span]):
    """The cells of one GPU. ``places``: of each thread block; ``split``: the most chunks a message carries, 0: all
    of its instruction."""

    BY_POSITION = False

    def __init__(self, layout: Layout, rank: Rank, findings: Findings, places: list[Place], split: int) -> None:
        super().__init__(layout, rank)
        self._findings = findings
        self._places = places
        self._split = split

    def _undefined(self, access: ProgramAccess, where: Span, position: int) -> None:
        text = f"reads {_cell_name(where, position)}, which nothing has written yet"
        self._findings.add("undefined-data", text, self._place(access))

    def _report_race(
        self, access: ProgramAccess, kind: Kind, other: Conflict, where: Span, position: int
    ) -> None:  # fmt: skip
        place = self._places[other.actor]
        block = self._findings.program.gpus[place.gpu].thread_blocks[place.block or 0]
        finished = list(accumulate(parts(x, self._split) for x in block.instructions))
        step = bisect_left(finished, other.stamp)
        text = f"{kind}s {_cell_name(where, position)} while thread block {block.id} step {step} {other.kind}s it"
        rule = "split-race" if self._split else "race"
        self._findings.add(rule, f"{text}: no dependence or message orders them", self._place(access))

    def _place(self, access: ProgramAccess) -> Place:
        block = self._places[access.actor]
        return Place(block.gpu, block.block, access.operation)


def parts(x: Instruction, split: int) -> int:
    """How many messages the instruction has where one carries at most ``split`` chunks; 0: it is one."""
    return -(-x.count // split) if split and (x.op in SENDS or x.op in RECEIVES) else 1


def _cell_name(span: Span, position: int) -> str:
    return f"{span.buffer}[{span.offset + position}]"
