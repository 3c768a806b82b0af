"""What a runtime accepts, as data: one row per target. Read by the lowering, the writers and the linter.

Only facts about runtimes stand here, no behaviour, so that what makes programs and what judges them may share it:
a wrong fact is one line to mend, and both sides are tested against files whose fate in the real readers is known.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

from hetesynth.errors import HetesynthError, did_you_mean
from hetesynth.model.collective import COLLECTIVES, CollectiveName
from hetesynth.model.program import Op, Protocol

Vendor = Literal["NVIDIA", "AMD"]
PLAIN_OPS: frozenset[Op] = frozenset({"s", "r", "cpy", "re", "nop"})
ALL_OPS: frozenset[Op] = PLAIN_OPS | {"rcs", "rrs", "rrc", "rrcs"}
_ALL: frozenset[CollectiveName] = frozenset(COLLECTIVES)
_NO_GATHER = frozenset(name for name, kind in COLLECTIVES.items() if kind.in_place)
_ROOT_ATTRIBUTES = ("proto", "nchannels", "nchunksperloop", "ngpus", "coll", "inplace")
_SIZED_ATTRIBUTES = (*_ROOT_ATTRIBUTES, "outofplace", "minBytes", "maxBytes")

STEPS = 8
"""NCCL_STEPS: the parts into which every runtime cuts the buffer of a connection."""
MAX_PROGRAM_NAME = 63
"""Letters of a program's name that every runtime keeps."""
SHORT: frozenset[str] = frozenset(name for name, kind in COLLECTIVES.items() if kind.chain)
"""The collectives for which the host counts one step a message with Simple: NCCL's own rings of these two have
CHUNKSTEPS = 1. The interpreter takes four (MSCCL_CHUNKSTEPS) for every collective."""


@dataclass(frozen=True, slots=True)
class FileFormat:
    """A format of files that runtimes read. ``words``: a file of this format in words. ``kind``: the kind as which
    it is timed and judged; file names of plans and tables always carry the target's name."""

    name: str
    extension: str
    words: str
    kind: Literal["program", "plan", "table"] = "program"

    @property
    def program(self) -> bool:
        """Return True if files of the format are programs in MSCCL XML."""
        return self.kind == "program"

    @property
    def plan(self) -> bool:
        """Return True if files of the format are MSCCL++ plans."""
        return self.kind == "plan"

    @property
    def table(self) -> bool:
        """Return True if files of the format are tables of rounds."""
        return self.kind == "table"


XML = FileFormat("msccl-xml", "xml", "MSCCL XML")
PLAN_JSON = FileFormat("mscclpp-json", "json", "an MSCCL++ plan", "plan")
TABLE_JSON = FileFormat("hetesynth-table", "json", "a table of rounds", "table")


@dataclass(frozen=True, slots=True)
class Fifo:
    """The buffer of a connection in a runtime for one protocol and collective, with default buffer sizes.

    ``step_bytes``: data in one of the ``STEPS`` parts of a connection's buffer. ``kernel_steps``: parts that the
    interpreter takes for a message. ``host_steps``: parts that the host counts for a message: the host fills
    ``cnt`` whole chunks into this many and tells its network proxy to expect as many. ``overhead``: bytes on the
    wire for each byte of data.
    """

    step_bytes: int
    kernel_steps: int
    host_steps: int
    overhead: Fraction

    @property
    def slots(self) -> int:
        """The messages that a connection holds before a send waits."""
        return STEPS // self.kernel_steps

    @property
    def slice_bytes(self) -> int:
        """The most bytes of one chunk in a message: a larger chunk makes the whole program loop over slices."""
        return self.step_bytes * self.kernel_steps

    @property
    def batch_bytes(self) -> int:
        """The most bytes of several chunks in a message: a step whose ``cnt`` chunks are more takes several."""
        return self.step_bytes * self.host_steps

    @property
    def proxy_agrees(self) -> bool:
        """Return True if the network proxy expects as many steps for a message as the interpreter makes."""
        return self.host_steps == self.kernel_steps


Fifos = tuple[tuple[Protocol, Fifo], ...]

