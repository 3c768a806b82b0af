"""What a runtime accepts, as data: one row per target. Read by the lowering, the writers and the linter.

In: a target's name. Out: its ``Target``. Only facts about runtimes stand here, no behaviour, so that what makes
programs and what judges them may share it: a wrong fact is one line to mend, and both sides are tested against
files whose fate in the real readers is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hetesynth.errors import HetesynthError
from hetesynth.model.collective import COLLECTIVE_NAMES, CollectiveName
from hetesynth.model.program import Op, Protocol

Format = Literal["msccl-xml", "mscclpp-json"]
PLAIN_OPS: frozenset[Op] = frozenset({"s", "r", "cpy", "re", "nop"})
ALL_OPS: frozenset[Op] = PLAIN_OPS | {"rcs", "rrs", "rrc", "rrcs"}
_ALL: frozenset[CollectiveName] = frozenset(COLLECTIVE_NAMES)
_RESEARCH: frozenset[CollectiveName] = _ALL - {"gather", "scatter"}
_ROOT_ATTRIBUTES = ("proto", "nchannels", "nchunksperloop", "ngpus", "coll", "inplace")
_SIZED_ATTRIBUTES = (*_ROOT_ATTRIBUTES, "outofplace", "minBytes", "maxBytes")


@dataclass(frozen=True, slots=True)
class Target:
    """The limits of one consumer of programs.

    What one program may hold. ``max_steps``: per thread block, nops included. ``max_thread_blocks``: per GPU.
    ``max_channel``: the highest legal channel. ``max_peers_per_channel``: thread blocks of one GPU that send (or
    that receive) on one channel. ``max_count``: chunks one step may move. ``max_offset``: the highest chunk
    offset stored. ``max_depended_block``: the highest thread block a step may wait for. ``max_nodes``: elements
    a reader stores for one rank, 1 + GPUs + own thread blocks + own steps. ``fifo_messages``: messages that a
    connection holds before a send waits. ``fifo_bytes``: what one of them carries with default buffers; a step
    with more than that takes several.

    What we keep to when writing, though more is accepted. ``resident_thread_blocks``: thread blocks wait for
    each other, so all must be on the GPU at once; ``written_channels``: what communicators of every version set
    up.

    How it is spelled. ``reducescatter``: the name of that collective. ``open_max_bytes``: what ``maxBytes`` says
    where there is no limit (0 means never to the research runtime, a huge number suits every reader);
    ``max_bytes_inclusive``: whether a buffer of just that size is still meant.
    ``required_attributes``: of the root element, without which the file is refused.

    ``install``: how a user installs the file, one sentence each; ``environment``: the variables that select it,
    with values; ``FILE`` and ``DIRECTORY`` stand for the file and the folder it is in.
    """

    name: str
    runtime: str
    format: Format = "msccl-xml"
    ops: frozenset[Op] = PLAIN_OPS
    collectives: frozenset[CollectiveName] = _ALL
    max_steps: int = 64
    max_thread_blocks: int = 64
    max_channel: int = 31
    max_peers_per_channel: int = 32
    max_count: int = 71
    max_offset: int = 32767
    max_depended_block: int = 127
    max_nodes: int = 4095
    fifo_messages: tuple[tuple[Protocol, int], ...] = (("Simple", 2), ("LL", 8), ("LL128", 8))
    fifo_bytes: tuple[tuple[Protocol, int], ...] = (("Simple", 2 << 20), ("LL", 32 << 10), ("LL128", 560 << 10))
    resident_thread_blocks: int = 64
    written_channels: int = 32
    reducescatter: str = "reducescatter"
    open_max_bytes: int = 0
    max_bytes_inclusive: bool = True
    required_attributes: tuple[str, ...] = _SIZED_ATTRIBUTES
    install: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()

    def slots(self, protocol: Protocol) -> int:
        """Messages a connection of ``protocol`` buffers."""
        return dict(self.fifo_messages)[protocol]

    def message_bytes(self, protocol: Protocol) -> int:
        """Bytes that one message of ``protocol`` carries."""
        return dict(self.fifo_bytes)[protocol]

    @property
    def thread_blocks(self) -> int:
        """Thread blocks of one GPU that may be written."""
        return min(self.max_thread_blocks, self.resident_thread_blocks)

    @property
    def channels(self) -> int:
        """Channels that may be written: 0 up to one less than this."""
        return min(self.max_channel + 1, self.written_channels)


_ALONE = "Put FILE alone into DIRECTORY: every file there is read as a schedule, and the first that fits runs."
_OFTEN = "Communicators need as many channels as nchannels says; NCCL_MIN_NCHANNELS raises them."
_MATCH = (
    "It runs when ranks, collective, in-place form and size match and the elements divide by nchunksperloop; "
    "otherwise the built-in algorithm runs silently (NCCL_DEBUG=INFO tells)."
)
_RCCL_INSTALL = (_ALONE, _MATCH, _OFTEN)
_RCCL_ENVIRONMENT = (
    ("MSCCL_ALGO_DIR", "DIRECTORY"),
    ("RCCL_MSCCL_ENABLE", "1"),
    ("RCCL_MSCCL_FORCE_ENABLE", "1"),
)

PORTABLE = Target(
    "portable",
    "every reader of MSCCL XML (RCCL 5.5 to 7.12, MSCCL executor, research runtime)",
    open_max_bytes=2**50,
    install=(
        "Install it as the runtime at hand asks: `hetesynth install-hint` with rccl-6, msccl-executor or msccl.",
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
            install=(*_RCCL_INSTALL, "ROCm 7.11 needs RCCL built with --enable-msccl-kernel; 7.13 removed MSCCL."),
            environment=_RCCL_ENVIRONMENT,
        ),
        Target(
            "rccl-5",
            "RCCL of ROCm 5.5 to 6.0",
            ops=ALL_OPS,
            install=_RCCL_INSTALL,
            environment=_RCCL_ENVIRONMENT,
        ),
        Target(
            "msccl-executor",
            "Azure's MSCCL executor for NCCL",
            ops=ALL_OPS,
            max_thread_blocks=1024,
            install=(_ALONE, _MATCH, _OFTEN, "One process per GPU only."),
            environment=(("MSCCL_ALGO_DIR", "DIRECTORY"), ("NCCL_MSCCL_ENABLE", "1")),
        ),
        Target(
            "msccl",
            "the MSCCL research runtime",
            ops=ALL_OPS,
            collectives=_RESEARCH,
            max_steps=256,
            max_thread_blocks=216,
            reducescatter="reduce_scatter",
            open_max_bytes=2**50,
            max_bytes_inclusive=False,
            required_attributes=("name", *_ROOT_ATTRIBUTES),
            install=(
                "At most four files, separated by colons; of several the first that fits runs.",
                _MATCH,
                _OFTEN,
            ),
            environment=(("MSCCL_XML_FILES", "FILE"), ("NCCL_ALGO", "MSCCL,RING,TREE")),
        ),
        Target(
            "mscclpp",
            "MSCCL++",
            format="mscclpp-json",
            max_thread_blocks=1024,
            install=(
                "On every rank make mscclpp.Algorithm of ExecutionPlan(FILE, rank), with a constraint on world "
                "size and ranks per node, and give it to AlgorithmCollectionBuilder().add_algorithm_builder.",
                "Choose it with set_algorithm_selector: a function of the known algorithms, by collective and "
                "plan name, and of the request (collective, message size, buffers); C++ has the same calls.",
                "NCCL calls arrive there by LD_PRELOAD, for allreduce, allgather, reducescatter and broadcast; "
                "plans of the other collectives run through mscclpp's Executor.execute only.",
                "Without registration only four fixed names under MSCCLPP_CACHE_DIR/default are loaded: "
                "allreduce_2nodes_1K_64K, allreduce_2nodes_128K_2M, allreduce_4nodes_1K_64K and "
                "allreduce_4nodes_128K_2M, all .json.",
                "Bytes must be a multiple of 16 per chunk, and buffers stand at the same offset on every rank.",
            ),
            environment=(("LD_PRELOAD", "libmscclpp_nccl.so"), ("MSCCLPP_NCCL_LIB_PATH", "libnccl.so")),
        ),
    )
}


def target(name: str) -> Target:
    """The target called ``name``; HetesynthError HS500 when there is none."""
    if name not in TARGETS:
        raise HetesynthError(
            f"there is no target {name!r}", code="HS500", help=f"use one of {', '.join(sorted(TARGETS))}"
        )
    return TARGETS[name]
