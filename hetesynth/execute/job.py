"""One run, stated: everything a rank must know besides its own thread blocks. Travels between processes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from hetesynth.errors import HetesynthError
from hetesynth.execute.arithmetic import Arithmetic, Dtype, Reduction
from hetesynth.execute.collective import PER_RANK, Buffers, Reference
from hetesynth.execute.memory import Memory
from hetesynth.execute.players import Choice, FifoPlayer, Loops, PlanPlayer, Player, Send
from hetesynth.model.collective import COLLECTIVE_NAMES, REDUCING, ROOTED
from hetesynth.model.plan import GpuPlan, Plan
from hetesynth.model.program import GpuProgram, Program
from hetesynth.model.target import PORTABLE

Part = GpuProgram | GpuPlan
"""What one rank executes."""

DEFAULT_CHUNK_BYTES = 4096
MAX_MEMORY = 16 * 2**30


@dataclass(frozen=True, slots=True)
class RunOptions:
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
    """What all ranks agree on. ``chunk``: elements of a chunk. ``aliasings``: of each run, whether
    it is in place."""

    reference: Reference
    numbers: Arithmetic
    loops: Loops
    aliasings: tuple[bool, ...]
    timeout: float

    @property
    def ranks(self) -> int:
        """Ranks that take part."""
        return self.reference.ranks

    @property
    def size(self) -> int:
        """Bytes of the collective's larger buffer."""
        return self.reference.total_elements * self.numbers.item_bytes

    def memory(self, part: Part, in_place: bool) -> Memory:
        """The memory of one rank, filled."""
        buffers = self.reference.buffers(part.rank, in_place)
        if isinstance(part, GpuPlan) and not in_place:  # no null pointers away from the root: all that it declares
            inputs, outputs = part.input_chunks * self.loops.chunk, part.output_chunks * self.loops.chunk
            buffers = Buffers((0, inputs), (inputs, outputs), inputs + outputs)
        sizes = {"chunk": self.loops.chunk, "scratch": part.scratch_chunks}
        return Memory(self.reference, self.numbers, part.rank, buffers, **sizes, in_place=in_place)

    def player(self, part: Part, memory: Memory, send: Send, choose: Choice | None = None) -> Player:
        """Who executes one rank."""
        if isinstance(part, GpuPlan):
            return PlanPlayer(part, memory, self.numbers, send, choose)
        return FifoPlayer(part, self.ranks, memory, self.numbers, self.loops, send, choose)

    def memory_bytes(self, part: Part) -> int:
        """Bytes of memory that one rank needs, with the reference it is compared with."""
        both = self.reference.input_elements + 2 * self.reference.output_elements
        declared = (part.input_chunks + part.output_chunks + part.scratch_chunks) * self.loops.chunk
        return (both + declared) * self.numbers.item_bytes


def program_job(program: Program, options: RunOptions) -> Job:
    """The job of a program. HetesynthError: HS801 no such collective, HS802 root, HS803 size, HS804 memory, HS811
    chunks that are no blocks."""
    chunks, ranks, name = program.chunks_per_loop, program.ranks, program.collective
    own = max((g.input_chunks if name == "gather" else g.output_chunks for g in program.gpus), default=0)
    if name not in PER_RANK or (name in ("gather", "scatter") and own == chunks):
        block = chunks  # gather and scatter may count either as C
    elif chunks % ranks:
        message = f"nchunksperloop={chunks} is no multiple of {ranks} ranks: {name} has one block per rank"
        raise HetesynthError(message, code="HS811")
    else:
        block = chunks // ranks
    fifo = PORTABLE.fifo(program.protocol, name)  # the shortest messages, unless the user says what one carries
    sizes = options.message_bytes or fifo.slice_bytes, options.message_bytes or fifo.batch_bytes
    claims = [flag for flag, claimed in ((False, program.out_of_place), (True, program.in_place)) if claimed]
    parts = [own_part(program, rank) for rank in range(ranks)]
    slots = options.slots or fifo.slots
    return _job(name, program.root, block, options, claims or [False], parts, sizes=sizes, slots=slots)


