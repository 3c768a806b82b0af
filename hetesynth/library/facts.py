"""What NCCL and RCCL say of each generation of GPUs, and what published runs add.

GB/s (1e9 bytes) and microseconds. Sources: NCCL 5067397 (2.30), src/graph/search.cc:1051-1067 (``inside``,
``between``), tuning.cc:149-211 (latencies and caps); RCCL 0cbce2a, src/graph/topo.h and tuning.cc. ``ring_share``
and ``nvls_share`` are no constants of the libraries: they are what large runs of nccl-tests and rccl-tests reach
(docs/reality.md).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Protocol = Literal["LL", "LL128", "Simple"]
PROTOCOLS: tuple[Protocol, ...] = ("LL", "LL128", "Simple")
ByNodes = tuple[float, float, float]
"""A figure on one, two and more nodes."""


@dataclass(frozen=True, slots=True)
class Generation:
    """One generation of GPUs.

    ``inside``, ``between``: rates of a channel that the search tries, the fastest first. ``ll``: what rings with LL
    carry at most on one node. ``ring_ll128``, ``tree_ll128``, ``tree_simple``, ``nvls_tree``: what a channel, or an
    NVLS head, carries. ``nvls``: share of a multicast that NCCL counts on, None: there is none.
    ``ring_share``: of NCCL's own total that large rings reach; ``nvls_share``: of it that large NVLS runs reach.
    """

    name: str
    inside: tuple[float, ...]
    between: tuple[float, ...]
    ll: float
    ring_ll128: float
    tree_ll128: ByNodes
    tree_simple: ByNodes
    nvls_tree: ByNodes = (0.0, 0.0, 0.0)
    nvls: float | None = None
    nvls_channels: int = 16
    ring_share: float = 0.95
    nvls_share: float = 0.8


_OLD_INSIDE = (40.0, 30.0, 20.0, 18.0, 15.0, 12.0, 10.0, 9.0, 7.0, 6.0, 5.0, 4.0, 3.0)
_OLD_BETWEEN = (48.0, 30.0, 28.0, 24.0, 20.0, 18.0, 15.0, 12.0, 10.0, 9.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.4, 1.2, 0.24, 0.12)  # fmt: skip
_HOPPER_INSIDE = (60.0, 50.0, 40.0, 30.0, 24.0, 20.0, 15.0, 12.0, 11.0, 6.0, 3.0)
_HOPPER_BETWEEN = (48.0, 45.0, 42.0, 40.0, 30.0, 24.0, 22.0, 20.0, 17.5, 15.0, 12.0, 6.0, 3.0, 2.4, 1.2, 0.24, 0.12)
_BLACKWELL_INSIDE = (90.0, 80.0, 70.0, 60.0, 50.0, 45.0, 40.0, 30.0, 24.0, 20.0, 19.0, 18.0)
_BLACKWELL_BETWEEN = (96.0, 86.0, 80.0, 48.0, 45.1, 42.0, 40.0, 30.0, 24.0, 22.0, 20.0, 17.5, 15.0, 12.0, 6.0, 3.0, 2.4, 1.2, 0.24, 0.12)  # fmt: skip
_RCCL = (48.0, 24.0, 20.0, 18.0, 15.0, 12.0, 10.0, 9.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.4, 1.2, 0.24, 0.12)

VOLTA = Generation(
    "Volta", _OLD_INSIDE, _OLD_BETWEEN, 39.0, 20.0, (20.0, 20.0, 20.0), (26.5, 18.5, 10.0), ring_share=1.0
)
AMPERE = Generation(
    "Ampere", _OLD_INSIDE, _OLD_BETWEEN, 87.7, 20.0, (20.0, 20.0, 20.0), (24.0, 23.6, 17.8), ring_share=0.975
)
HOPPER = Generation(
    "Hopper", _HOPPER_INSIDE, _HOPPER_BETWEEN, 141.0, 36.7, (36.7, 36.7, 29.0), (38.7, 41.4, 36.0),
    (0.0, 57.7, 45.5), 0.85, 16, 1.0, 0.834,
)  # fmt: skip
BLACKWELL = Generation(
    "Blackwell", _BLACKWELL_INSIDE, _BLACKWELL_BETWEEN, 282.0, 40.0, (55.6, 31.7, 20.0), (70.0, 42.8, 24.0),
    (0.0, 96.0, 80.0), 0.74, 24, 0.946, 0.748,
)  # fmt: skip
CDNA = Generation(
    "CDNA", _RCCL, _RCCL, 141.0, 36.7, (36.7, 36.7, 29.0), (38.7, 41.4, 36.0), ring_share=0.949
)
GENERATIONS: tuple[tuple[str, Generation], ...] = (
    ("p100", VOLTA), ("p40", VOLTA), ("t4", VOLTA), ("v100", VOLTA), ("h", HOPPER), ("gh", HOPPER),
    ("b", BLACKWELL), ("gb", BLACKWELL), ("mi", CDNA), ("", AMPERE),
)  # fmt: skip
"""By the beginning of a GPU's model; the first that fits."""


def generation_of(model: str) -> Generation:
    """The generation of GPUs of ``model``; Ampere where it is not told."""
    lower = model.lower()
    return next(generation for prefix, generation in GENERATIONS if lower.startswith(prefix))


# us: LL, LL128, Simple
BASE = {"Ring": (6.6, 14.0, 8.4), "Tree": (6.8, 14.0, 8.4), "PAT": (0.0, 0.0, 8.0)}
HOP = {
    ("Ring", "nvlink"): (0.6, 1.9, 3.4),
    ("Ring", "host"): (1.0, 2.5, 5.7),
    ("Ring", "net"): (2.7, 4.0, 14.0),
    ("Tree", "nvlink"): (0.6, 1.25, 4.0),
    ("Tree", "host"): (1.0, 1.9, 4.0),
    ("Tree", "net"): (5.0, 8.5, 14.0),
}
NVLS_HOP, NVLS_NET, NVLS_TREE_NET = 25.0, 18.0, 20.9

TREE_BY_SIZE = {
    "LL": (1, 1, 1, 1, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1),
    "LL128": (1, 1, 1, 1, 1, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9, 0.9, 1),
    "Simple": (
        0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8, 0.9,
        0.9, 0.9,
    ),
}  # fmt: skip
"""Share of a tree's bandwidth for sizes from 64 B up, by powers of two (tuning.cc:623-627)."""
