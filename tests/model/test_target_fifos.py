"""What messages carry in each runtime, against the figures that its sources give."""

from __future__ import annotations

from fractions import Fraction

import pytest

from hetesynth.model.collective import COLLECTIVE_NAMES
from hetesynth.model.target import TARGETS

KIB = 1024
RUNTIMES = {"rccl-6": 0, "rccl-5": 0, "portable": 0, "msccl-executor": 1, "msccl": 1}
BYTES = {"Simple": (2048 * KIB, 2048 * KIB), "LL": (16 * KIB, 32 * KIB), "LL128": (50_176, 576_000)}
OVERHEAD = {"Simple": (1, 1), "LL": (2, 2), "LL128": (Fraction(8, 7), Fraction(16, 15))}


@pytest.mark.parametrize("name", sorted(RUNTIMES))
@pytest.mark.parametrize("collective", COLLECTIVE_NAMES)
def test_a_message_carries_what_the_sources_say(name: str, collective: str) -> None:
    for protocol, slots in (("Simple", 2), ("LL", 8), ("LL128", 8)):
        fifo = TARGETS[name].fifo(protocol, collective)  # type: ignore[arg-type]
        short = protocol == "Simple" and collective in ("broadcast", "reduce")
        assert fifo.slice_bytes == BYTES[protocol][RUNTIMES[name]]
        assert fifo.batch_bytes == (512 * KIB if short else fifo.slice_bytes)
        assert fifo.overhead == OVERHEAD[protocol][RUNTIMES[name]]
        assert fifo.slots == slots == TARGETS[name].slots(protocol)  # type: ignore[arg-type]
        assert fifo.proxy_agrees is not short


def test_the_portable_target_has_the_shortest_messages() -> None:
    portable = TARGETS["portable"]
    for protocol in ("Simple", "LL", "LL128"):
        for target in TARGETS.values():
            ours, other = portable.fifo(protocol, "reduce"), target.fifo(protocol, "reduce")  # type: ignore[arg-type]
            assert ours.slice_bytes <= other.slice_bytes and ours.batch_bytes <= other.batch_bytes
