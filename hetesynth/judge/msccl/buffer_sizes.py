"""How many chunks the buffers of a program's collective have, and the layout that follows.

In: a program. Out: sizes, a layout. C chunks per loop cut the whole buffer of the collective. For gather and
scatter C is taken to cut either one rank's block or the root's buffer, whichever the declared sizes say.
"""

from __future__ import annotations

from dataclasses import dataclass

from hetesynth.judge.layout import COLLECTIVES, Layout
from hetesynth.model.program import Program
from hetesynth.model.topology import Rank

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
    """Gather and scatter: whether a rank's own block has C chunks.

    ``programs/lifting/buffers.py`` says the same by itself: the judge shares no code with what it judges.
    """
    own = [g.input_chunks if program.collective == "gather" else g.output_chunks for g in program.gpus]
    return max(own, default=0) == program.chunks_per_loop


def program_layout(program: Program, in_place: bool, root: Rank | None) -> Layout:
    """The buffers of ``program``: as large as its collective asks, or, where that is not known, as it declares."""
    sizes = buffer_sizes(program)
    if sizes is None:
        declared = {gpu.rank: (gpu.input_chunks, gpu.output_chunks) for gpu in program.gpus}
        inputs, outputs = zip(*(declared[rank] for rank in range(program.ranks)), strict=True)
        return Layout(program.collective, in_place, root, inputs, outputs, None)
    inputs, outputs = (sizes.input,) * program.ranks, (sizes.output,) * program.ranks
    return Layout(program.collective, in_place, root, inputs, outputs, sizes.block)
