"""Measured times to alpha, a rate, a reduction's rate and a floor, by robust least squares on relative residuals.

In: observations (``Terms``: what each time is made of) and what the topology states. Out: a ``Fit``. The model is

    seconds = max(floor, start + latencies x alpha + moved / rate + reduced / reduce)

A term that no point shows, or that points the same way as another, is not fitted: it keeps its stated figure and
the fit says so. The loss is Cauchy's, so that a few outliers do not decide (Huber, Robust Statistics, 1981).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from hetesynth.errors import HetesynthError
from hetesynth.policy.fitting import FittingPolicy

if TYPE_CHECKING:
    import numpy as np

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
    """The figures that explain ``observations`` best. HetesynthError HS845 where there are too few."""
    import numpy as np

    if len(observations) < 2:
        raise HetesynthError(
            f"{len(observations)} points say too little", code="HS845", help="measure several sizes, 1 KB to 1 GB"
        )
    times = np.array([o.seconds for o in observations])
    terms = np.array([[o.latencies, o.moved, o.reduced] for o in observations])
    starts = np.array([o.start for o in observations])
    fixed = np.array([stated.alpha, 1 / stated.rate, 1 / stated.reduce if stated.reduce else 0.0])
    free, remarks = _tellable(terms, times, policy)
    problem = _Problem(times, terms, starts, fixed, free, policy)
    without = problem.solve(floor=False)
    with_floor = problem.solve(floor=True)
    floored = _pays(with_floor, without, times, len(free), policy)
    best = with_floor if floored else without
    if 2 not in free and terms[:, 2].any() and fixed[2] > 0:  # the rate hangs on what is stated of reductions
        other = replace(problem, fixed=fixed * np.array([1.0, 1.0, 0.0])).solve(floor=floored)
        errors = best.errors.copy()
        errors[1] = max(errors[1], abs(other.figures[1] / best.figures[1] - 1))
        best = replace(best, errors=errors)
    return _told(best, problem, stated, remarks)


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
    free: tuple[int, ...]
    policy: FittingPolicy

    def solve(self, *, floor: bool) -> _Solution:
        """The least loss over the free figures, each scaled by where it begins."""
        import numpy as np
        from scipy.optimize import least_squares

        begin = self._begin()
        scale = np.array([*(begin[i] for i in self.free), *([float(self.times.min())] if floor else [])])
        scale = np.where(scale > 0, scale, self._least(scale))

        def residuals(x: Array) -> Array:
            predicted = self._predicted(x * scale, floor=floor)
            difference: Array = np.log(predicted / self.times)
            return difference

        solved = least_squares(
            residuals, np.ones(len(scale)), bounds=(0.0, np.inf), loss="cauchy",
            f_scale=self.policy.robust_scale, x_scale="jac", max_nfev=2000,
        )  # fmt: skip
        values = solved.x * scale
        figures = self.fixed.copy()
        for place, index in enumerate(self.free):
            figures[index] = values[place]
        shares = _errors(solved.jac, solved.fun, solved.x, self.policy.robust_scale)
        errors = np.zeros(len(figures))
        for place, index in enumerate(self.free):
            errors[index] = shares[place]
        predicted = self._predicted(values, floor=floor)
        lowest = float(values[-1]) if floor else None
        return _Solution(
            figures, errors, lowest, float(shares[-1]) if floor else 0.0, predicted, float(solved.cost)
        )

    def _begin(self) -> Array:
        """Least squares without a floor on times that count as shares of themselves, none negative."""
        import numpy as np
        from scipy.optimize import nnls

        rest = self.times - self.starts - self._fixed_part()
        weighted = self.terms[:, self.free] / self.times[:, None]
        norm = np.linalg.norm(weighted, axis=0)
        solution, _ = nnls(weighted / norm, np.maximum(rest, 0) / self.times)
        begin = self.fixed.copy()
        for place, index in enumerate(self.free):
            begin[index] = solution[place] / norm[place]
        return begin

    def _least(self, scale: Array) -> Array:
        """Where a figure begins that plain least squares left at zero: a hundredth of the times."""
        import numpy as np

        sizes = [float(np.median(self.times / np.maximum(self.terms[:, i], 1e-300))) / 100 for i in self.free]
        return np.array([*sizes, *[1e-9] * (len(scale) - len(sizes))])

    def _fixed_part(self) -> Array:
        import numpy as np

        kept = self.fixed.copy()
        kept[list(self.free)] = 0.0
        product: Array = np.asarray(self.terms @ kept)
        return product

    def _predicted(self, values: Array, *, floor: bool) -> Array:
        import numpy as np

        figures = values[:-1] if floor else values
        predicted = self.starts + self._fixed_part() + self.terms[:, self.free] @ figures
        lowest = float(values[-1]) if floor else 0.0
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


def _spread(residuals: Array) -> float:
    import numpy as np

    return float(_NORMAL_MAD * np.median(np.abs(residuals - np.median(residuals))))


def _tellable(terms: Array, times: Array, policy: FittingPolicy) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """The figures that the points tell, and why not the others."""
    import numpy as np

    free: list[int] = []
    remarks: list[str] = []
    for index in (1, 0, 2):  # the rate first: alpha and reduce give way
        column = terms[:, index] / times
        if not column.any():
            continue
        others = terms[:, free] / times[:, None] if free else np.zeros((len(times), 0))
        if free and _sine(column, others) < policy.least_angle:
            joined = " and ".join(NAMES[i] for i in free)
            remarks.append(f"{NAMES[index]} cannot be told from {joined} by these points: it stays as stated")
            continue
        free.append(index)
    if 1 not in free:
        raise HetesynthError("no point moves any bytes", code="HS845", help="measure sizes above zero")
    return tuple(sorted(free)), tuple(remarks)


def _sine(column: Array, others: Array) -> float:
    """Of the angle between ``column`` and the space of ``others``."""
    import numpy as np

    unit = column / np.linalg.norm(column)
    basis, _ = np.linalg.qr(others / np.linalg.norm(others, axis=0))
    return float(np.linalg.norm(unit - basis @ (basis.T @ unit)))


def _pays(floor: _Solution, without: _Solution, times: Array, free: int, policy: FittingPolicy) -> bool:
    """Losses count by what is left of the points: of few, one more figure explains much by chance."""
    left = len(times) - free
    if floor.floor is None or floor.loss * left > policy.floor_gain * without.loss * (left - 1):
        return False
    on_it = int((floor.predicted <= floor.floor * (1 + 1e-9)).sum())
    return policy.floor_points <= on_it < len(times)


def _told(solution: _Solution, problem: _Problem, stated: Stated, remarks: Sequence[str]) -> Fit:
    import numpy as np

    def figure(index: int, *, inverse: bool) -> Figure:
        value = float(solution.figures[index])
        if index not in problem.free:
            return Figure(1 / value if inverse else value, stated=True)
        return Figure(1 / max(value, 1e-18) if inverse else value, float(solution.errors[index]))

    residuals = problem.times / solution.predicted - 1
    spread = _spread(residuals)
    outliers = int((np.abs(residuals) > max(problem.policy.outlier * spread, problem.policy.robust_scale)).sum())
    reduces = bool(problem.terms[:, 2].any()) and solution.figures[2] > 0
    if len({round(float(t), 15) for t in problem.terms[:, 1]}) == 1:
        remarks = [*remarks, "there is one size only"]
    return Fit(
        alpha=figure(0, inverse=False),
        rate=figure(1, inverse=True),
        reduce=figure(2, inverse=True) if reduces else None,
        floor=None if solution.floor is None else Figure(solution.floor, solution.floor_error),
        residuals=tuple(float(r) for r in residuals),
        spread=spread,
        outliers=outliers,
        remarks=tuple(remarks),
    )
