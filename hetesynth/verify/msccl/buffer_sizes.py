"""Buffers: how large, which memory they share, what they hold at the start and must hold at the end.

In: a program, whether it runs in place, and the root. Out: cells (one per chunk of memory of one GPU), the
value of each input chunk and the value each output chunk must end with. Knows nothing of instructions.

Sizes and aliasing follow NCCL's rules: in place means ``send == recv`` for allreduce, alltoall, broadcast and
reduce; ``send == recv + rank * block`` for allgather (and gather at the root); ``recv == send + rank * block`` for
reducescatter (and scatter at the root). C chunks per loop cut the whole buffer of the collective. For gather and
scatter C is taken to cut either one rank's block or the root's buffer, whichever the declared sizes say.
The buffers that NCCL lets be null away from the root (input of broadcast and scatter, output of reduce and
gather) do not exist there.
"""

from __future__ import annotations

from dataclasses import dataclass

from hetesynth.model.program import Buffer, GpuProgram, Program
from hetesynth.model.topology import Rank

Value = tuple[int, int]
"""(chunk of the input buffer, set of the ranks whose input is summed, as a bit mask)."""

BROKEN: Value = (-1, 0)
"""The outcome of an operation that was already reported."""

COLLECTIVES = frozenset(
    {"allgather", "reducescatter", "allreduce", "broadcast", "reduce", "gather", "scatter", "alltoall"}
)
ROOTED = frozenset({"broadcast", "reduce", "gather", "scatter"})
_PER_RANK = frozenset({"allgather", "reducescatter", "alltoall", "gather", "scatter"})


@dataclass(frozen=True, slots=True)
class Sizes:
    """Chunks in a full input buffer, a full output buffer, and one rank's block."""

    input: int
    output: int
    block: int


def buffer_sizes(program: Program) -> Sizes | None:
    """The sizes that the collective asks for, or None when C does not divide as it must or nothing is known."""
    chunks, ranks, name = program.chunks_per_loop, program.ranks, program.collective
    if name not in COLLECTIVES:
        return None
    if name in ("gather", "scatter"):
        block = chunks if _declares_whole_block(program) else chunks // ranks
        if block != chunks and chunks % ranks:
            return None
        return Sizes(block, block * ranks, block) if name == "gather" else Sizes(block * ranks, block, block)
    if name in _PER_RANK and chunks % ranks:
        return None
    block = chunks // ranks if name in _PER_RANK else chunks
    if name == "allgather":
        return Sizes(block, chunks, block)
    if name == "reducescatter":
        return Sizes(chunks, block, block)
    return Sizes(chunks, chunks, block)


def _declares_whole_block(program: Program) -> bool:
    """Gather and scatter: whether a rank's own block has C chunks."""
    own = [g.input_chunks if program.collective == "gather" else g.output_chunks for g in program.gpus]
    return max(own, default=0) == program.chunks_per_loop


@dataclass(frozen=True, slots=True)
class Layout:
    """One way to place the buffers. ``sizes`` None: declared sizes are used and no final data is known."""

    program: Program
    sizes: Sizes | None
    in_place: bool
    root: Rank | None

    def bases(self, gpu: GpuProgram) -> dict[Buffer, int]:
        """The cell of chunk 0 of each buffer of one GPU."""
        declared = Sizes(gpu.input_chunks, gpu.output_chunks, 0)
        sizes = self.sizes or declared
        name, shift = self.program.collective, gpu.rank * sizes.block
        if not self.in_place:
            return {"i": 0, "o": sizes.input, "s": sizes.input + sizes.output}
        scratch = max(sizes.input, sizes.output) + (0 if self.sizes else 1)
        if name in ("allgather", "gather"):
            return {"i": shift, "o": 0, "s": scratch}
        if name in ("reducescatter", "scatter"):
            return {"i": 0, "o": shift, "s": scratch}
        return {"i": 0, "o": 0, "s": scratch}

    def missing_buffer(self, rank: Rank, buffer: Buffer) -> bool:
        """Whether NCCL gives this rank no such buffer: only the root's is real."""
        if self.root is None or rank == self.root or self.in_place:
            return False
        absent = {"broadcast": "i", "scatter": "i", "reduce": "o", "gather": "o"}
        return absent.get(self.program.collective) == buffer

    def initial(self, gpu: GpuProgram, cell: int) -> Value | None:
        """What a cell holds before the first instruction; None: undefined."""
        name = self.program.collective
        if name in ("broadcast", "scatter") and gpu.rank != self.root:
            return None
        size = self.sizes.input if self.sizes else gpu.input_chunks
        chunk = cell - self.bases(gpu)["i"]
        return (chunk, 1 << gpu.rank) if 0 <= chunk < size else None

    def expected(self, rank: Rank, chunk: int) -> Value | None:
        """What output chunk ``chunk`` must hold at ``rank`` at the end; None: anything."""
        name, sizes, root = self.program.collective, self.sizes, self.root
        if sizes is None:
            return None
        everyone = (1 << self.program.ranks) - 1
        owner, part = divmod(chunk, sizes.block)
        if name in ("allgather", "gather"):
            return None if name == "gather" and rank != root else (part, 1 << owner)
        if name == "alltoall":
            return rank * sizes.block + part, 1 << owner
        if name == "allreduce" or (name == "reduce" and rank == root):
            return chunk, everyone
        if name == "reducescatter":
            return rank * sizes.block + chunk, everyone
        if root is not None and name == "broadcast":
            return chunk, 1 << root
        if root is not None and name == "scatter":
            return rank * sizes.block + chunk, 1 << root
        return None


def named(value: Value | None) -> str:
    """The value in words: ``chunk 3 of ranks 0,2`` (chunks of the input buffer)."""
    if value is None:
        return "nothing"
    if value == BROKEN:
        return "spoilt data"
    chunk, mask = value
    ranks = [r for r in range(mask.bit_length()) if mask >> r & 1]
    text = ",".join(map(str, ranks[:12])) + (",..." if len(ranks) > 12 else "")
    return f"input chunk {chunk} of rank{'s' if len(ranks) != 1 else ''} {text}"
