"""What was measured: how long an operation took for how many bytes.

Knows nothing of tools and of topologies.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from hetesynth.errors import HetesynthError

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


Algorithm = Literal["ring", "one-shot", "two-shot", "direct"]
ALGORITHMS: tuple[Algorithm, ...] = get_args(Algorithm)


@dataclass(frozen=True, slots=True)
class Coefficients:
    """Multiples of alpha, of bytes moved and of bytes reduced, each a byte of the size."""

    latencies: float
    moved: float
    reduced: float


_DEFAULT: dict[Operation, Algorithm] = {
    **dict.fromkeys(PAIRWISE, "direct"),
    "alltoall": "direct",
    "gather": "direct",
    "scatter": "direct",
}


def default_algorithm(operation: Operation) -> Algorithm:
    """What libraries do for large buffers."""
    return _DEFAULT.get(operation, "ring")


def coefficients(operation: Operation, algorithm: Algorithm, ranks: int | None) -> Coefficients:
    """HetesynthError HS843 where the algorithm is none of the operation, HS844 without the number of ranks."""
    if operation in PAIRWISE:
        return Coefficients(1.0 if operation == "transfer" else 0.0, 1.0, 0.0)
    if ranks is None:
        raise HetesynthError(
            f"an {operation} takes as long as it has ranks, and the file does not say how many",
            code="HS844",
            help="add --ranks N",
        )
    p = float(ranks)
    part = (p - 1) / p
    table: dict[tuple[Operation, Algorithm], Coefficients] = {
        ("allgather", "ring"): Coefficients(p - 1, part, 0.0),
        ("allgather", "direct"): Coefficients(1.0, part, 0.0),
        ("reducescatter", "ring"): Coefficients(p - 1, part, part),
        ("reducescatter", "direct"): Coefficients(1.0, part, part),
        ("allreduce", "ring"): Coefficients(2 * (p - 1), 2 * part, part),
        ("allreduce", "one-shot"): Coefficients(1.0, p - 1, p - 1),
        ("allreduce", "two-shot"): Coefficients(2.0, 2 * part, part),
        ("broadcast", "ring"): Coefficients(p - 1, 1.0, 0.0),
        ("reduce", "ring"): Coefficients(p - 1, 1.0, 1.0),
        ("alltoall", "direct"): Coefficients(1.0, part, 0.0),
        ("gather", "direct"): Coefficients(1.0, part, 0.0),
        ("scatter", "direct"): Coefficients(1.0, part, 0.0),
    }
    row = table.get((operation, algorithm))
    if row is None:
        fitting = ", ".join(a for o, a in table if o == operation)
        raise HetesynthError(
            f"{operation} has no algorithm {algorithm}", code="HS843", help=f"--algorithm {fitting.split(', ')[0]}"
        )
    return row
