"""What a runtime costs beside wires: how fast a thread block copies, and how long a kernel takes to start.

By the tables of NCCL (5067397) and RCCL (0cbce2a), src/graph/tuning.cc: a channel is one thread block of a GPU,
bounded by ``perChMaxTreeBws`` (one node) with Simple and ``perChMaxRingLL128Bws`` with LL128; LL stores a flag
beside every 4 bytes, so it moves half. ``baseLatencies``, row Ring: what comes before the first hop, the launch
included."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from hetesynth.model.program import Protocol

OURS: Protocol = "Simple"
"""The protocol of the programs that are written, by which schedules are predicted."""

FLAGS_OF_LL = 2.0
"""Bytes stored for each byte of data with LL."""


@dataclass(frozen=True, slots=True)
class ByProtocol:
    """A figure for each protocol."""

    LL: float
    LL128: float
    Simple: float

    def of(self, protocol: Protocol) -> float:
        """That of ``protocol``."""
        return {"LL": self.LL, "LL128": self.LL128, "Simple": self.Simple}[protocol]

    def scaled_to(self, simple: float) -> ByProtocol:
        """The same proportions where Simple has the figure ``simple``: one that was measured."""
        factor = simple / self.Simple
        return ByProtocol(self.LL * factor, self.LL128 * factor, simple)


@dataclass(frozen=True, slots=True)
class GpuCosts:
    """Of one generation of GPUs.

    ``start``: seconds before the first instruction of a program. ``copy_rate``: bytes of data per second that one
    thread block moves.
    """

    start: ByProtocol
    copy_rate: ByProtocol

    @property
    def launch(self) -> float:
        """Seconds that no program saves, whatever its protocol."""
        return min(self.start.LL, self.start.LL128, self.start.Simple)


@dataclass(frozen=True, slots=True)
class RuntimeCosts:
    """``generations``: (prefix of the GPU model, its costs); the first that fits counts, the last fits all."""

    name: str
    generations: tuple[tuple[str, GpuCosts], ...]

    def of(self, model: str) -> GpuCosts:
        """The costs of GPUs of ``model`` ("" where unknown), upper or lower case."""
        lower = model.lower()
        return next(gpu for prefix, gpu in self.generations if lower.startswith(prefix))

    def start(self, models: Iterable[str], protocol: Protocol) -> float:
        """Seconds before a program moves anything: those of the GPU that takes longest."""
        return max(self.of(model).start.of(protocol) for model in {*models})

    def launch(self, models: Iterable[str]) -> float:
        """The same of the protocol that starts first: no program does sooner."""
        return max(self.of(model).launch for model in {*models})


def thread_blocks_for(rate: float | Fraction, copy_rate: float) -> int:
    """How many thread blocks, each on a channel of its own, a connection of ``rate`` bytes per second needs."""
    return max(1, ceil(Fraction(rate) / Fraction(copy_rate)))


def _copying(ll128: float, simple: float) -> ByProtocol:
    """In GB/s."""
    return ByProtocol(simple * 1e9 / FLAGS_OF_LL, ll128 * 1e9, simple * 1e9)


_NCCL = ByProtocol(6.6e-6, 14.0e-6, 8.4e-6)
_RCCL = ByProtocol(12.0e-6, 12.0e-6, 17.0e-6)
_VOLTA = GpuCosts(_NCCL, _copying(20.0, 26.5))
_AMPERE = GpuCosts(_NCCL, _copying(20.0, 24.0))
_HOPPER = GpuCosts(_NCCL, _copying(36.7, 38.7))
_BLACKWELL = GpuCosts(_NCCL, _copying(40.0, 70.0))
_CDNA = GpuCosts(_RCCL, _copying(36.7, 38.7))
"""RCCL keeps NCCL's table of copy rates, and HIP's compute capabilities 9.x select the row of Hopper in it."""

NCCL_TABLES = RuntimeCosts(
    "NCCL",
    (
        ("p100", _VOLTA),  # NCCL takes the row of Volta for all that is older than Ampere
        ("p40", _VOLTA),
        ("t4", _VOLTA),
        ("v100", _VOLTA),
        ("h", _HOPPER),  # H100, H200, H20, H800
        ("gh", _HOPPER),
        ("b", _BLACKWELL),
        ("gb", _BLACKWELL),
        ("mi", _CDNA),
        ("", _AMPERE),  # A100, A800 and what is not told
    ),
)
