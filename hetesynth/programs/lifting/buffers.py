"""Which chunk of a collective stands where: the buffers of a program seen from its collective.

A cell is one chunk of memory: buffer and offset, with one name for both views of aliased memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import gcd

from hetesynth.errors import HetesynthError
from hetesynth.model.collective import COLLECTIVE_NAMES, COLLECTIVES, Collective
from hetesynth.model.program import Buffer, BufferSlice, Program
from hetesynth.model.topology import Rank
from hetesynth.programs.layout import Cell, Layout

MAX_CHUNKS = 4_000_000


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of a program's collective.

    ``chunks_per_rank``: as the model counts (``search/collectives/library``). ``pieces``: chunks of the model in
    one of the program; above 1 only for an allreduce whose chunks do not divide among the ranks.
    """

    chunks_per_rank: int
    pieces: int = 1


def shape(program: Program) -> Shape:
    """The shape of ``program``'s collective.

    Raises HetesynthError HS701 for a collective without a stated result (``custom`` and the like), HS702 for
    chunks that cannot be cut into one block per rank, HS304 for too many of them.
    """
    name, chunks, ranks = program.collective, program.chunks_per_loop, program.ranks
    if name not in COLLECTIVE_NAMES:
        raise HetesynthError(
            f"collective {name!r} does not say what must be where in the end: there is nothing to schedule",
            code="HS701",
            help=f"only these can be imported: {', '.join(COLLECTIVE_NAMES)}",
        )
    kind, extent = COLLECTIVES[name], Shape(chunks)
    # the chunks of a loop of a gather or scatter cut one rank's block, or else the root's whole buffer
    own = max((g.input_chunks if kind.output_blocks else g.output_chunks for g in program.gpus), default=0)
    if kind.composed:
        pieces = ranks // gcd(chunks, ranks)
        extent = Shape(chunks * pieces // ranks, pieces)
    elif not kind.rooted or (kind.personalized and own != chunks):
        if chunks % ranks:
            raise HetesynthError(
                f"{chunks} chunks a loop cannot be cut into {ranks} equal blocks",
                code="HS702",
                exit_code=1,
                help="run `hetesynth verify` on the file",
            )
        extent = Shape(chunks // ranks)
    total = extent.chunks_per_rank * ranks * (ranks if kind.exchange else 1)
    if total > MAX_CHUNKS:
        raise HetesynthError(
            f"the file moves {total} chunks, more than {MAX_CHUNKS}", code="HS304", help="use fewer chunks a loop"
        )
    return extent


@dataclass(frozen=True)
class Buffers:
    """The memory of a program that carries out ``collective``, whose chunk k is piece k of an allreduce's chunks
    when ``pieces`` is above 1; only the first piece of each is named here."""

    collective: Collective
    pieces: int
    in_place: bool

    @cached_property
    def layout(self) -> Layout:
        """Where chunks stand as the lowering puts them."""
        return Layout(self.collective, self.in_place)

    def cell(self, rank: Rank, buffer: Buffer, offset: int) -> Cell:
        """The memory behind one chunk of a buffer."""
        return self.layout.cell(rank, BufferSlice(buffer, offset))

    def at_start(self) -> dict[tuple[Rank, Cell], int]:
        """The chunk that each cell of each rank holds before the first instruction."""
        return {
            (rank, self.cell(rank, "i", self.layout.input_offset(k) // self.pieces)): k
            for k in range(0, len(self.collective.chunks), self.pieces)
            for rank in self.collective.pre[k]
        }

    def at_end(self) -> dict[tuple[Rank, int], Cell]:
        """The cell where each (rank, chunk) that the collective asks for must stand."""
        return {
            (rank, k): self.cell(rank, "o", self.layout.output_offset(k) // self.pieces)
            for k in range(0, len(self.collective.chunks), self.pieces)
            for rank in self.collective.post[k]
        }
