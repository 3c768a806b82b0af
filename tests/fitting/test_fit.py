"""The fit gives back the figures that made the times, and says what times cannot tell."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest

from hetesynth.errors import HetesynthError
from hetesynth.topology.calibrate.fit import Algorithm, Observation, coefficients, fit
from hetesynth.topology.calibrate.readers import Operation

KIB = 1024.0
Truth = tuple[float, float, float]  # alpha, rate, reduce


def _seconds(operation: Operation, ranks: int, size: float, truth: Truth) -> float:
    """Written out step by step, apart from the table of coefficients."""
    alpha, rate, reduce = truth
    block = size / ranks
    if operation in ("transfer", "stream"):
        return (alpha if operation == "transfer" else 0.0) + size / rate
    time = 0.0
    for _ in range(ranks - 1):
        time += alpha + block / rate + (block / reduce if operation in ("reducescatter", "allreduce") else 0.0)
    if operation == "allreduce":
        for _ in range(ranks - 1):
            time += alpha + block / rate
    return time


def _measured(
    rng: random.Random, operations: Sequence[Operation], ranks: int, truth: Truth, *, noise: float = 0.05
) -> list[Observation]:
    """Three runs of each size from 1 KiB to 1 GiB; one in twenty takes up to three times as long."""
    observations = []
    for operation in operations:
        terms = coefficients(operation, None, ranks)
        if truth[2] < math.inf:  # additions that do not overlap with what is moved
            terms = (*terms[:2], (ranks - 1) / ranks if operation in ("reducescatter", "allreduce") else 0.0)
        for exponent in range(10, 31):
            size = 2.0**exponent
            for _ in range(3):
                seconds = _seconds(operation, ranks, size, truth) * rng.lognormvariate(0, noise)
                seconds *= rng.uniform(1.5, 3) if rng.random() < 0.05 else 1
                observations.append(Observation(size, seconds, terms[0], terms[1] * size, terms[2] * size))
    return observations


SETS: tuple[tuple[Operation, ...], ...] = (("transfer",), ("allgather",), ("transfer", "stream"))


@pytest.mark.parametrize("seed", range(3))
def test_figures_of_made_measurements_come_back_within_three_percent(seed: int) -> None:
    rng = random.Random(seed)
    truth = (rng.uniform(0.5, 20) * 1e-6, rng.uniform(5, 400) * 1e9, math.inf)
    operations = SETS[seed % 3]
    result = fit(_measured(rng, operations, rng.choice([2, 4, 8, 16]), truth), 1e-6, 100e9)
    assert result.alpha.value == pytest.approx(truth[0], rel=0.03)
    assert result.rate.value == pytest.approx(truth[1], rel=0.03)
    assert result.floor is None
    assert result.outliers > 0
    assert result.alpha.error < 0.06


@pytest.mark.parametrize("seed", range(2))
def test_a_reduction_rate_needs_a_collective_with_and_one_without(seed: int) -> None:
    rng = random.Random(seed)
    truth = (2e-6, 200e9, rng.uniform(150, 400) * 1e9)
    both = fit(_measured(rng, ["allgather", "reducescatter"], 8, truth, noise=0.01), 1e-6, 100e9)
    assert both.reduce is not None and not both.reduce.stated
    assert both.reduce.value == pytest.approx(truth[2], rel=0.05)
    alone = fit(_measured(rng, ["allreduce"], 8, truth, noise=0.01), 1e-6, 100e9, truth[2])
    assert alone.reduce is not None and alone.reduce.stated
    assert any("reduce cannot be told" in remark for remark in alone.remarks)
    assert alone.rate.value == pytest.approx(truth[1], rel=0.02)
    assert alone.rate.error > 0.2  # as much as it hangs on what is stated of reductions


@pytest.mark.parametrize("bus", [100e9, 230e9])
def test_collectives_of_one_machine_tell_one_rate(bus: float) -> None:
    """Rings add while they move: the bus bandwidth of nccl-tests is the rate, with additions and without."""
    shares: dict[Operation, float] = {
        "allreduce": 14 / 8,
        "allgather": 7 / 8,
        "reducescatter": 7 / 8,
        "broadcast": 1.0,
    }
    for operation, share in shares.items():
        terms = coefficients(operation, None, 8)
        sizes = [2.0**power for power in range(20, 34)]
        points = [Observation(n, n * share / bus + 20e-6, terms[0], terms[1] * n, terms[2] * n) for n in sizes]
        assert fit(points, 1e-6, 300e9, 300e9).rate.value == pytest.approx(bus, rel=0.02), operation


def test_streams_and_one_size_do_not_tell_alpha_and_one_point_nothing() -> None:
    result = fit([Observation(s, s / 50e9, 0.0, s, 0.0) for s in (1e6, 2e6, 4e6)], 3e-6, 10e9)
    assert (result.alpha.value, result.alpha.stated) == (3e-6, True)
    assert result.rate.value == pytest.approx(50e9, rel=1e-6)
    points = [Observation(1e6, t, 1.0, 1e6, 0.0) for t in (21e-6, 20e-6, 22e-6)]
    result = fit(points, 1e-6, 10e9)
    assert result.alpha.stated and "there is one size only" in result.remarks
    with pytest.raises(HetesynthError) as caught:
        fit(points[:1], 1e-6, 1e9)
    assert caught.value.code == "HS845"


# Microseconds of an allreduce on 8 A800 PCIe in two islands, as published.
SIZES = (8, 16, 32, 48, 64, 128, 256, 512)
TABLE: dict[Algorithm, tuple[float, ...]] = {
    "one-shot": (46.5, 45.4, 45.6, 54.3, 64.5, 102.2, 174.8, 324.2),
    "two-shot": (47.5, 47.9, 47.3, 49.6, 52.9, 66.7, 91.2, 143.0),
}


@pytest.mark.parametrize("first", [0, 1])
def test_half_of_a_published_table_predicts_the_other(first: int) -> None:
    predicted: dict[Algorithm, list[float]] = {}
    for algorithm, times in TABLE.items():
        latencies, moved, reduced = coefficients("allreduce", algorithm, 8)
        points = [
            Observation(s * KIB, t * 1e-6, latencies, s * KIB * moved, s * KIB * reduced)
            for s, t in zip(SIZES, times, strict=True)
        ]
        result = fit(points[first::2], 1e-6, 24e9)
        predicted[algorithm] = [result.seconds(point) for point in points]
        off = [abs(result.seconds(point) / point.seconds - 1) for point in points[1 - first :: 2]]
        assert sum(off) / len(off) < 0.025 and max(off) < 0.05
    for at in range(len(SIZES)):
        wins = predicted["one-shot"][at] < predicted["two-shot"][at]
        assert wins == (TABLE["one-shot"][at] < TABLE["two-shot"][at]), SIZES[at]


def test_few_points_widen_the_interval_and_two_state_none() -> None:
    off = (1.02, 0.98, 1.02, 0.98)
    points = [
        Observation(s, (2e-6 + s / 50e9) * o, 1.0, s, 0.0) for s, o in zip((1e3, 1e5, 1e7, 1e9), off, strict=True)
    ]
    assert fit(points[::2], 1e-6, 50e9).rate.error == math.inf
    few, many = fit(points, 1e-6, 50e9), fit(points * 8, 1e-6, 50e9)
    assert few.rate.error > 3 * many.rate.error
