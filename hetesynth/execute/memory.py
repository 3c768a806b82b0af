"""The memory of one rank: input, output and scratch, filled before a run and checked after it.

Everything that a program must write starts as poison; inputs are known, so that a change shows afterwards. What it
is compared with (``Reference``) follows the definitions of the NCCL manual and knows no chunks and no program.
"""

from dataclasses import dataclass
from functools import reduce
from typing import Literal

import numpy as np

from hetesynth.execute.arithmetic import POISON, Arithmetic, Elements
from hetesynth.execute.outcome import Fault, Run, WrongBytes
from hetesynth.model.collective import COLLECTIVES, CollectiveKind, CollectiveName
from hetesynth.model.program import Buffer

SHOWN_BYTES = 16
PER_RANK = frozenset(
    name for name, kind in COLLECTIVES.items() if kind.input_blocks != kind.output_blocks or kind.exchange
)
"""Collectives whose larger buffer has one block per rank; the others have one block in all."""


@dataclass(frozen=True, slots=True)
class Buffers:
    """A rank's input and output in its memory, in elements: (first, count). ``memory``: the elements of all.

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
    def kind(self) -> CollectiveKind:
        """The properties of the collective."""
        return COLLECTIVES[self.name]

    @property
    def input_elements(self) -> int:
        """Elements of a full input buffer."""
        return self.block * (self.ranks if self.kind.input_blocks and self.name in PER_RANK else 1)

    @property
    def output_elements(self) -> int:
        """Elements of a full output buffer."""
        return self.block * (self.ranks if self.kind.output_blocks and self.name in PER_RANK else 1)

    @property
    def total_elements(self) -> int:
        """Elements of the larger buffer: what a size of this collective counts."""
        return max(self.input_elements, self.output_elements)

    def buffers(self, rank: int, in_place: bool) -> Buffers:
        """Return the buffers of ``rank``: apart or, in place, the smaller at the rank's block of the larger."""
        inputs, outputs, at = self.input_elements, self.output_elements, rank * self.block
        if in_place:
            firsts = at if inputs < outputs else 0, at if outputs < inputs else 0
            return Buffers((firsts[0], inputs), (firsts[1], outputs), max(inputs, outputs))
        if rank != self.root:
            inputs = inputs if self.contributes(rank) else 0
            outputs = 0 if self.name in ("reduce", "gather") else outputs
        return Buffers((0, inputs), (inputs, outputs), inputs + outputs)

    def contributes(self, rank: int) -> bool:
        """Return True if the input of ``rank`` holds data."""
        return self.name not in ("broadcast", "scatter") or rank == self.root

    def expected(self, rank: int, numbers: Arithmetic) -> Elements | None:
        """Return the elements that the output of ``rank`` must hold; None: anything."""
        if self.name in ("reduce", "gather") and rank != self.root:
            return None
        first = rank * self.block if self.input_elements > self.block else 0
        came = [numbers.contribution(r, first, self.block) for r in range(self.ranks) if self.contributes(r)]
        return reduce(numbers.combine, came) if self.kind.reduces else np.concatenate(came)


class Memory:
    """The memory of a rank. ``chunk``: elements of a chunk. ``scratch``: chunks. ``buffers``: where input and
    output stand. ``chunks``: those of each buffer, shape (chunks, elements)."""

    def __init__(
        self,
        reference: Reference,
        numbers: Arithmetic,
        rank: int,
        buffers: Buffers,
        *,
        chunk: int,
        scratch: int,
        in_place: bool,
    ) -> None:
        self.chunk = chunk
        self.reference, self.numbers, self._rank, self._in_place = reference, numbers, rank, in_place
        width = numbers.item_bytes
        bytes_of = np.full((buffers.memory + scratch * chunk) * width, POISON, dtype=np.uint8)
        memory = bytes_of.view(numbers.type)
        self._input = memory[buffers.input[0] : sum(buffers.input)]
        self._output = memory[buffers.output[0] : sum(buffers.output)]
        if reference.contributes(rank) and buffers.input[1]:
            self._input[:] = numbers.contribution(rank, 0, buffers.input[1])
        parts = {"i": self._input, "o": self._output, "s": memory[buffers.memory :]}
        self.chunks = {name: part.reshape(-1, chunk) for name, part in parts.items()}
        self._both = memory[: buffers.memory].reshape(-1, chunk)

    def view(self, buffer: Buffer, offset: int, count: int, elements: slice) -> Elements:
        """``elements`` of each of ``count`` chunks, shape (count, elements). Fault: outside the buffer."""
        return self._slice(buffer, self.chunks[buffer], offset, count)[:, elements]

    def seen_from(self, rank: int, buffer: Buffer, offset: int, count: int) -> Elements:
        """Return the chunks of ``buffer`` here that ``rank`` reaches: it takes its own offsets to hold here too.

        In place, the input of an allgather begins elsewhere on every rank, and ``rank`` misses by the difference.
        """
        if not self._in_place or buffer == "s":
            return self._slice(buffer, self.chunks[buffer], offset, count)
        buffers = self.reference.buffers(rank, True)
        first = (buffers.input if buffer == "i" else buffers.output)[0] // self.chunk
        return self._slice(buffer, self._both[first:], offset, count)

    def _slice(self, buffer: Buffer, chunks: Elements, offset: int, count: int) -> Elements:
        if offset < 0 or count < 1 or offset + count > len(chunks):
            last = f"..{offset + count - 1}" if count > 1 else ""
            raise Fault(f"{buffer}[{offset}{last}] is outside the buffer, which has {len(chunks)} chunks")
        return chunks[offset : offset + count]

    def check(self, seconds: float) -> Run:
        """Compare every byte of the output and, out of place, of the input; return the run of this rank."""
        sides: list[tuple[Literal["input", "output"], Elements, Elements]] = []
        expected = self.reference.expected(self._rank, self.numbers)
        if expected is not None:
            sides.append(("output", expected, self._output))
        if not self._in_place and len(self._input) and self.reference.contributes(self._rank):
            sides.append(("input", self.numbers.contribution(self._rank, 0, len(self._input)), self._input))
        checked = wrong = 0
        first: list[WrongBytes] = []
        chunk_bytes = self.chunk * self.numbers.item_bytes
        for buffer, right, stands in sides:
            if len(right) != len(stands):
                fault = f"rank {self._rank} the {buffer} buffer has {len(stands)} elements, not {len(right)}"
                return Run(self._in_place, "fault", seconds, diagnosis=(fault,))
            a, b = right.view(np.uint8), stands.view(np.uint8)
            differ = np.flatnonzero(a != b)
            checked += len(a)
            wrong += len(differ)
            for at in differ[:1].tolist():
                end = min(at + SHOWN_BYTES, (at // chunk_bytes + 1) * chunk_bytes)
                said = (side[at:end].tobytes().hex(" ", 4) for side in (a, b))
                first.append(WrongBytes(self._rank, buffer, *divmod(at, chunk_bytes), *said))
        return Run(self._in_place, "done", seconds, checked, wrong, tuple(first))
