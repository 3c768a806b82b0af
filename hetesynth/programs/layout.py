"""Where each chunk of a collective stands in the input and output buffers.

The conventions are those of NCCL and MSCCL: allgather's output holds rank j's block at j*c, alltoall's input
block j goes to rank j and its output block j comes from rank j, in place means the pointers NCCL calls in place.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from hetesynth.errors import HetesynthError
from hetesynth.model.collective import COLLECTIVES, Chunk, Collective, CollectiveName
from hetesynth.model.program import Buffer, BufferSlice
from hetesynth.model.topology import Rank

Cell = tuple[Buffer, int]
"""One chunk of memory of a GPU; cells that alias have one name (``Layout.cell``)."""

CopySlice = tuple[BufferSlice, BufferSlice, int]
"""Neighbouring chunks that move together: (from, to, how many)."""


@dataclass(frozen=True, slots=True)
class FileOptions:
    """The name and form of a file, and the bytes of the calls it is for, as NCCL counts them (0: no limit)."""

    name: str
    in_place: bool = False
    min_bytes: int = 0
    max_bytes: int = 0

    def check(self, collective: CollectiveName) -> None:
        """Raise HetesynthError HS505 if the collective has no in-place form or no size is within the limits."""
        if self.in_place and not in_place_supported(collective):
            raise HetesynthError(
                f"{collective} has no in-place form", code="HS505", help="use the out-of-place form"
            )
        if self.min_bytes < 0 or (self.max_bytes and self.min_bytes > self.max_bytes):
            raise HetesynthError(
                f"no size is from {self.min_bytes} to {self.max_bytes} bytes",
                code="HS505",
                help="0 as the largest stands for no limit",
            )


def not_held(step: int, rank: Rank, chunk: int) -> HetesynthError:
    """Return the error of a schedule in which ``rank`` sends ``chunk`` in ``step`` without holding it."""
    what = f"step {step}: rank {rank} sends chunk {chunk} before it holds it"
    return HetesynthError(what, code="HS507", help="this schedule does not verify; it cannot be lowered")


def in_place_supported(collective: CollectiveName) -> bool:
    """True where the format has an in-place form of the collective."""
    return COLLECTIVES[collective].in_place


@lru_cache(maxsize=1 << 16)
def chunk_at(buffer: Buffer, offset: int) -> BufferSlice:
    """Return the slice of one chunk; equal ones are mostly one object, as large programs name each very often."""
    return BufferSlice(buffer, offset)


def neighbours(
    moves: Sequence[tuple[BufferSlice, BufferSlice]], longest: int | None = None
) -> Iterator[CopySlice]:
    """Yield ``moves`` (from, to); at most ``longest`` that follow each other in both buffers are one slice."""
    i = 0
    while i < len(moves):
        src, dst = moves[i]
        count = 1
        while i + count < len(moves) and count != longest:
            following = BufferSlice(src.buffer, src.offset + count), BufferSlice(dst.buffer, dst.offset + count)
            if moves[i + count] != following:
                break
            count += 1
        yield src, dst, count
        i += count


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
        """Chunks that the count of the call is cut into: n*c, and c for the rooted collectives. The runtimes
        multiply the count by the number of ranks for allgather, reduce-scatter and alltoall only, so a gather or
        scatter is cut by its block."""
        collective = self.collective
        return collective.chunks_per_rank * (1 if collective.kind.rooted else collective.ranks)

    def sizes(self, rank: Rank) -> tuple[int, int]:
        """Chunks of the input and of the output buffer of ``rank``."""
        kind, block = self.collective.kind, self.collective.chunks_per_rank
        blocks = self.collective.ranks if self.collective.root in (None, rank) else 0
        inputs = block * blocks if kind.input_blocks else block
        return inputs, block * blocks if kind.output_blocks else block

    def source(self, rank: Rank, chunk: int) -> BufferSlice | None:
        """Return where ``rank``'s own contribution to ``chunk`` stands at the start; None if it has none. In
        place, a rank that also owes the result finds its contribution in the output buffer, under that name."""
        if rank not in self.collective.pre[chunk]:
            return None
        stored = chunk_at("i", self.input_offset(chunk))
        target = self.target(rank, chunk)
        if target is not None and self.cell(rank, stored) == self.cell(rank, target):
            return target
        return stored

    def target(self, rank: Rank, chunk: int) -> BufferSlice | None:
        """Return where ``chunk`` must stand at ``rank`` in the end; None if it need not."""
        if rank not in self.collective.post[chunk]:
            return None
        return chunk_at("o", self.output_offset(chunk))

    def cell(self, rank: Rank, place: BufferSlice) -> Cell:
        """The memory behind ``place``: in place, the two names of one chunk give one cell."""
        if not self.in_place or place.buffer == "s":
            return place.buffer, place.offset
        kind, own = self.collective.kind, rank * self.collective.chunks_per_rank
        if kind.input_blocks == kind.output_blocks:
            return "o", place.offset
        whole: Buffer = "i" if kind.input_blocks else "o"
        return whole, place.offset + (own if place.buffer != whole else 0)

    def input_offset(self, k: int) -> int:
        """The place of chunk ``k`` in input buffers."""
        return self._offset(k, -1) if self.collective.kind.input_blocks else self.collective.chunks[k].part

    def output_offset(self, k: int) -> int:
        """The place of chunk ``k`` in output buffers."""
        return self._offset(k, 0) if self.collective.kind.output_blocks else self.collective.chunks[k].part

    def _offset(self, k: int, end: int) -> int:
        """Return the place of chunk ``k``: its index in an allreduce, else its part of block ``block[end]``."""
        if self.collective.kind.composed:
            return k
        chunk = self.collective.chunks[k]
        return chunk.block[end] * self.collective.chunks_per_rank + chunk.part


def collective_in_pieces(collective: Collective, pieces: int) -> Collective:
    """Return ``collective`` with every chunk cut into ``pieces``: chunk k becomes those from k x ``pieces`` on."""
    return replace(
        collective,
        chunks_per_rank=collective.chunks_per_rank * pieces,
        chunks=tuple(
            Chunk(chunk.index * pieces + j, chunk.block, chunk.part * pieces + j)
            for chunk in collective.chunks
            for j in range(pieces)
        ),
        pre=tuple(pre for pre in collective.pre for _ in range(pieces)),
        post=tuple(post for post in collective.post for _ in range(pieces)),
    )