def plan_job(plan: Plan, options: RunOptions) -> Job:
    """The job of a plan. HetesynthError as for a program; plans have no loops and no slots (HS810)."""
    if options.message_bytes or options.slots:
        message = "a plan writes whole chunks into its peers: there are no messages"
        raise HetesynthError(message, code="HS810", help="leave out --pass-size and --slots")
    name, gpu = plan.collective, plan.gpus[0]
    block = gpu.output_chunks if name in ("reducescatter", "scatter") else gpu.input_chunks
    block = block // plan.ranks if name == "alltoall" else block
    return _job(name, None, block, options, [plan.in_place], plan.gpus, alignment=plan.alignment)


def _job(
    collective: str,
    stated_root: int | None,
    block: int,
    options: RunOptions,
    aliasings: Sequence[bool],
    parts: Sequence[Part],
    *,
    alignment: int = 1,
    sizes: tuple[int, int] | None = None,
    slots: int = 1,
) -> Job:
    """``block``: chunks of one; ``alignment``: bytes that a chunk is a multiple of; ``sizes``: bytes of one chunk,
    and of several, in a message, None: any."""
    name = next((name for name in COLLECTIVE_NAMES if name == collective), None)
    if name is None:
        help_text = f"run checks data of {', '.join(COLLECTIVE_NAMES)}"
        raise HetesynthError(f"nothing says what {collective[:40]!r} must end with", code="HS801", help=help_text)
    ranks, root = len(parts), None
    if name in ROOTED:
        root = options.root if options.root is not None else stated_root
        if root is None or not 0 <= root < ranks:
            text = f"root {root} is no rank of the {ranks} of this {name}"
            raise HetesynthError(text, code="HS802", help="give --root")
    numbers = Arithmetic(options.reduction, options.dtype, ranks, options.seed, name in REDUCING)
    whole = block * ranks if name in PER_RANK else block
    chunk = chunk_elements(whole, numbers, options.size, alignment)
    message, batch = (chunk if sizes is None else max(1, size // numbers.item_bytes) for size in sizes or (0, 0))
    runs = tuple(aliasing for aliasing in aliasings for _ in range(options.repeat))
    loops, reference = Loops(chunk, message, slots, batch), Reference(name, ranks, root, block * chunk)
    job = Job(reference, numbers, loops, runs, options.timeout)
    need = max(map(job.memory_bytes, parts))
    if need > MAX_MEMORY:
        text = f"a rank needs {need / 2**30:.1f} GiB of memory; at most {MAX_MEMORY // 2**30} are used"
        raise HetesynthError(text, code="HS804", help="use a smaller --size")
    return job


def own_part(program: Program, rank: int) -> GpuProgram:
    """What ``rank`` executes: nothing when the program does not mention it."""
    return next((g for g in program.gpus if g.rank == rank), GpuProgram(rank, 0, 0, 0, ()))


def chunk_elements(chunks: int, numbers: Arithmetic, size: int | None, alignment: int = 1) -> int:
    """Elements of a chunk when ``size`` bytes are cut into ``chunks``; as the runtimes ask, without remainder.

    ``alignment``: bytes that a chunk is a multiple of.
    """
    grain = math.lcm(numbers.item_bytes, alignment)
    unit = chunks * grain
    if size is None:
        return -(-DEFAULT_CHUNK_BYTES // grain) * grain // numbers.item_bytes
    if size < 1 or size % unit:
        message = f"{size} bytes are no whole number of {grain}-byte units in each of {chunks} chunks"
        near = " or ".join(str(n) for n in (size // unit * unit, (size // unit + 1) * unit) if n > 0)
        raise HetesynthError(message, code="HS803", help=f"use --size {near} (a multiple of {unit})")
    return size // chunks // numbers.item_bytes
