"""What was measured: how long an operation took for how many bytes.

Knows nothing of tools and of topologies.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

Operation = Literal[
    "transfer",
    "stream",
    "allgather",
    "reducescatter",
    "allreduce",
    "broadcast",
    "reduce",
    "alltoall",
    "gather",
    "scatter",
]
"""Of two ends, ``transfer`` is one at a time, ``stream`` many at once, so that alpha does not show."""
OPERATIONS: tuple[Operation, ...] = get_args(Operation)
PAIRWISE: frozenset[Operation] = frozenset({"transfer", "stream"})
"""Between two ends, whatever the number of ranks."""

MAX_POINTS = 100_000
MAX_BYTES = 1 << 50
MAX_SECONDS = 1e6


@dataclass(frozen=True, slots=True)
class Point:
    """``size`` bytes, as the tool counts them (``model/cost.py``, ``chunk_bytes``), took ``seconds``.

    ``line``: of the file, from 1; 0 where it has none.
    """

    size: float
    seconds: float
    line: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.size <= MAX_BYTES:
            raise ValueError(f"{self.size:g} bytes is no size of a buffer")
        if not 0 < self.seconds <= MAX_SECONDS or not math.isfinite(self.seconds):
            raise ValueError(f"{self.seconds:g} s is no time of an operation")


@dataclass(frozen=True, slots=True)
class Series:
    """The points of one operation under the same conditions, in the order of the file.

    ``name`` tells series of one file apart (out of place, a column); ``ranks`` is None where
    the tool does not say.
    """

    source: str
    tool: str
    name: str
    operation: Operation
    points: tuple[Point, ...]
    ranks: int | None = None
    date: str = ""

    def __post_init__(self) -> None:
        if not self.points:
            raise ValueError(f"{self.source}: a series without points")
        if self.ranks is not None and self.ranks < 2:
            raise ValueError(f"{self.source}: nothing moves between {self.ranks} ranks")

    @property
    def title(self) -> str:
        """``file: name``."""
        return f"{self.source}: {self.name}" if self.name else self.source
