"""Measured times to alpha, a rate, a reduction's rate and a floor, by robust least squares on relative residuals.

In: observations (``Terms``: what each time is made of) and what the topology states. Out: a ``Fit``. The model is

    seconds = max(floor, start + latencies x alpha + moved / rate + reduced / reduce)

A term that no point shows, or that points the same way as another, is not fitted: it keeps its stated figure and
the fit says so. The loss is Cauchy's, so that a few outliers do not decide (Huber, Robust Statistics, 1981).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hetesynth.errors import HetesynthError
from hetesynth.policy.fitting import FittingPolicy

Array = np.ndarray[Any, np.dtype[np.float64]]

NAMES = ("alpha", "rate", "reduce")
_CONFIDENCE = 0.95
_NORMAL_MAD = 1.4826  # standard deviation over median absolute deviation of a normal distribution


@dataclass(frozen=True, slots=True)
class Observation:
    """One measured time and its multiples of alpha, 1/rate and 1/reduce; ``start``: seconds besides.

    ``line``: of the file that it was read from.
    """

    size: float
    seconds: float
    latencies: float
    moved: float
    reduced: float
    start: float = 0.0
    line: int = 0


@dataclass(frozen=True, slots=True)
class Stated:
    """What the topology says: seconds, bytes per second; None where it says nothing."""

    alpha: float
    rate: float
    reduce: float | None = None


@dataclass(frozen=True, slots=True)
class Figure:
    """A fitted value and half of its 95 % interval, as a share of the value; ``stated``: it was not fitted.

    The share is infinite where there are no more points than figures: these points state no interval.
    """

    value: float
    error: float = 0.0
    stated: bool = False


@dataclass(frozen=True, slots=True)
class Fit:
    """``alpha`` in seconds, ``rate`` and ``reduce`` in bytes per second (None: no cost), ``floor`` in seconds.

    ``residuals``: measured over predicted, less 1, in the order of the observations. ``spread``: their robust
    standard deviation. ``remarks``: what could not be told, in words.
    """

    alpha: Figure
    rate: Figure
    reduce: Figure | None
    floor: Figure | None
    residuals: tuple[float, ...]
    spread: float
    outliers: int
    remarks: tuple[str, ...] = ()

    def seconds(self, observation: Observation) -> float:
        """What the model predicts for an operation like ``observation``."""
        time = observation.start + observation.latencies * self.alpha.value + observation.moved / self.rate.value
        if self.reduce is not None:
            time += observation.reduced / self.reduce.value
        return max(time, self.floor.value if self.floor is not None else 0.0)


def fit(observations: Sequence[Observation], stated: Stated, policy: FittingPolicy) -> Fit:
    """Return the figures that explain ``observations`` best; HetesynthError HS845 where there are too few."""
    if len(observations) < 2:
        what = f"{len(observations)} points say too little"
        raise HetesynthError(what, code="HS845", help="measure several sizes, 1 KB to 1 GB")
    times = np.array([o.seconds for o in observations])
    terms = np.array([[o.latencies, o.moved, o.reduced] for o in observations])
    starts = np.array([o.start for o in observations])
    fixed = np.array([stated.alpha, 1 / stated.rate, 1 / stated.reduce if stated.reduce else 0.0])
    free, remarks = _tellable(terms, times, policy)
    problem = _Problem(times, terms, starts, fixed, free, policy)
    best = problem.solve(floor=False)
    floored = problem.solve(floor=True)
    lowest = floored.floor or 0.0
    # losses count by what is left of the points: of few, one more figure explains much by chance
    left = len(times) - len(free)
    on_it = int((floored.predicted <= lowest * (1 + 1e-9)).sum())
    gains = floored.loss * left <= policy.floor_gain * best.loss * (left - 1)
    has_floor = gains and policy.floor_points <= on_it < len(times)
    if has_floor:
        best = floored
    if 2 not in free and terms[:, 2].any() and fixed[2] > 0:  # the rate hangs on what is stated of reductions
        other = replace(problem, fixed=fixed * np.array([1.0, 1.0, 0.0])).solve(floor=has_floor)
        errors = best.errors.copy()
        errors[1] = max(errors[1], abs(other.figures[1] / best.figures[1] - 1))
        best = replace(best, errors=errors)

    def figure(index: int, *, inverse: bool) -> Figure:
        value = float(best.figures[index])
        if index not in free:
            return Figure(1 / value if inverse else value, stated=True)
        return Figure(1 / max(value, 1e-18) if inverse else value, float(best.errors[index]))

    residuals = times / best.predicted - 1
    spread = float(_NORMAL_MAD * np.median(np.abs(residuals - np.median(residuals))))
    outliers = int((np.abs(residuals) > max(policy.outlier * spread, policy.robust_scale)).sum())
    if len({round(float(t), 15) for t in terms[:, 1]}) == 1:
        remarks.append("there is one size only")
    return Fit(
        alpha=figure(0, inverse=False),
        rate=figure(1, inverse=True),
        reduce=figure(2, inverse=True) if terms[:, 2].any() and best.figures[2] > 0 else None,
        floor=None if best.floor is None else Figure(best.floor, best.floor_error),
        residuals=tuple(float(r) for r in residuals),
        spread=spread,
        outliers=outliers,
        remarks=tuple(remarks),
    )


@dataclass(frozen=True, slots=True)
class _Solution:
    """``figures``: alpha, 1/rate, 1/reduce; ``errors`` as shares; ``predicted`` seconds; the loss."""

    figures: Array
    errors: Array
    floor: float | None
    floor_error: float
    predicted: Array
    loss: float


@dataclass(frozen=True, slots=True)
class _Problem:
    times: Array
    terms: Array
    starts: Array
    fixed: Array
    free: list[int]
    policy: FittingPolicy

    def solve(self, *, floor: bool) -> _Solution:
        """Return the least loss over the free figures, each scaled by where it begins."""
        from scipy.optimize import least_squares

        begin = self._begin()
        scale = np.array([*(begin[i] for i in self.free), *([float(self.times.min())] if floor else [])])
        # a figure that plain least squares left at zero begins at a hundredth of the times
        least = [float(np.median(self.times / np.maximum(self.terms[:, i], 1e-300))) / 100 for i in self.free]
        scale = np.where(scale > 0, scale, np.array([*least, *([1e-9] if floor else [])]))

        def residuals(x: Array) -> Array:
            difference: Array = np.log(self._predicted(x * scale, floor=floor) / self.times)
            return difference

        solved = least_squares(
            residuals,
            np.ones(len(scale)),
            bounds=(0.0, np.inf),
            loss="cauchy",
            f_scale=self.policy.robust_scale,
            x_scale="jac",
            max_nfev=2000,
        )
        values = solved.x * scale
        shares = _errors(solved.jac, solved.fun, solved.x, self.policy.robust_scale)
        figures, errors = self.fixed.copy(), np.zeros(len(self.fixed))
        for place, index in enumerate(self.free):
            figures[index], errors[index] = values[place], shares[place]
        lowest, lowest_error = (float(values[-1]), float(shares[-1])) if floor else (None, 0.0)
        predicted = self._predicted(values, floor=floor)
        return _Solution(figures, errors, lowest, lowest_error, predicted, float(solved.cost))

    def _begin(self) -> Array:
        """Least squares without a floor on times that count as shares of themselves, none negative."""
        from scipy.optimize import nnls

        rest = self.times - self.starts - self._fixed_part()
        weighted = self.terms[:, self.free] / self.times[:, None]
        norm = np.linalg.norm(weighted, axis=0)
        solution, _ = nnls(weighted / norm, np.maximum(rest, 0) / self.times)
        begin = self.fixed.copy()
        begin[self.free] = solution / norm
        return begin

    def _fixed_part(self) -> Array:
        kept = self.fixed.copy()
        kept[self.free] = 0.0
        product: Array = np.asarray(self.terms @ kept)
        return product

    def _predicted(self, values: Array, *, floor: bool) -> Array:
        figures, lowest = (values[:-1], float(values[-1])) if floor else (values, 0.0)
        predicted = self.starts + self._fixed_part() + self.terms[:, self.free] @ figures
        bounded: Array = np.maximum(np.maximum(predicted, lowest), 1e-12)
        return bounded


def _errors(jacobian: Array, residuals: Array, x: Array, scale: float) -> Array:
    """Half the 95 % intervals as shares of the values: those of an M-estimate with Cauchy's loss of ``scale``.

    ``jacobian``: weighted by the loss's curvature. Least squares' own where no residual nears ``scale``.
    """
    import numpy as np
    from scipy.stats import t

    freedom = len(residuals) - len(x)
    if freedom < 1:
        return np.full(len(x), np.inf)
    square = (residuals / scale) ** 2
    slopes, curvatures = residuals / (1 + square), np.maximum((1 - square) / (1 + square) ** 2, 0.0)
    variance = (slopes**2).sum() / freedom / max(float(curvatures.mean()), 1e-12)
    covariance = np.linalg.pinv(jacobian.T @ jacobian) * max(variance, 1e-12)
    deviations = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    shares: Array = t.ppf((1 + _CONFIDENCE) / 2, freedom) * deviations / np.maximum(x, 1e-300)
    return shares


def _tellable(terms: Array, times: Array, policy: FittingPolicy) -> tuple[list[int], list[str]]:
    """The figures that the points tell, and why not the others."""
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
            if float(np.linalg.norm(unit - basis @ (basis.T @ unit))) < policy.least_angle:
                joined = " and ".join(NAMES[i] for i in free)
                remarks.append(f"{NAMES[index]} cannot be told from {joined} by these points: it stays as stated")
                continue
        free.append(index)
    if 1 not in free:
        raise HetesynthError("no point moves any bytes", code="HS845", help="measure sizes above zero")
    return sorted(free), remarks
