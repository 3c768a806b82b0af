"""What a runtime costs beside wires: how fast a thread block copies, how long a kernel takes to start, and what a
hop takes at least.

By the tables of NCCL (5067397) and RCCL (0cbce2a), src/graph/tuning.cc: a channel is one thread block of a GPU,
bounded by ``perChMaxTreeBws`` (one node) with Simple and ``perChMaxRingLL128Bws`` with LL128; LL stores a flag
beside every 4 bytes, so it moves half. ``baseLatencies``, row Ring: what comes before the first hop, the launch
included. ``hwLatencies``, row Ring: a hop, from a message that was stored to one that may be read; the row Tree,
column net, where every node has one GPU. ``llMaxBws``: what LL carries at most."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import inf
from typing import Literal

from hetesynth.model.program import Protocol

PROTOCOLS: tuple[Protocol, ...] = ("LL", "LL128", "Simple")
"""In NCCL's order."""
Hop = Literal["nvlink", "host", "net", "alone"]
"""Over NVLink or xGMI; through the host; between servers, and between those of one GPU each."""
SCALE_UP = ("nvlink", "nvswitch", "xgmi", "infinity")
"""How the kinds of wires begin that are NVLink or its like."""
HOPS: dict[Hop, tuple[float, float, float]] = {
    "nvlink": (0.6, 1.9, 3.4),
    "host": (1.0, 2.5, 5.7),
    "net": (2.7, 4.0, 14.0),
    "alone": (5.0, 8.5, 14.0),
}
"""Microseconds with each of ``PROTOCOLS``."""
LL_BETWEEN = (39.0, 20.4)
"""GB/s of data that LL carries between two and more nodes: its flags are read by the host, here Intel's."""


@dataclass(frozen=True, slots=True)
class Fabric:
    """A network that joins the nodes. ``share``: the part of the NICs' line rate that large rings reach. In
    microseconds ``hop``: the time of a hop beyond what NCCL counts; ``stated``: the latency that the NIC's plug-in
    reports to NCCL; ``wait``: the wait of an AllReduce for its buffers, for each of the first 16 MiB."""

    name: str
    share: float
    hop: float
    stated: float = 0.0
    wait: float = 0.0


INFINIBAND = Fabric("InfiniBand", 0.94, 0.5)
EFA = Fabric("EFA", 0.88, 75.0, 75.0, 26.0)
FABRICS: tuple[tuple[str, Fabric], ...] = (
    ("efa", EFA),
    ("tcpxo", Fabric("TCPXO", 0.94, 50.0, wait=37.0)),
    ("tcp", Fabric("TCP", 0.71, 50.0, wait=37.0)),
    ("roce", Fabric("RoCE", 0.90, 15.0)),
    ("slingshot", Fabric("Slingshot", 0.57, 30.0)),
    ("", INFINIBAND),
)
"""By the beginning of the ``kind`` of what joins the nodes; the first that fits. From published runs
(docs/reality.md); the latency that EFA's plug-in reports: aws-ofi-nccl, src/platform-aws.cpp."""


def fabric_of(kinds: Iterable[str]) -> Fabric:
    """Return the fabric that joins nodes over wires of ``kinds`` (in lower case), InfiniBand if no other fits."""
    given = [*kinds]
    return next(fabric for prefix, fabric in FABRICS if not prefix or any(k.startswith(prefix) for k in given))


FLAGS_OF_LL = 2.0
"""Bytes stored for each byte of data with LL."""


@dataclass(frozen=True, slots=True)
class ByProtocol:
    """A figure for each protocol."""

    LL: float
    LL128: float
    Simple: float

    def of(self, protocol: Protocol) -> float:
        """Return the figure for ``protocol``."""
        return {"LL": self.LL, "LL128": self.LL128, "Simple": self.Simple}[protocol]

    def scaled_to(self, simple: float) -> ByProtocol:
        """Return the figures scaled in proportion so that Simple has ``simple``, a measured figure."""
        factor = simple / self.Simple
        return ByProtocol(self.LL * factor, self.LL128 * factor, simple)