# Simple: NCCL_BUFFSIZE is 4 MiB, a step 512 KiB, everywhere. (The research runtime and RCCL 5.5 to 6.1 take 1 MiB
# on ARM hosts.)
_SIMPLE = Fifo((4 << 20) // STEPS, 4, 4, Fraction(1))
# LL: 8 lines a thread, 512 threads (RCCL: 256), 16 bytes a line of which 8 are data.
# LL128: 120 words a thread (RCCL: 28), 640 threads (RCCL: 256); the last of 16 words (RCCL: 8) is a flag.
NVIDIA: Fifos = (
    ("Simple", _SIMPLE),
    ("LL", Fifo(8 * 512 * 8, 1, 1, Fraction(2))),
    ("LL128", Fifo(120 * 640 * 8 // 16 * 15, 1, 1, Fraction(16, 15))),
)
# The kernel of runtimes/nccl_device has one way to move a message: eight slots of 512 KiB a connection.
DEVICE: Fifos = (("Simple", replace(_SIMPLE, kernel_steps=1, host_steps=1)),)
AMD: Fifos = (
    ("Simple", _SIMPLE),
    ("LL", Fifo(8 * 256 * 8, 1, 1, Fraction(2))),
    ("LL128", Fifo(28 * 256 * 8 // 8 * 7, 1, 1, Fraction(8, 7))),
)


@dataclass(frozen=True, slots=True)
class Target:
    """The limits of one consumer of programs.

    ``collectives``: those brought to a program, ``out_of_place_only`` of these out of place. ``tells_roots``:
    whether what selects programs sees the root of a call; else a program for one root runs for every root, with
    wrong data.

    Of one program: ``max_steps`` per thread block, nops included; ``max_thread_blocks`` per GPU;
    ``max_peers_per_channel``: thread blocks of a GPU that send (or receive) on one; ``max_count``: chunks of a
    step; ``max_depended_block``: the highest that a step may wait for; ``max_nodes``: elements stored for one
    rank. ``nics_in_turn``: whether the channels of a GPU take turns over its NICs, else all use one.
    ``fifos``: what messages carry, ``SHORT`` collectives aside. What is written: ``resident_thread_blocks``,
    as all must be on the GPU at once; ``written_channels``. Spellings: ``reducescatter``; ``open_max_bytes``: no
    limit; ``max_bytes_inclusive``; ``required_attributes`` of the root element. ``multiprocessors`` of the
    smallest usual GPU. What the executor of a table spends beside the wires: ``round_seconds`` a round and
    ``message_seconds`` a message of the rank that has most in it. ``install``: sentences for users;
    ``environment``: variables, with ``FILE`` and ``DIRECTORY`` for the file's."""

    name: str
    runtime: str
    format: FileFormat = XML
    ops: frozenset[Op] = PLAIN_OPS
    collectives: frozenset[CollectiveName] = _ALL
    out_of_place_only: frozenset[CollectiveName] = frozenset()
    tells_roots: bool = False
    max_steps: int = 64
    max_thread_blocks: int = 64
    max_channel: int = 31
    max_peers_per_channel: int = 32
    max_count: int = 71
    max_offset: int = 32767
    max_depended_block: int = 127
    max_nodes: int = 4095
    nics_in_turn: bool = True
    fifos: Fifos = AMD
    resident_thread_blocks: int = 64
    written_channels: int = 32
    reducescatter: str = "reducescatter"
    open_max_bytes: int = 0
    max_bytes_inclusive: bool = True
    required_attributes: tuple[str, ...] = _SIZED_ATTRIBUTES
    multiprocessors: int = 104
    round_seconds: float = 0.0
    message_seconds: float = 0.0
    vendors: tuple[Vendor, ...] = ("NVIDIA", "AMD")
    install: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()

    def fifo(self, protocol: Protocol, collective: str) -> Fifo:
        """Return the ``Fifo`` of ``protocol`` in a program for ``collective``."""
        fifo = dict(self.fifos).get(protocol, self.fifos[0][1])  # who has one way does not look at the word
        return replace(fifo, host_steps=1) if collective in SHORT else fifo

    def slots(self, protocol: Protocol) -> int:
        """Return the messages that a connection of ``protocol`` holds, whatever the collective."""
        return self.fifo(protocol, "allreduce").slots

    def suffix(self, *, in_place: bool, several: bool) -> str:
        """Return the end of a file's name: ``.xml``, ``.rccl-6.inplace.xml``. ``several``: name the target."""
        parts = [self.name] if several or not self.format.program else []
        return "".join(f".{part}" for part in (*parts, *(["inplace"] if in_place else []), self.format.extension))

    @property
    def steps_of_addition(self) -> int:
        """The steps that a receiver takes to add a value: 1 where the runtime has ``rrc``, else 2."""
        return 1 if "rrc" in self.ops else 2

    @property
    def thread_blocks(self) -> int:
        """The most thread blocks of one GPU that may be written."""
        return min(self.max_thread_blocks, self.resident_thread_blocks)

    @property
    def channels(self) -> int:
        """The number of channels that may be written: 0 up to one less than this."""
        return min(self.max_channel + 1, self.written_channels)


_ALONE = "Put FILE alone into DIRECTORY: every file there is read as a schedule, and the first that fits runs."
_OFTEN = "Communicators need as many channels as nchannels says; NCCL_MIN_NCHANNELS raises them."
_MATCH = (
    "It runs when ranks, collective, in-place form and size match and the elements divide by nchunksperloop; "
    "otherwise the built-in algorithm runs silently (NCCL_DEBUG=INFO tells)."
)
_NETWORK = (
    "By the runtime's sources a broadcast or reduce with proto Simple hangs where its messages pass a NIC: use it "
    "inside one node, or write LL for Simple and verify the file again."
)
_ROOTED_FILE = (
    "a file for broadcast, reduce, gather or scatter runs for every root and delivers wrong data for all but its "
    "own. Install one only where all calls have that root."
)
_ROOTS = f"It does not look at the root of a call: {_ROOTED_FILE}"
_RCCL_INSTALL = (_ALONE, _MATCH, _ROOTS, _OFTEN, _NETWORK)
_RCCL_ENVIRONMENT = (("MSCCL_ALGO_DIR", "DIRECTORY"), ("RCCL_MSCCL_ENABLE", "1"), ("RCCL_MSCCL_FORCE_ENABLE", "1"))

PORTABLE = Target(
    "portable",
    "every reader of MSCCL XML (RCCL 5.5 to 7.12, MSCCL executor, research runtime)",
    open_max_bytes=2**50,
    install=(
        "Install it as the runtime at hand asks: `hetesynth install-hint` with rccl-6, msccl-executor or msccl.",
        f"None of them looks at the root of a call: {_ROOTED_FILE}",
    ),
)

TARGETS: dict[str, Target] = {
    t.name: t
    for t in (
        PORTABLE,
        Target(
            "rccl-6",
            "RCCL of ROCm 6.1 to 7.12",
            max_channel=127,
            vendors=("AMD",),
            install=(*_RCCL_INSTALL, "ROCm 7.11 needs RCCL built with --enable-msccl-kernel; 7.13 removed MSCCL."),
            environment=_RCCL_ENVIRONMENT,
        ),
        Target(
            "rccl-5",
            "RCCL of ROCm 5.5 to 6.0",
            ops=ALL_OPS,
            nics_in_turn=False,
            vendors=("AMD",),
            install=_RCCL_INSTALL,
            environment=_RCCL_ENVIRONMENT,
        ),
        Target(
            "msccl-executor",
            "Azure's MSCCL executor for NCCL",
            ops=ALL_OPS,
            fifos=NVIDIA,
            collectives=_NO_GATHER,
            max_thread_blocks=1024,
            multiprocessors=108,
            vendors=("NVIDIA",),
            install=(_ALONE, _MATCH, _ROOTS, _OFTEN, _NETWORK, "One process per GPU only."),
            environment=(("MSCCL_ALGO_DIR", "DIRECTORY"), ("NCCL_MSCCL_ENABLE", "1")),
        ),
        Target(
            "msccl",
            "the MSCCL research runtime",
            ops=ALL_OPS,
            nics_in_turn=False,
            fifos=NVIDIA,
            collectives=_NO_GATHER,
            out_of_place_only=frozenset({"alltoall"}),
            max_steps=256,
            max_thread_blocks=216,
            reducescatter="reduce_scatter",
            open_max_bytes=2**50,
            max_bytes_inclusive=False,
            required_attributes=("name", *_ROOT_ATTRIBUTES),
            multiprocessors=108,
            vendors=("NVIDIA",),
            install=(
                "At most four files, separated by colons; of several the first that fits runs.",
                _MATCH,
                _ROOTS,
                _OFTEN,
                _NETWORK,
            ),
            environment=(("MSCCL_XML_FILES", "FILE"), ("NCCL_ALGO", "MSCCL,RING,TREE")),
        ),
        Target(
            "mscclpp",
            "MSCCL++",
            format=PLAN_JSON,
            tells_roots=True,
            nics_in_turn=False,
            max_thread_blocks=1024,
            multiprocessors=108,
            install=(
                "On every rank make mscclpp.Algorithm of ExecutionPlan(FILE, rank), with a constraint on world "
                "size and ranks per node, and give it to AlgorithmCollectionBuilder().add_algorithm_builder.",
                "Choose it with set_algorithm_selector: a function of the known algorithms, by collective and "
                "plan name, and of the request (collective, message size, buffers); C++ has the same calls.",
                'For a broadcast the request tells the root: request.hints["root"][0]. What your selector leaves '
                "goes to the built-in one, which does not look at it and takes any plan that fits: register plans "
                "for all roots (synth --root all).",
                "NCCL calls arrive there by LD_PRELOAD, for allreduce, allgather, reducescatter and broadcast; "
                "plans of the other collectives run through mscclpp's Executor.execute only.",
                "Without registration only four fixed names under MSCCLPP_CACHE_DIR/default are loaded: "
                "allreduce_2nodes_1K_64K, allreduce_2nodes_128K_2M, allreduce_4nodes_1K_64K and "
                "allreduce_4nodes_128K_2M, all .json.",
                "Bytes must be a multiple of 16 per chunk, and buffers stand at the same offset on every rank.",
            ),
            environment=(("LD_PRELOAD", "libmscclpp_nccl.so"), ("MSCCLPP_NCCL_LIB_PATH", "libnccl.so")),
        ),
        Target(
            "torch",
            "PyTorch (torch.distributed, any backend with send and receive)",
            format=TABLE_JSON,
            tells_roots=True,
            round_seconds=20e-6,
            install=(
                "pip install 'hetesynth[torch]' where the job runs.",
                "On every rank, after init_process_group: collective = hetesynth.torch.load('FILE'), then "
                "collective.all_reduce(tensor) and so on, with the signatures of torch.distributed.",
            ),
        ),
        Target(
            "jax",
            "JAX (lax.ppermute under shard_map)",
            format=TABLE_JSON,
            tells_roots=True,
            round_seconds=10e-6,
            message_seconds=5e-6,
            install=(
                "pip install 'hetesynth[jax]' where the job runs.",
                "collective = hetesynth.jax.load('FILE'); inside jax.shard_map over an axis 'i' with as many "
                "devices as there are ranks: collective.all_reduce(x, 'i') and so on.",
            ),
        ),
        Target(
            "nccl-device",
            "hetesynth's kernel on NCCL's device API (2.30 and later)",
            ops=ALL_OPS,
            tells_roots=True,
            max_steps=256,
            max_thread_blocks=1024,
            max_channel=127,
            fifos=DEVICE,
            required_attributes=_ROOT_ATTRIBUTES,
            multiprocessors=108,
            vendors=("NVIDIA",),
            install=(
                "pip install 'hetesynth[nccl-device]' brings nvcc and NCCL's headers.",
                "`python -m hetesynth.runtimes.nccl_device FILE DIRECTORY` writes a table for each rank and "
                "compiles the kernel. Its calls are in hetesynth_device.h; binding.py has them for PyTorch.",
                "You choose the program of a call: by collective, size, in-place form and root.",
                "The elements of a call have to divide by the program's chunks: else call NCCL.",
                "It compiles for sm_80 to sm_100 and was never run on a GPU; `hetesynth run --backend cpu-kernel` "
                "runs the same interpreter on threads.",
            ),
        ),
    )
}

USUAL_TARGETS: dict[Vendor, tuple[str, ...]] = {
    "NVIDIA": ("mscclpp", "msccl-executor", "torch"),
    "AMD": ("rccl-6", "torch"),
}
"""What GPUs of a vendor usually load, the first choice first."""


def target(name: str) -> Target:
    """Return the target called ``name``; HetesynthError HS500 when there is none."""
    if name not in TARGETS:
        raise HetesynthError(
            f"there is no target {name!r}",
            code="HS500",
            help=did_you_mean(name.lower().replace("++", "pp"), TARGETS),
        )
    return TARGETS[name]


def targets_of(named: Sequence[str]) -> tuple[Target, ...]:
    """Return the targets of repeated ``--target NAME[,NAME]``, each once, in their order; none: ``PORTABLE``."""
    names = [name.strip() for value in named for name in value.split(",") if name.strip()]
    if named and not names:
        raise HetesynthError("--target names nothing", code="HS500", help="leave it out for portable")
    return tuple(target(name) for name in dict.fromkeys(names)) or (PORTABLE,)
