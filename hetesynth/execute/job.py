"""One run, stated: everything a rank must know besides its own thread blocks. Travels between processes."""

import math
from dataclasses import dataclass

from hetesynth.errors import HetesynthError
from hetesynth.execute.arithmetic import Arithmetic, Dtype, Reduction
from hetesynth.execute.memory import PER_RANK, Buffers, Memory, Reference
from hetesynth.execute.players import Choice, FifoPlayer, Loops, PlanPlayer, Player, Send
from hetesynth.model.collective import COLLECTIVE_NAMES, REDUCING, ROOTED
from hetesynth.model.plan import GpuPlan, Plan
from hetesynth.model.program import GpuProgram, Program
from hetesynth.model.target import PORTABLE, Target

Part = GpuProgram | GpuPlan
"""The part of a program or a plan that one rank executes."""

DEFAULT_CHUNK_BYTES = 4096
MAX_MEMORY = 16 * 2**30


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The user's choices. ``size``: bytes of the larger buffer; ``message_bytes``: what one message carries.

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
    """The facts of a run on which all ranks agree. ``loops``: the elements of a chunk and how it is split.
    ``aliasings``: of each run, whether it is in place."""

    reference: Reference
    numbers: Arithmetic
    loops: Loops
    aliasings: tuple[bool, ...]
    timeout: float

    @property
    def ranks(self) -> int:
        """The number of ranks that take part."""
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
        """Return the player that executes one rank."""
        if isinstance(part, GpuPlan):
            return PlanPlayer(part, memory, send, choose)
        return FifoPlayer(part, memory, self.loops, send, choose)

    def memory_bytes(self, part: Part) -> int:
        """Bytes of memory that one rank needs, with the reference it is compared with."""
        both = self.reference.input_elements + 2 * self.reference.output_elements
        declared = (part.input_chunks + part.output_chunks + part.scratch_chunks) * self.loops.chunk
        return (both + declared) * self.numbers.item_bytes


def job_of(subject: Program | Plan, options: RunOptions, target: Target = PORTABLE) -> tuple[Job, list[Part]]:
    """Return the job of a program or plan, and the part of each rank, empty where a program does not mention the
    rank. ``target``: whose messages a program has.

    HetesynthError: HS801 no such collective, HS802 root, HS803 size, HS804 memory, HS810 messages of a plan, which
    has none, HS811 chunks that are no blocks.
    """
    ranks, root, claims, alignment, fifo = subject.ranks, None, [subject.in_place], 1, None
    name = next((name for name in COLLECTIVE_NAMES if name == subject.collective), None)
    parts: list[Part] = [*subject.gpus]
    if isinstance(subject, Plan):
        if options.message_bytes or options.slots:
            message = "a plan writes whole chunks into its peers: there are no messages"
            raise HetesynthError(message, code="HS810", help="leave out --pass-size and --slots")
        gpu, alignment = subject.gpus[0], subject.alignment
        block = gpu.output_chunks if name in ("reducescatter", "scatter") else gpu.input_chunks
        block = block // ranks if name == "alltoall" else block
    else:
        by_rank = {gpu.rank: gpu for gpu in reversed(subject.gpus)}
        parts = [by_rank.get(rank, GpuProgram(rank, 0, 0, 0, ())) for rank in range(ranks)]
        block, root = block_chunks(subject), subject.root
        claims = [flag for flag, claim in ((False, subject.out_of_place), (True, subject.in_place)) if claim]
        fifo = target.fifo(subject.protocol, subject.collective)
    if name is None:
        help_text = f"run checks data of {', '.join(COLLECTIVE_NAMES)}"
        message = f"nothing says what {subject.collective[:40]!r} must end with"
        raise HetesynthError(message, code="HS801", help=help_text)
    root = (options.root if options.root is not None else root) if name in ROOTED else None
    if name in ROOTED and (root is None or not 0 <= root < ranks):
        text = f"root {root} is no rank of the {ranks} of this {name}"
        raise HetesynthError(text, code="HS802", help="give --root")
    numbers = Arithmetic(options.reduction, options.dtype, ranks, options.seed, name in REDUCING)
    chunk = chunk_elements(block * ranks if name in PER_RANK else block, numbers, options.size, alignment)
    loops = Loops(chunk, chunk, 1)
    if fifo is not None:  # the shortest messages, unless the user says what one carries
        sizes = (options.message_bytes or most for most in (fifo.slice_bytes, fifo.batch_bytes))
        most_of_one, most_of_several = (max(1, size // numbers.item_bytes) for size in sizes)
        loops = Loops(chunk, most_of_one, options.slots or fifo.slots, most_of_several)
    runs = tuple(aliasing for aliasing in claims or [False] for _ in range(options.repeat))
    job = Job(Reference(name, ranks, root, block * chunk), numbers, loops, runs, options.timeout)
    need = max(map(job.memory_bytes, parts))
    if need > MAX_MEMORY:
        text = f"a rank needs {need / 2**30:.1f} GiB of memory; at most {MAX_MEMORY // 2**30} are used"
        raise HetesynthError(text, code="HS804", help="use a smaller --size")
    return job, parts


def block_chunks(program: Program) -> int:
    """Return the chunks of a block, the data that a call of the collective counts. HetesynthError: HS811."""
    name, block = program.collective, program.chunks_per_loop
    own = max((g.input_chunks if name == "gather" else g.output_chunks for g in program.gpus), default=0)
    if name not in PER_RANK or (name in ("gather", "scatter") and own == block):  # these may count either as C
        return block
    if block % program.ranks:
        message = f"nchunksperloop={block} is no multiple of {program.ranks} ranks: {name} has one block per rank"
        raise HetesynthError(message, code="HS811")
    return block // program.ranks


def chunk_elements(chunks: int, numbers: Arithmetic, size: int | None, alignment: int = 1) -> int:
    """Return the elements of each of ``chunks`` in ``size`` bytes, without remainder, as the runtimes ask.

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
