"""How time grows with GPUs: the exponent of a power law through measured points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PowerLaw:
    """``seconds = factor * gpus ** exponent``; ``r2`` is how much of the variation of log seconds it explains."""

    exponent: float
    factor: float
    r2: float
    points: int


def power_law(points: Sequence[tuple[float, float]]) -> PowerLaw | None:
    """Least squares of log seconds against log GPUs; None without two different positive numbers of GPUs."""
    logs = [(math.log(x), math.log(y)) for x, y in points if x > 0 and y > 0]
    if len({x for x, _ in logs}) < 2:
        return None
    mean_x = sum(x for x, _ in logs) / len(logs)
    mean_y = sum(y for _, y in logs) / len(logs)
    spread = sum((x - mean_x) ** 2 for x, _ in logs)
    exponent = sum((x - mean_x) * (y - mean_y) for x, y in logs) / spread
    shift = mean_y - exponent * mean_x
    left = sum((y - shift - exponent * x) ** 2 for x, y in logs)
    total = sum((y - mean_y) ** 2 for _, y in logs)
    r2 = 1.0 if total == 0 else 1 - left / total
    return PowerLaw(exponent, math.exp(shift), r2, len(logs))
