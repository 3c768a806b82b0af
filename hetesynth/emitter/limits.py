"""What a runtime accepts, as data: one row per target, read by the lowering and by the XML writer.

In: a target's name. Out: its ``Profile``. Knows nothing of schedules.
"""

from __future__ import annotations

from dataclasses import dataclass

from hetesynth.errors import HetesynthError
from hetesynth.model.program import Op, Protocol

PORTABLE_OPS: frozenset[Op] = frozenset({"s", "r", "cpy", "re", "nop"})


@dataclass(frozen=True, slots=True)
class Profile:
    """The limits of one consumer of MSCCL XML.

    ``max_steps``: per thread block, nops included. ``max_thread_blocks``: per GPU. ``max_channel``: the highest
    legal channel. ``max_peers_per_channel``: thread blocks of one GPU that send (or that receive) on one
    channel. ``max_count``: chunks one step may move. ``max_nodes``: elements a reader stores for one rank,
    1 + GPUs + own thread blocks + own steps. ``fifo_messages``: messages a connection holds before a send waits.
    """

    name: str
    ops: frozenset[Op] = PORTABLE_OPS
    max_steps: int = 64
    max_thread_blocks: int = 64
    max_channel: int = 31
    max_peers_per_channel: int = 32
    max_count: int = 71
    max_nodes: int = 4095
    fifo_messages: tuple[tuple[Protocol, int], ...] = (("Simple", 2), ("LL", 8), ("LL128", 8))
    reducescatter: str = "reducescatter"

    def slots(self, protocol: Protocol) -> int:
        """Messages a connection of ``protocol`` buffers."""
        return dict(self.fifo_messages)[protocol]


PORTABLE = Profile("portable")

PROFILES: dict[str, Profile] = {profile.name: profile for profile in (PORTABLE,)}


def profile(name: str) -> Profile:
    """The profile called ``name``; HetesynthError when there is none."""
    if name not in PROFILES:
        raise HetesynthError(
            f"there is no target {name!r}", code="HS500", help=f"use one of {', '.join(sorted(PROFILES))}"
        )
    return PROFILES[name]
