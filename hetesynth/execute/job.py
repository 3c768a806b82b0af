"""One run, stated: everything a rank must know besides its own thread blocks. Travels between processes.

In: a ``Program`` or a ``Plan`` and the user's wishes. Out: a ``Job``, and from it the player of a rank.
"""

from __future__ import annotations

from dataclasses import dataclass

from hetesynth.errors import HetesynthError
from hetesynth.execute.arithmetic import Arithmetic, Dtype, Reduction
from hetesynth.execute.collective import PER_RANK, Reference
from hetesynth.execute.fifo import MESSAGE_BYTES, SLOTS, FifoPlayer, Passes
from hetesynth.execute.memory import Memory
from hetesynth.execute.scheduling import Choice, Player, Send
from hetesynth.model.collective import COLLECTIVE_NAMES, REDUCING, ROOTED, CollectiveName
from hetesynth.model.program import GpuProgram, Program

Part = GpuProgram
"""What one rank executes."""

DEFAULT_CHUNK_BYTES = 4096
MAX_MEMORY = 16 * 2**30


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the user chooses. ``size``: bytes of the larger buffer; ``message_bytes``: what one message carries.

    ``timeout``: seconds without progress on any rank after which a run counts as stalled.
    """

    reduction: Reduction = "sum"
    dtype: Dtype = "float32"
    size: int | None = None
    message_bytes: int | None = None
    slots: int | None = None
    root: int | None = None
    repeat: int = 1
    seed: int = 0
    timeout: float = 20.0


@dataclass(frozen=True, slots=True)
class Job:
    """What all ranks agree on. ``chunk``: elements of a chunk. ``aliasings``: in place or not, one run each."""

    reference: Reference
    numbers: Arithmetic
    passes: Passes
    aliasings: tuple[bool, ...]
    repeat: int
    timeout: float

    @property
    def ranks(self) -> int:
        """Ranks that take part."""
        return self.reference.ranks

    @property
    def size(self) -> int:
        """Bytes of the collective's larger buffer."""
        return self.reference.total_elements * self.numbers.item_bytes

    def memory(self, gpu: GpuProgram, in_place: bool) -> Memory:
        """The memory of one rank, filled."""
        return Memory(
            self.reference, self.numbers, gpu.rank, chunk=self.passes.chunk, scratch=gpu.scratch_chunks,
            in_place=in_place,
        )  # fmt: skip

    def player(self, gpu: GpuProgram, memory: Memory, send: Send, choose: Choice | None = None) -> Player:
        """Who executes one rank."""
        return FifoPlayer(gpu, self.ranks, memory, self.numbers, self.passes, send, choose)

    def memory_bytes(self, gpu: GpuProgram) -> int:
        """Bytes of memory that one rank needs, with the reference it is compared with."""
        both = self.reference.input_elements + 2 * self.reference.output_elements
        return (both + gpu.scratch_chunks * self.passes.chunk) * self.numbers.item_bytes


def program_job(program: Program, wishes: Wishes) -> Job:
    """The job of a program. HetesynthError: HS701 no such collective, HS702 root, HS703 size, HS704 memory."""
    _known(program.collective)
    root = checked_root(program.collective, program.ranks, program.root, wishes)
    whole, blocks = _cut(program)
    numbers = Arithmetic(
        wishes.reduction, wishes.dtype, program.ranks, wishes.seed, program.collective in REDUCING
    )
    chunk = chunk_elements(whole, numbers, wishes.size)
    message = wishes.message_bytes or MESSAGE_BYTES[program.protocol]
    passes = Passes(chunk, max(1, message // numbers.item_bytes), wishes.slots or SLOTS[program.protocol])
    reference = Reference(program.collective, program.ranks, root, blocks * chunk)
    claims = [flag for flag, claimed in ((False, program.out_of_place), (True, program.in_place)) if claimed]
    job = Job(reference, numbers, passes, tuple(claims or [False]), wishes.repeat, wishes.timeout)
    check_memory(job, max((own_part(program, r) for r in range(job.ranks)), key=job.memory_bytes))
    return job


def own_part(program: Program, rank: int) -> GpuProgram:
    """What ``rank`` executes: nothing when the program does not mention it."""
    return next((g for g in program.gpus if g.rank == rank), GpuProgram(rank, 0, 0, 0, ()))


def _known(collective: str) -> None:
    if collective not in COLLECTIVE_NAMES:
        raise HetesynthError(
            f"nothing says what {collective!r} must end with", code="HS701",
            help=f"run checks data of {', '.join(COLLECTIVE_NAMES)}",
        )  # fmt: skip


def checked_root(name: CollectiveName, ranks: int, stated: int | None, wishes: Wishes) -> int | None:
    """The root, from the user or the file."""
    if name not in ROOTED:
        return None
    root = wishes.root if wishes.root is not None else stated
    if root is None:
        raise HetesynthError(f"the file does not say the root of this {name}", code="HS702", help="give --root")
    if not 0 <= root < ranks:
        raise HetesynthError(f"root {root} is no rank: there are {ranks}", code="HS702", help="give --root")
    return root


def _cut(program: Program) -> tuple[int, int]:
    """(chunks of the larger buffer, chunks of a block). Gather and scatter may count either as C."""
    chunks, ranks, name = program.chunks_per_loop, program.ranks, program.collective
    if name not in PER_RANK:
        return chunks, chunks
    own = max((g.input_chunks if name == "gather" else g.output_chunks for g in program.gpus), default=0)
    if name in ("gather", "scatter") and own == chunks:
        return chunks * ranks, chunks
    if chunks % ranks:
        raise HetesynthError(
            f"nchunksperloop={chunks} is no multiple of {ranks} ranks: {name} has one block per rank", code="HS703"
        )
    return chunks, chunks // ranks


def chunk_elements(chunks: int, numbers: Arithmetic, size: int | None) -> int:
    """Elements of a chunk when ``size`` bytes are cut into ``chunks``; as the runtimes ask, without remainder."""
    unit = chunks * numbers.item_bytes
    if size is None:
        return DEFAULT_CHUNK_BYTES // numbers.item_bytes
    if size < 1 or size % unit:
        below, above = size // unit * unit, (size // unit + 1) * unit
        near = f"{below} or {above}" if below > 0 else f"{above}"
        raise HetesynthError(
            f"{size} bytes are no whole number of {numbers.dtype} in each of {chunks} chunks", code="HS703",
            help=f"use --size {near} (a multiple of {unit})",
        )  # fmt: skip
    return size // unit


def check_memory(job: Job, largest: GpuProgram) -> None:
    """Refuses what no machine here holds."""
    need = job.memory_bytes(largest)
    if need > MAX_MEMORY:
        raise HetesynthError(
            f"rank {largest.rank} needs {need / 2**30:.1f} GiB of memory; at most {MAX_MEMORY // 2**30} are used",
            code="HS704", help="use a smaller --size",
        )  # fmt: skip
