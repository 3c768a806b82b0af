"""Buffers of a collective: which memory they share, what they hold at the start and must hold at the end.

A cell is one chunk of memory of one GPU; its value says which ranks' contributions it holds. How many chunks the
buffers have is read from a program in ``msccl/checks.py`` and from a plan in ``mscclpp/judge.py``, because the two
formats state it differently. The emitter's layout, ``programs/layout.py``, is another one: it is judged by this.

Aliasing follows NCCL's rules: in place means ``send == recv`` for allreduce, alltoall, broadcast and reduce;
``send == recv + rank * block`` for allgather (and gather at the root); ``recv == send + rank * block`` for
reducescatter (and scatter at the root). The buffers that NCCL lets be null away from the root (input of
broadcast and scatter, output of reduce and gather) do not exist there.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from hetesynth.model.program import Buffer
from hetesynth.model.topology import Rank

Value = tuple[int, int]
"""(chunk of the input buffer, set of the ranks whose input is summed, as a bit mask)."""

BROKEN: Value = (-1, 0)
"""The outcome of an operation that was already reported."""

SHOWN_RANKS = 12
SumDefect = Literal["different chunks", "added twice"]

COLLECTIVES = frozenset(
    {"allgather", "reducescatter", "allreduce", "broadcast", "reduce", "gather", "scatter", "alltoall"}
)
ROOTED = frozenset({"broadcast", "reduce", "gather", "scatter"})
_INPUT_IN_OUTPUT = frozenset({"allgather", "gather"})  # in place the input is the own block of the output
_OUTPUT_IN_INPUT = frozenset({"reducescatter", "scatter"})  # in place the output is the own block of the input


def buffer_sizes(name: str, ranks: int, block: int) -> tuple[int, int]:
    """Chunks in a full input and a full output buffer, of which one rank's share has ``block``."""
    whole = ranks * block
    inputs = whole if name in ("reducescatter", "scatter", "alltoall") else block
    return inputs, whole if name in ("allgather", "gather", "alltoall") else block


@dataclass(frozen=True, slots=True)
class Layout:
    """A placement of the buffers. ``inputs``, ``outputs``: chunks of each rank's buffers. ``block``: chunks of one
    rank's share; None: the final data is not known."""

    collective: str
    in_place: bool
    root: Rank | None
    inputs: Sequence[int]
    outputs: Sequence[int]
    block: int | None

    def cell(self, owner: Rank, seen_from: Rank, buffer: Buffer, index: int) -> int:
        """The memory of ``owner`` that ``seen_from`` means by a chunk of the owner's ``buffer``.

        MSCCL++ finds a remote buffer by the offset that the *own* buffer has in its allocation: out of place all
        offsets are taken as equal, but in place the input of an allgather (and the output of a reducescatter)
        begins elsewhere on every rank, so a peer's is missed by the difference.
        """
        inputs, outputs = self.inputs[owner], self.outputs[owner]
        if not self.in_place:
            return {"i": 0, "o": inputs, "s": inputs + outputs}[buffer] + index
        if buffer == "s":  # behind whatever a shift may reach
            return (inputs + outputs + 1) * (len(self.inputs) + 1) + index
        shifted = _INPUT_IN_OUTPUT if buffer == "i" else _OUTPUT_IN_INPUT
        return index + (seen_from * (self.block or 0) if self.collective in shifted else 0)

    def missing_buffer(self, rank: Rank, buffer: Buffer) -> bool:
        """Return True if NCCL gives this rank no such buffer: only the root's is real."""
        if self.root is None or rank == self.root or self.in_place:
            return False
        return {"broadcast": "i", "scatter": "i", "reduce": "o", "gather": "o"}.get(self.collective) == buffer

    def initial(self, rank: Rank, cell: int) -> Value | None:
        """Return the value of a cell before the first instruction; None: undefined."""
        if self.collective in ("broadcast", "scatter") and rank != self.root:
            return None
        chunk = cell - self.cell(rank, rank, "i", 0)
        return (chunk, 1 << rank) if 0 <= chunk < self.inputs[rank] else None

    def expected(self, rank: Rank, chunk: int) -> Value | None:
        """Return the value that output chunk ``chunk`` must have at ``rank`` at the end; None: any."""
        if self.block is None:
            return None
        owner, part = divmod(chunk, self.block)
        everyone = (1 << len(self.inputs)) - 1
        match self.collective:
            case "allgather":
                return part, 1 << owner
            case "gather":
                return (part, 1 << owner) if rank == self.root else None
            case "alltoall":
                return rank * self.block + part, 1 << owner
            case "allreduce":
                return chunk, everyone
            case "reduce":
                return (chunk, everyone) if rank == self.root else None
            case "reducescatter":
                return rank * self.block + chunk, everyone
            case "broadcast" if self.root is not None:
                return chunk, 1 << self.root
            case "scatter" if self.root is not None:
                return rank * self.block + chunk, 1 << self.root
        return None


def named(value: Value | None) -> str:
    """Return the value in words: ``input chunk 3 of ranks 0,2``."""
    if value is None:
        return "nothing"
    if value == BROKEN:
        return "spoilt data"
    chunk, mask = value
    ranks = [r for r in range(mask.bit_length()) if mask >> r & 1]
    text = ",".join(map(str, ranks[:SHOWN_RANKS])) + (",..." if len(ranks) > SHOWN_RANKS else "")
    return f"input chunk {chunk} of rank{'s' if len(ranks) != 1 else ''} {text}"


def final_defect(layout: Layout, rank: Rank, value: Callable[[int], Value | None]) -> str:
    """Return what is wrong with the output of ``rank``, chunks that another finding spoilt aside; empty: nothing.
    ``value``: gives the value of an output chunk."""
    first, wrong, chunks = "", 0, layout.outputs[rank]
    for chunk in range(chunks):
        expected, ends = layout.expected(rank, chunk), value(chunk)
        if expected is not None and ends not in (expected, BROKEN):
            wrong += 1
            first = first or f"o[{chunk}] ends with {named(ends)}, not {named(expected)}"
    return first + (f" ({wrong} of its {chunks} output chunks are wrong)" if wrong > 1 else "")


def added(a: Sequence[Value], b: Sequence[Value], report: Callable[[SumDefect, str], None]) -> list[Value]:
    """Return the sums of ``a`` and ``b``, chunk by chunk. Different chunks, or a contribution that both sides
    hold, are reported with a sentence."""
    total: list[Value] = []
    for x, y in zip(a, b, strict=True):
        both = BROKEN
        if BROKEN in (x, y):
            pass
        elif x[0] != y[0]:
            report("different chunks", f"adds {named(x)} to {named(y)}: different chunks")
        elif x[1] & y[1]:
            twice = named((x[0], x[1] & y[1]))
            report("added twice", f"contribution added twice: both sides already hold {twice}")
        else:
            both = x[0], x[1] | y[1]
        total.append(both)
    return total
