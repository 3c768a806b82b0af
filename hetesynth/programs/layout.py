"""Where each chunk of a collective stands in the input and output buffers.

In: a collective and whether input and output are one buffer. Out: offsets in chunks, buffer sizes and the
aliasing of cells. Knows nothing of schedules and of scratch.

The conventions are those of NCCL and MSCCL: allgather's output holds rank j's block at j*c, alltoall's input
block j goes to rank j and its output block j comes from rank j, in place means the pointers NCCL calls in place.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from hetesynth.model.collective import ROOTED, Chunk, Collective, CollectiveName
from hetesynth.model.program import Buffer, BufferSlice
from hetesynth.model.topology import Rank

NOT_IN_PLACE: frozenset[CollectiveName] = frozenset({"gather", "scatter"})
_BLOCK_IN_INPUT: frozenset[CollectiveName] = frozenset({"reducescatter", "scatter"})
_BLOCK_IN_OUTPUT: frozenset[CollectiveName] = frozenset({"allgather", "gather"})

Cell = tuple[Buffer, int]
"""One chunk of memory of a GPU; cells that alias have one name (``Layout.cell``)."""

CopySlice = tuple[BufferSlice, BufferSlice, int]
"""Neighbouring chunks that move together: (from, to, how many)."""


def in_place_supported(collective: CollectiveName) -> bool:
    """Whether the format has an in-place form of the collective: gather and scatter have none."""
    return collective not in NOT_IN_PLACE


@lru_cache(maxsize=1 << 16)
def chunk_at(buffer: Buffer, offset: int) -> BufferSlice:
    """One chunk; as large programs name each very often, equal ones are mostly one object."""
    return BufferSlice(buffer, offset)


@dataclass(frozen=True, slots=True)
class Layout:
    """Buffers of ``collective``: ``c`` chunks per block, ``n`` ranks, all sizes and offsets in chunks.

    Ranks that NCCL lets pass a null pointer have a buffer of size 0: the output of a gather and the input of a
    scatter away from the root. Reduce and broadcast declare both buffers everywhere, but away from the root
    reduce never writes its output and broadcast never reads its input.
    """

    collective: Collective
    in_place: bool

    @property
    def chunks_per_loop(self) -> int:
        """Chunks that the count of the call is cut into: n*c, and c for the rooted collectives.

        The runtimes multiply the count by the number of ranks for allgather, reduce-scatter and alltoall only, so
        a gather or scatter is cut by its block.
        """
        parts, name = self.collective.chunks_per_rank, self.collective.name
        return parts if name in ROOTED else parts * self.collective.ranks

    def sizes(self, rank: Rank) -> tuple[int, int]:
        """Chunks of the input and of the output buffer of ``rank``."""
        name, block = self.collective.name, self.collective.chunks_per_rank
        whole = block * self.collective.ranks
        at_root = rank == self.collective.root
        match name:
            case "allgather":
                return block, whole
            case "reducescatter":
                return whole, block
            case "gather":
                return block, whole if at_root else 0
            case "scatter":
                return whole if at_root else 0, block
            case "broadcast" | "reduce":
                return block, block
            case _:
                return whole, whole

    def source(self, rank: Rank, chunk: int) -> BufferSlice | None:
        """Where ``rank``'s own contribution to ``chunk`` stands at the start, or None if it has none.

        In place, a rank that also owes the result finds it in the output buffer, under that name.
        """
        if rank not in self.collective.pre[chunk]:
            return None
        stored = chunk_at("i", self._input_offset(self.collective.chunks[chunk]))
        target = self.target(rank, chunk)
        if target is not None and self.cell(rank, stored) == self.cell(rank, target):
            return target
        return stored

    def target(self, rank: Rank, chunk: int) -> BufferSlice | None:
        """Where ``chunk`` must stand at ``rank`` in the end, or None if it need not."""
        if rank not in self.collective.post[chunk]:
            return None
        return chunk_at("o", self._output_offset(self.collective.chunks[chunk]))

    def cell(self, rank: Rank, place: BufferSlice) -> Cell:
        """The memory behind ``place``: in place, the two names of one chunk give one cell."""
        if not self.in_place or place.buffer == "s":
            return place.buffer, place.offset
        own = rank * self.collective.chunks_per_rank
        match self.collective.name, place.buffer:
            case "allgather", "i":
                return "o", own + place.offset
            case "reducescatter", "o":
                return "i", own + place.offset
            case ("allgather", _) | ("reducescatter", _):
                return place.buffer, place.offset
            case _:
                return "o", place.offset

    def _input_offset(self, chunk: Chunk) -> int:
        name, parts = self.collective.name, self.collective.chunks_per_rank
        if name == "allreduce":
            return chunk.index
        if name == "alltoall":
            return chunk.block[1] * parts + chunk.part
        return chunk.block[0] * parts + chunk.part if name in _BLOCK_IN_INPUT else chunk.part

    def _output_offset(self, chunk: Chunk) -> int:
        name, parts = self.collective.name, self.collective.chunks_per_rank
        if name == "allreduce":
            return chunk.index
        if name == "alltoall" or name in _BLOCK_IN_OUTPUT:
            return chunk.block[0] * parts + chunk.part
        return chunk.part