@dataclass(frozen=True, slots=True)
class GpuCosts:
    """The runtime costs of one generation of GPUs.

    ``start``: seconds before the first instruction of a program. ``copy_rate``: bytes of data per second that one
    thread block moves. ``ll``: bytes of data per second that LL moves inside a node, of one GPU. ``ll128``: True
    if LL128 is known to work, from compute capability 7.0 on (``ncclTopoTuneModel``); RCCL has it for MI200 in one
    table only. ``efa``: microseconds of a hop over EFA beyond what NCCL counts; 22 on the newer EFA.
    """

    start: ByProtocol
    copy_rate: ByProtocol
    ll: float = inf
    ll128: bool = False
    efa: float = EFA.hop

    @property
    def launch(self) -> float:
        """The seconds before the first instruction with the protocol that starts first."""
        return min(self.start.LL, self.start.LL128, self.start.Simple)


@dataclass(frozen=True, slots=True)
class RuntimeCosts:
    """The costs of a runtime. ``generations``: (prefix of the GPU model, its costs); the first that fits counts,
    the last fits all. ``hops``: True if ``HOPS`` and the most that LL carries count."""

    name: str
    generations: tuple[tuple[str, GpuCosts], ...]
    hops: bool = False

    def of(self, model: str) -> GpuCosts:
        """Return the costs of GPUs of ``model`` ("" where unknown), in upper or lower case."""
        lower = model.lower()
        return next(gpu for prefix, gpu in self.generations if lower.startswith(prefix))

    def start(self, models: Iterable[str], protocol: Protocol) -> float:
        """Return the seconds before a program with ``protocol`` moves anything, on the GPU that takes longest."""
        return max(self.of(model).start.of(protocol) for model in {*models})

    def launch(self, models: Iterable[str]) -> float:
        """Return the seconds before any program moves anything: with the protocol that starts first."""
        return max(self.of(model).launch for model in {*models})


def _copying(ll128: float, simple: float) -> ByProtocol:
    """Return copy rates in bytes per second from those of LL128 and Simple in GB/s; LL moves half of Simple's."""
    return ByProtocol(simple * 1e9 / FLAGS_OF_LL, ll128 * 1e9, simple * 1e9)


_NCCL = ByProtocol(6.6e-6, 14.0e-6, 8.4e-6)
_RCCL = ByProtocol(12.0e-6, 12.0e-6, 17.0e-6)
_VOLTA = GpuCosts(_NCCL, _copying(20.0, 26.5), 39e9, ll128=True)
_AMPERE = GpuCosts(_NCCL, _copying(20.0, 24.0), 87.7e9, ll128=True)
_HOPPER = GpuCosts(_NCCL, _copying(36.7, 38.7), 141e9, ll128=True, efa=22.0)
_BLACKWELL = GpuCosts(_NCCL, _copying(40.0, 70.0), 282e9, ll128=True, efa=22.0)
_CDNA = GpuCosts(_RCCL, _copying(36.7, 38.7), 141e9)
"""RCCL keeps NCCL's table of copy rates, and HIP's compute capabilities 9.x select the row of Hopper in it."""

NCCL_TABLES = RuntimeCosts(
    "NCCL",
    (
        ("p100", replace(_VOLTA, ll128=False)),  # NCCL takes the row of Volta for all that is older than Ampere
        ("p40", replace(_VOLTA, ll128=False)),
        ("t4", _VOLTA),
        ("v100", _VOLTA),
        ("h", _HOPPER),  # H100, H200, H20, H800
        ("gh", _HOPPER),
        ("b", _BLACKWELL),
        ("gb", _BLACKWELL),
        ("mi", _CDNA),
        ("a", _AMPERE),  # A100, A800
        ("", replace(_AMPERE, ll128=False)),  # what is not told
    ),
    hops=True,
)
