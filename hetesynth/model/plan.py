"""A plan: what each thread block of each GPU executes, as MSCCL++ runs it from plan JSON.

Indices and sizes are in chunks. Other than in a ``Program`` nothing is paired by name: a thread block writes
straight into the memory of a peer, and signals and waits of a channel tell the peer when. Three lists with
indices: a channel of an operation is an index into its thread block's list, whose entries are indices into the
GPU's list; likewise a remote buffer.
"""

from dataclasses import dataclass
from typing import Literal, get_args

from hetesynth.model.program import Buffer
from hetesynth.model.topology import Rank

ChannelType = Literal["memory", "port"]
CHANNEL_TYPES: tuple[ChannelType, ...] = get_args(ChannelType)
_Move = Literal["nop", "barrier", "copy", "re", "res", "rre", "rres", "put", "pws", "pwsf", "get"]
_Signal = Literal["signal", "wait", "rlxsignal", "rlxwait", "flush", "sem_acquire", "sem_release"]
_Packet = Literal["ppkt", "rppkt", "cpkt", "upkt", "repkt", "respkt", "recpkt", "recspkt"]
PlanOp = Literal[_Move, _Signal, _Packet]
PLAN_OPS: tuple[PlanOp, ...] = get_args(PlanOp)
PACKET_OPS: tuple[PlanOp, ...] = get_args(_Packet)

MAX_OPERATIONS = 64  # of a thread block
MAX_CHANNELS = 16  # of a thread block, of each type
MAX_REMOTE_BUFFERS = 16  # of a thread block, by each type of channel
MAX_CHANNELS_OF_OPERATION = 8
MAX_SLICES = 10  # on one side of an operation
MAX_BARRIERS = 16  # of a GPU
MAX_SEMAPHORES_OF_OPERATION = 16  # a GPU may have any number
ALIGNMENT = 16  # bytes: the kernel moves 16 at a time
MAX_THREADS = 1024  # of a thread block
MAX_BUFFER_BYTES = 2**32 - 1  # of input, output and scratch: the kernel keeps offsets and sizes in 32 bits
OPEN_MAX_BYTES = 2**64 - 1


@dataclass(frozen=True, slots=True)
class LocalSlice:
    """``size`` chunks from ``index`` of a buffer of the GPU itself."""

    buffer: Buffer
    index: int
    size: int


@dataclass(frozen=True, slots=True)
class RemoteSlice:
    """``size`` chunks from ``index`` of a peer's buffer. ``buffer_id``: the buffer's index in the thread block's
    list for the type of channel used."""

    buffer_id: int
    index: int
    size: int


Slice = LocalSlice | RemoteSlice


@dataclass(frozen=True, slots=True)
class PlanOperation:
    """An operation of a thread block.

    ``nop`` synchronizes the threads of the block: without one between them, two operations run side by side.
    ``barrier`` joins ``blocks`` thread blocks of the GPU. ``re`` adds all of ``src`` into the first of ``dst``;
    with ``r`` before it reads peers, with ``s`` behind it also writes to peers. ``put`` copies ``src[i]`` to the
    peer's ``dst[i]``; over a port channel, ``channels[i]`` carries it. Packets carry a flag of the run beside the
    data and stand in scratch: who reads one waits for it. ``ppkt`` puts data as packets, ``cpkt`` copies it to
    packets of its own, ``upkt`` copies packets to data, ``rppkt`` puts packets on. ``repkt`` adds packets to data;
    with ``c`` it also leaves the sum as packets of its own, with ``s`` as packets of peers. ``share``: a group of
    thread blocks shares out each slice; the part of this one, and how many there are.
    """

    op: PlanOp
    channel_type: ChannelType | None = None
    channels: tuple[int, ...] = ()
    src: tuple[Slice, ...] = ()
    dst: tuple[Slice, ...] = ()
    barrier: int | None = None
    blocks: int | None = None
    semaphores: tuple[int, ...] = ()
    share: tuple[int, int] = (0, 1)


@dataclass(frozen=True, slots=True)
class PlanBlock:
    """A thread block: operations in order, and the channels and remote buffers of the GPU that it can name.

    ``stored``: entries of the operations in the runtime's table, where a pipeline stands once; 0: one for each."""

    id: int
    operations: tuple[PlanOperation, ...]
    memory_channels: tuple[int, ...] = ()
    port_channels: tuple[int, ...] = ()
    memory_buffers: tuple[int, ...] = ()
    port_buffers: tuple[int, ...] = ()
    stored: int = 0

    def channels(self, kind: ChannelType) -> tuple[int, ...]:
        """Return the thread block's channels of type ``kind``, as indices into the GPU's list of that type."""
        return self.memory_channels if kind == "memory" else self.port_channels

    def buffers(self, kind: ChannelType) -> tuple[int, ...]:
        """Return the indices into ``GpuPlan.remote_buffers`` of those reached over channels of type ``kind``."""
        return self.memory_buffers if kind == "memory" else self.port_buffers


@dataclass(frozen=True, slots=True)
class RemoteBuffer:
    """A buffer of ``rank`` that the GPU reaches over channels of the types in ``access``."""

    rank: Rank
    buffer: Buffer
    access: tuple[ChannelType, ...]


@dataclass(frozen=True, slots=True)
class GpuPlan:
    """All thread blocks of one GPU.

    ``memory_peers`` and ``port_peers``: the far end of each of the GPU's channels; the k-th channel to a peer
    meets the peer's k-th channel to this GPU. ``semaphores``: initial values.
    """

    rank: Rank
    input_chunks: int
    output_chunks: int
    scratch_chunks: int
    blocks: tuple[PlanBlock, ...]
    memory_peers: tuple[Rank, ...] = ()
    port_peers: tuple[Rank, ...] = ()
    remote_buffers: tuple[RemoteBuffer, ...] = ()
    semaphores: tuple[int, ...] = ()

    def peers(self, kind: ChannelType) -> tuple[Rank, ...]:
        """Return the far end of each of the GPU's channels of type ``kind``."""
        return self.memory_peers if kind == "memory" else self.port_peers


@dataclass(frozen=True, slots=True)
class Plan:
    """A collective as every GPU executes it. ``collective`` is the plan's own word; sizes are in bytes."""

    name: str
    collective: str
    protocol: str
    in_place: bool
    gpus: tuple[GpuPlan, ...]
    reuse_resources: bool = False
    double_scratch: bool = False
    alignment: int = ALIGNMENT
    threads: int = MAX_THREADS
    min_bytes: int = 0
    max_bytes: int = OPEN_MAX_BYTES

    @property
    def ranks(self) -> int:
        """The number of GPUs that take part."""
        return len(self.gpus)
