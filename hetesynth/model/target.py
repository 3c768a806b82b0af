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


@dataclass(frozen=True, slots=True)
class Target:
    """The limits of one consumer of programs.

    ``max_steps``: per thread block, nops included. ``max_thread_blocks``: per GPU. ``max_channel``: the highest
    legal channel. ``max_peers_per_channel``: thread blocks of one GPU that send (or that receive) on one
    channel. ``max_count``: chunks one step may move. ``max_nodes``: elements a reader stores for one rank,
    1 + GPUs + own thread blocks + own steps. ``fifo_messages``: messages a connection holds before a send waits.
    ``reducescatter``: the spelling of the collective. ``open_max_bytes``: what ``maxBytes`` says where there is
    no limit. ``install``: how a user installs the file; ``environment``: the variables that select it, with what
    they do.
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
    max_nodes: int = 4095
    fifo_messages: tuple[tuple[Protocol, int], ...] = (("Simple", 2), ("LL", 8), ("LL128", 8))
    reducescatter: str = "reducescatter"
    open_max_bytes: int = 0
    install: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()

    def slots(self, protocol: Protocol) -> int:
        """Messages a connection of ``protocol`` buffers."""
        return dict(self.fifo_messages)[protocol]


PORTABLE = Target("portable", "every reader of MSCCL XML (RCCL 5.5 to 7.12, MSCCL executor, research runtime)")

TARGETS: dict[str, Target] = {
    t.name: t
    for t in (
        PORTABLE,
        Target("rccl-6", "RCCL of ROCm 6.1 to 7.12", max_channel=127),
        Target("rccl-5", "RCCL of ROCm 5.5 to 6.0", ops=ALL_OPS),
        Target("msccl-executor", "Azure's MSCCL executor for NCCL", ops=ALL_OPS, max_thread_blocks=1024),
        Target(
            "msccl",
            "the MSCCL research runtime",
            ops=ALL_OPS,
            collectives=_RESEARCH,
            max_steps=256,
            max_thread_blocks=216,
            reducescatter="reduce_scatter",
            open_max_bytes=2**62,
        ),
        Target("mscclpp", "MSCCL++", format="mscclpp-json", max_thread_blocks=1024),
    )
}


def target(name: str) -> Target:
    """The target called ``name``; HetesynthError when there is none."""
    if name not in TARGETS:
        raise HetesynthError(
            f"there is no target {name!r}", code="HS500", help=f"use one of {', '.join(sorted(TARGETS))}"
        )
    return TARGETS[name]
