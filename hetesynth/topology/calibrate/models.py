"""How long an operation takes, as multiples of alpha, of bytes over a rate and of bytes over a reduction's rate.

In: an operation, the algorithm that ran, the number of ranks. Out: ``Coefficients``:

    seconds = start + latencies x alpha + size x moved / rate + size x reduced / reduce

``rate`` is what one GPU moves in each direction over the class. docs/calibration.md derives each row.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from hetesynth.errors import HetesynthError
from hetesynth.topology.calibrate.measurements import PAIRWISE, Operation

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
