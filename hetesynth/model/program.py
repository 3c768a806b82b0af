"""A program: what each thread block of each GPU executes. MSCCL XML and plan JSON both say this.

Offsets and counts are in chunks. Rules: one thread block has at most one send peer and one receive peer, both
on its channel; instructions run in order; a dependence names a thread block of the same GPU and the step
there that must have finished.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from hetesynth.model.collective import CollectiveName
from hetesynth.model.topology import Rank

Op = Literal["s", "r", "cpy", "re", "nop", "rcs", "rrs", "rrc", "rrcs"]
SENDS: frozenset[Op] = frozenset({"s", "rcs", "rrs", "rrcs"})
"""What sends a message."""
RECEIVES: frozenset[Op] = frozenset({"r", "rcs", "rrs", "rrc", "rrcs"})
"""What takes one."""
READS: frozenset[Op] = frozenset({"s", "rrs", "rrc", "rrcs", "cpy", "re"})
"""What reads ``src``."""
WRITES: frozenset[Op] = frozenset({"r", "rcs", "rrc", "rrcs", "cpy", "re"})
"""What writes ``dst``."""
Buffer = Literal["i", "o", "s"]
Protocol = Literal["Simple", "LL", "LL128"]
OPS: tuple[Op, ...] = get_args(Op)
BUFFERS: tuple[Buffer, ...] = get_args(Buffer)


@dataclass(frozen=True, slots=True)
class BufferSlice:
    """A place in a buffer: the chunk at ``offset`` of the input ("i"), output ("o") or scratch ("s") buffer."""

    buffer: Buffer
    offset: int


@dataclass(frozen=True, slots=True)
class Instruction:
    """A step of a thread block: ``op`` on ``count`` chunks.

    ``src`` and ``dst`` as MSCCL XML writes them: a send and the receive it meets repeat the same four fields, so
    on a send ``dst`` is where the receiver puts the data, and on a receive ``src`` is where the sender took it.
    ``depends``: (thread block, step) of this GPU, or None. ``has_dependents``: some step depends on this one.
    """

    op: Op
    src: BufferSlice | None
    dst: BufferSlice | None
    count: int
    depends: tuple[int, int] | None = None
    has_dependents: bool = False


@dataclass(frozen=True, slots=True)
class ThreadBlock:
    """Instructions in order, with at most one send peer and one receive peer on one channel."""

    id: int
    send_peer: Rank | None
    recv_peer: Rank | None
    channel: int
    instructions: Sequence[Instruction]


@dataclass(frozen=True, slots=True)
class GpuProgram:
    """All thread blocks of one GPU and the sizes of its three buffers in chunks."""

    rank: Rank
    input_chunks: int
    output_chunks: int
    scratch_chunks: int
    thread_blocks: tuple[ThreadBlock, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """A collective as every GPU executes it.

    ``chunks_per_loop``: the pieces the whole collective buffer is cut into. ``max_bytes`` 0 means no limit.
    """

    name: str
    collective: CollectiveName
    ranks: int
    protocol: Protocol
    channels: int
    chunks_per_loop: int
    in_place: bool
    out_of_place: bool
    min_bytes: int
    max_bytes: int
    root: Rank | None
    gpus: tuple[GpuProgram, ...]

    @property
    def blocks(self) -> list[tuple[int, ThreadBlock]]:
        """All thread blocks, each with the position of its GPU."""
        return [(g, block) for g, gpu in enumerate(self.gpus) for block in gpu.thread_blocks]
