"""What a collective does to buffers, by its definition in the NCCL manual: sizes, aliasing, and the final data.

It knows no chunks and no program: this is the reference that a program is compared with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hetesynth.execute.arithmetic import Arithmetic, Elements
from hetesynth.model.collective import CollectiveName

PER_RANK: frozenset[CollectiveName] = frozenset({"allgather", "reducescatter", "alltoall", "gather", "scatter"})
"""Collectives whose larger buffer has one block per rank; the others have one block in all."""
_LARGE_INPUT: frozenset[CollectiveName] = frozenset({"reducescatter", "alltoall", "scatter"})
_LARGE_OUTPUT: frozenset[CollectiveName] = frozenset({"allgather", "alltoall", "gather"})
_SHIFTED_INPUT: frozenset[CollectiveName] = frozenset({"allgather", "gather"})
_SHIFTED_OUTPUT: frozenset[CollectiveName] = frozenset({"reducescatter", "scatter"})


@dataclass(frozen=True, slots=True)
class Buffers:
    """Where a rank's input and output stand in its memory, in elements: (first, count). ``memory``: all of it.

    A count of 0: the rank has no such buffer (NCCL takes a null pointer there).
    """

    input: tuple[int, int]
    output: tuple[int, int]
    memory: int


@dataclass(frozen=True, slots=True)
class Reference:
    """A collective on ``ranks`` ranks with ``block`` elements a block."""

    name: CollectiveName
    ranks: int
    root: int | None
    block: int

    @property
    def input_elements(self) -> int:
        """Elements of a full input buffer."""
        return self.block * (self.ranks if self.name in _LARGE_INPUT else 1)

    @property
    def output_elements(self) -> int:
        """Elements of a full output buffer."""
        return self.block * (self.ranks if self.name in _LARGE_OUTPUT else 1)

    @property
    def total_elements(self) -> int:
        """Elements of the larger buffer: what a size of this collective counts."""
        return max(self.input_elements, self.output_elements)

    def buffers(self, rank: int, in_place: bool) -> Buffers:
        """The buffers of ``rank``: apart, or one inside the other."""
        inputs, outputs = self.input_elements, self.output_elements
        if in_place:
            at = rank * self.block
            return Buffers(
                (at if self.name in _SHIFTED_INPUT else 0, inputs),
                (at if self.name in _SHIFTED_OUTPUT else 0, outputs),
                max(inputs, outputs),
            )
        if rank != self.root:
            inputs = 0 if self.name in ("broadcast", "scatter") else inputs
            outputs = 0 if self.name in ("reduce", "gather") else outputs
        return Buffers((0, inputs), (inputs, outputs), inputs + outputs)

    def contributes(self, rank: int) -> bool:
        """Whether the input of ``rank`` holds data."""
        return self.name not in ("broadcast", "scatter") or rank == self.root

    def expected(self, rank: int, numbers: Arithmetic) -> Elements | None:
        """What the output of ``rank`` must hold; None: anything."""
        block, mine, everyone = self.block, rank * self.block, range(self.ranks)
        match self.name:
            case "allgather":
                return _joined(numbers, everyone, 0, block)
            case "alltoall":
                return _joined(numbers, everyone, mine, block)
            case "allreduce":
                return _reduced(numbers, self.ranks, 0, block)
            case "reducescatter":
                return _reduced(numbers, self.ranks, mine, block)
            case "broadcast":
                return _joined(numbers, [self.root or 0], 0, block)
            case "scatter":
                return _joined(numbers, [self.root or 0], mine, block)
            case "gather":
                return _joined(numbers, everyone, 0, block) if rank == self.root else None
            case "reduce":
                return _reduced(numbers, self.ranks, 0, block) if rank == self.root else None


def _joined(numbers: Arithmetic, sources: Sequence[int], first: int, count: int) -> Elements:
    return np.concatenate([numbers.contribution(rank, first, count) for rank in sources])


def _reduced(numbers: Arithmetic, ranks: int, first: int, count: int) -> Elements:
    total = numbers.contribution(0, first, count)
    for rank in range(1, ranks):
        total = numbers.combine(total, numbers.contribution(rank, first, count))
    return total
