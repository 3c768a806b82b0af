"""What runtimes cost: copy rates of thread blocks and the start of a kernel, by hand answers and the bounds."""

from __future__ import annotations

import pytest
from simulate.test_plan_time import TWO, op, pair, put
from simulate.test_program_time import mesh, one_channel, two
from support.clusters import cluster
from verify.program_builders import block, direct_allreduce, ring_allgather, step

from hetesynth.engine.predictors import CostOptions, PlanPredictor, Prediction, ProgramPredictor
from hetesynth.model.bound import tightest
from hetesynth.model.cost import costs
from hetesynth.model.program import Program
from hetesynth.model.runtime_costs import NCCL_TABLES, ByProtocol, GpuCosts, RuntimeCosts
from hetesynth.model.topology import Topology
from hetesynth.search.bounds.throughput import time_bounds

MB = 10**6
START = ByProtocol(3e-6, 5e-6, 4e-6)
EASY = RuntimeCosts("easy", (("", GpuCosts(START, ByProtocol(5e9, 8e9, 10e9))),))
ONLY_START = RuntimeCosts("start", (("", GpuCosts(START, ByProtocol(1e15, 1e15, 1e15))),))


def predicted(topology: Topology, made: Program, size: float, runtime: RuntimeCosts | None = EASY) -> Prediction:
    return ProgramPredictor(topology, made, CostOptions(runtime=runtime)).predict(int(size))


def us(topology: Topology, made: Program, size: float, runtime: RuntimeCosts | None = EASY) -> float:
    return predicted(topology, made, size, runtime).seconds * 1e6


# -- the tables


# -- programs


def test_a_thread_block_copies_no_faster_than_it_can() -> None:
    """2 MB over a link of 50 GB/s take 40 us; one thread block of 10 GB/s needs 200, two of them 100 each."""
    topology = cluster(2, [(0, 1, 50, 2)])
    assert us(topology, one_channel(2), 2 * MB) == pytest.approx(4 + 2 + 2 * 100, rel=1e-9)
    sends = [block(k, 1, None, step("s", f"i{k}", f"o{k}"), channel=k) for k in range(2)]
    takes = [block(k, None, 0, step("r", f"i{k}", f"o{k}"), channel=k) for k in range(2)]
    assert us(topology, two(sends, takes, 2), 2 * MB) == pytest.approx(4 + 2 + 100, rel=1e-9)


@pytest.mark.parametrize("size", [10**3, 10**6, 10**8])
def test_a_program_starts_once_and_later(size: int) -> None:
    """The start is added once, loops and extrapolation included."""
    topology = mesh(4, 50, 1, reduce=100)
    for made in (ring_allgather(4, True), direct_allreduce(4, False)):
        assert us(topology, made, size, ONLY_START) == pytest.approx(4 + us(topology, made, size, None), rel=1e-9)


@pytest.mark.parametrize("size", [10**3, 10**6, 10**8, 10**10])
def test_never_below_the_bound_and_a_launch(size: int) -> None:
    topology = mesh(4, 50, 1)
    launch = costs(topology, runtime=NCCL_TABLES).launch
    bound = tightest(time_bounds(topology, "allgather"), size).seconds(size)
    assert us(topology, ring_allgather(4, True), size, NCCL_TABLES) / 1e6 >= launch + float(bound)


# -- plans


def test_the_copies_of_a_thread_block_of_a_plan_share_its_rate() -> None:
    """A put over a memory channel is copied by the thread block, two at once at half its rate each."""
    done = [[op("wait", "memory", 0)]]
    one = pair("memory", [[put("memory"), op("signal", "memory", 0)]], done)
    both = pair("memory", [[put("memory", 0, 0), op("signal", "memory", 0)]], done)
    start = 3.0  # a launch
    assert plan_us(one) == pytest.approx(start + 2 + 100, rel=1e-9)
    assert plan_us(both) == pytest.approx(start + 2 + 200, rel=1e-9)


def plan_us(made: object) -> float:
    predictor = PlanPredictor(TWO, made, CostOptions(runtime=EASY))  # type: ignore[arg-type]
    return predictor.timeline(MB).makespan * 1e6
