"""Measured times to alpha, a rate, a reduction's rate and a floor, by robust least squares on relative residuals.

The model, from what each time is made of, is

    seconds = max(floor, start + latencies x alpha + moved / rate + reduced / reduce)

A term that no point shows, or that points the same way as another, is not fitted: it keeps its stated figure and
the fit says so. The loss is Cauchy's, so that a few outliers do not decide (Huber, Robust Statistics, 1981).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from hetesynth.errors import HetesynthError
from hetesynth.topology.calibrate.readers import PAIRWISE, Operation

Array = np.ndarray[Any, np.dtype[np.float64]]
Algorithm = Literal["ring", "one-shot", "two-shot", "direct"]
ALGORITHMS: tuple[Algorithm, ...] = get_args(Algorithm)

ROBUST_SCALE = 0.05  # relative residuals beyond this count less and less (Cauchy loss)
_NAMES = ("alpha", "rate", "reduce")
_NORMAL_MAD = 1.4826  # standard deviation over median absolute deviation of a normal distribution
_LEAST_ANGLE = 0.05  # sine: columns closer than this cannot be told apart
_FLOOR_GAIN = 0.5  # a floor is a figure of its own where the loss per point to spare falls below this share
_OUTLIER = 4.0  # robust standard deviations


@dataclass(frozen=True, slots=True)
class Observation:
    """A measured time and its multiples of alpha, 1/rate and 1/reduce; ``start``: seconds added to these."""

    size: float
    seconds: float
    latencies: float
    moved: float
    reduced: float
    start: float = 0.0
    line: int = 0  # of its file


@dataclass(frozen=True, slots=True)
class Figure:
    """A fitted value and half of its 95 % interval, as a share of the value; ``stated``: it was not fitted."""

    value: float
    error: float = 0.0  # infinite where there are no more points than figures
    stated: bool = False


@dataclass(frozen=True, slots=True)
class Fit:
    """``alpha`` in seconds, ``rate`` and ``reduce`` in bytes per second (None: no cost), ``floor`` in seconds."""

    alpha: Figure
    rate: Figure
    reduce: Figure | None
    floor: Figure | None
    residuals: tuple[float, ...]  # measured over predicted, less 1, in the order of the observations
    spread: float  # their robust standard deviation
    outliers: int
    remarks: tuple[str, ...] = ()  # what could not be told

    def seconds(self, observation: Observation) -> float:
        """Return what the model predicts for an operation like ``observation``."""
        time = observation.start + observation.latencies * self.alpha.value + observation.moved / self.rate.value
        if self.reduce is not None:
            time += observation.reduced / self.reduce.value
        return max(time, self.floor.value if self.floor is not None else 0.0)


def coefficients(
    operation: Operation, algorithm: Algorithm | None, ranks: int | None
) -> tuple[float, float, float]:
    """Return the multiples of alpha, of bytes moved and of bytes reduced, each a byte of the size. Along rings the
    library adds one piece while it moves the next: published runs of one machine reach the same bus bandwidth with
    and without additions, so that these cost nothing there."""
    if operation in PAIRWISE:
        return (1.0 if operation == "transfer" else 0.0), 1.0, 0.0
    if ranks is None:
        what = f"an {operation} takes as long as it has ranks, and the file does not say how many"
        raise HetesynthError(what, code="HS844", help="add --ranks N")
    p = float(ranks)
    part = (p - 1) / p
    table: dict[tuple[Operation, Algorithm], tuple[float, float, float]] = {
        ("allgather", "ring"): (p - 1, part, 0.0),
        ("allgather", "direct"): (1.0, part, 0.0),
        ("reducescatter", "ring"): (p - 1, part, 0.0),
        ("reducescatter", "direct"): (1.0, part, part),
        ("allreduce", "ring"): (2 * (p - 1), 2 * part, 0.0),
        ("allreduce", "one-shot"): (1.0, p - 1, p - 1),
        ("allreduce", "two-shot"): (2.0, 2 * part, part),
        ("broadcast", "ring"): (p - 1, 1.0, 0.0),
        ("reduce", "ring"): (p - 1, 1.0, 0.0),
        ("alltoall", "direct"): (1.0, part, 0.0),
        ("gather", "direct"): (1.0, part, 0.0),
        ("scatter", "direct"): (1.0, part, 0.0),
    }
    fitting = [a for o, a in table if o == operation]  # first what libraries do for large buffers
    row = table.get((operation, algorithm or fitting[0]))
    if row is None:
        what = f"{operation} has no algorithm {algorithm}"
        raise HetesynthError(what, code="HS843", help=f"--algorithm {fitting[0]}")
    return row


def fit(observations: Sequence[Observation], alpha: float, rate: float, reduce: float | None = None) -> Fit:
    """Return the figures that explain ``observations`` best, beside those stated; HS845 where few."""
    if len(observations) < 2:
        what = f"{len(observations)} points say too little"
        raise HetesynthError(what, code="HS845", help="measure several sizes, 1 KB to 1 GB")
    times = np.array([o.seconds for o in observations])
    terms = np.array([[o.latencies, o.moved, o.reduced] for o in observations])
    starts = np.array([o.start for o in observations])
    fixed = np.array([alpha, 1 / rate, 1 / reduce if reduce else 0.0])
    free, remarks = _tellable(terms, times)

    def solved(fixed: Array, *, floor: bool) -> _Solution:
        kept = fixed.copy()
        kept[free] = 0.0
        return _least_loss(times, terms, fixed, free, starts + np.asarray(terms @ kept), floor=floor)

    best = solved(fixed, floor=False)
    floored = solved(fixed, floor=True)
    # losses count by what is left of the points: of few, one more figure explains much by chance
    left = len(times) - len(free)
    on_it = int((floored.predicted <= (floored.floor or 0.0) * (1 + 1e-9)).sum())
    has_floor = floored.loss * left <= _FLOOR_GAIN * best.loss * (left - 1) and 1 <= on_it < len(times)
    if has_floor:
        best = floored
    if 2 not in free and terms[:, 2].any() and fixed[2] > 0:  # the rate hangs on what is stated of reductions
        other = solved(fixed * np.array([1.0, 1.0, 0.0]), floor=has_floor)
        errors = best.errors.copy()
        errors[1] = max(errors[1], abs(other.figures[1] / best.figures[1] - 1))
        best = replace(best, errors=errors)

    def figure(index: int) -> Figure:
        value, inverse = float(best.figures[index]), index > 0
        if index not in free:
            return Figure(1 / value if inverse else value, stated=True)
        return Figure(1 / max(value, 1e-18) if inverse else value, float(best.errors[index]))

    residuals = times / best.predicted - 1
    spread = float(_NORMAL_MAD * np.median(np.abs(residuals - np.median(residuals))))
    if len({round(float(t), 15) for t in terms[:, 1]}) == 1:
        remarks.append("there is one size only")
    return Fit(
        alpha=figure(0),
        rate=figure(1),
        reduce=figure(2) if terms[:, 2].any() and best.figures[2] > 0 else None,
        floor=None if best.floor is None else Figure(best.floor, best.floor_error),
        residuals=tuple(float(r) for r in residuals),
        spread=spread,
        outliers=int((np.abs(residuals) > max(_OUTLIER * spread, ROBUST_SCALE)).sum()),
        remarks=tuple(remarks),
    )


def _tellable(terms: Array, times: Array) -> tuple[list[int], list[str]]:
    """Return the columns whose figures the points determine, and why the others are not determined; HS845."""
    free: list[int] = []
    remarks: list[str] = []
    for index in (1, 0, 2):  # the rate first: alpha and reduce give way
        column = terms[:, index] / times
        if not column.any():
            continue
        if free:  # the angle between the column and the space of the others
            unit = column / np.linalg.norm(column)
            others = terms[:, free] / times[:, None]
            basis, _ = np.linalg.qr(others / np.linalg.norm(others, axis=0))
            if float(np.linalg.norm(unit - basis @ (basis.T @ unit))) < _LEAST_ANGLE:
                joined = " and ".join(_NAMES[i] for i in free)
                remarks.append(f"{_NAMES[index]} cannot be told from {joined} by these points: it stays as stated")
                continue
        free.append(index)
    if 1 not in free:
        raise HetesynthError("no point moves any bytes", code="HS845", help="measure sizes above zero")
    return sorted(free), remarks


@dataclass(frozen=True, slots=True)
class _Solution:
    """``figures``: alpha, 1/rate, 1/reduce; ``errors`` as shares; ``predicted`` seconds; the loss."""

    figures: Array
    errors: Array
    floor: float | None
    floor_error: float
    predicted: Array
    loss: float


def _least_loss(
    times: Array, terms: Array, fixed: Array, free: list[int], given: Array, *, floor: bool
) -> _Solution:
    """Return the solution of least loss over the ``free`` figures; ``given``: seconds of the other figures.

    Errors are half the 95 % intervals of an M-estimate with Cauchy's loss, as shares of the values.
    """
    from scipy.optimize import least_squares, nnls
    from scipy.stats import t

    # begin at least squares without a floor on times that count as shares of themselves, none negative
    weighted = terms[:, free] / times[:, None]
    norm = np.linalg.norm(weighted, axis=0)
    solution, _ = nnls(weighted / norm, np.maximum(times - given, 0) / times)
    scale = np.array([*(solution / norm), *([float(times.min())] if floor else [])])
    # a figure that plain least squares left at zero begins at a hundredth of the times
    least = [float(np.median(times / np.maximum(terms[:, i], 1e-300))) / 100 for i in free]
    scale = np.where(scale > 0, scale, np.array([*least, *([1e-9] if floor else [])]))

    def predicted(values: Array) -> Array:
        figures, lowest = (values[:-1], float(values[-1])) if floor else (values, 0.0)
        bounded: Array = np.maximum(np.maximum(given + terms[:, free] @ figures, lowest), 1e-12)
        return bounded

    def residuals(x: Array) -> Array:
        logarithms: Array = np.log(predicted(x * scale) / times)
        return logarithms

    solved = least_squares(
        residuals,
        np.ones(len(scale)),
        bounds=(0.0, np.inf),
        loss="cauchy",
        f_scale=ROBUST_SCALE,
        x_scale="jac",
        max_nfev=2000,
    )
    values, freedom = solved.x * scale, len(times) - len(scale)
    shares = np.full(len(scale), np.inf)
    if freedom >= 1:  # the Jacobian is weighted by the loss's curvature
        square = (solved.fun / ROBUST_SCALE) ** 2
        slopes, curvatures = solved.fun / (1 + square), np.maximum((1 - square) / (1 + square) ** 2, 0.0)
        variance = (slopes**2).sum() / freedom / max(float(curvatures.mean()), 1e-12)
        covariance = np.linalg.pinv(solved.jac.T @ solved.jac) * max(variance, 1e-12)
        deviations = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        shares = t.ppf(0.975, freedom) * deviations / np.maximum(solved.x, 1e-300)
    figures, errors = fixed.copy(), np.zeros(len(fixed))
    figures[free], errors[free] = values[: len(free)], shares[: len(free)]
    lowest, lowest_error = (float(values[-1]), float(shares[-1])) if floor else (None, 0.0)
    return _Solution(figures, errors, lowest, lowest_error, predicted(values), float(solved.cost))
