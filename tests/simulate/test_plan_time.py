"""MSCCL++ plans in time: hand answers for channels, signals, barriers; bounds; every collective."""

from __future__ import annotations

from collections import Counter

import pytest
from support.clusters import cluster
from support.fluid_reference import fullest
from support.reports import cluster as example
from support.reports import made

from hetesynth.engine.predictors import CostOptions, PlanPredictor
from hetesynth.errors import HetesynthError
from hetesynth.judge.mscclpp.reader import read_plan_json
from hetesynth.model.bound import tightest
from hetesynth.model.collective import COLLECTIVE_NAMES, CollectiveName
from hetesynth.model.plan import GpuPlan, LocalSlice, Plan, PlanBlock, PlanOperation, RemoteBuffer, RemoteSlice
from hetesynth.model.topology import Topology
from hetesynth.search.bounds.throughput import time_bounds

MB = 10**6
SIZE = 100 * MB


def op(word: str, kind: str = "memory", *channels: int) -> PlanOperation:
    return PlanOperation(word, kind, channels)  # type: ignore[arg-type]


def put(kind: str, *channels: int) -> PlanOperation:
    """The whole input to the peer's output, once for each channel (a memory channel needs none)."""
    count = len(channels) or 1
    here, there = (LocalSlice("i", 0, 1),) * count, (RemoteSlice(0, 0, 1),) * count
    return PlanOperation("put", kind, channels, here, there)  # type: ignore[arg-type]


def pair(
    kind: str, first: list[list[PlanOperation]], second: list[list[PlanOperation]], channels: int = 1
) -> Plan:
    """Two GPUs with so many channels of one kind between them; thread blocks by GPU."""
    gpus = []
    for rank, blocks in enumerate((first, second)):
        names = tuple(range(channels))
        ends = {f"{kind}_channels": names, f"{kind}_buffers": (0,)}
        gpus.append(
            GpuPlan(
                rank, 1, 1, 0, tuple(PlanBlock(b, tuple(x), **ends) for b, x in enumerate(blocks)),  # type: ignore[arg-type]
                remote_buffers=(RemoteBuffer(1 - rank, "o", (kind,)),),  # type: ignore[arg-type]
                **{f"{kind}_peers": (1 - rank,) * channels},  # type: ignore[arg-type]
            )
        )  # fmt: skip
    return Plan("p", "broadcast", "Simple", False, tuple(gpus))


def us(plan: Plan, topology: Topology, size: int = SIZE) -> float:
    return PlanPredictor(topology, plan, CostOptions()).timeline(size).makespan * 1e6


TWO = cluster(2, [(0, 1, 100, 2), (1, 0, 100, 2)])  # 100 MB take 1000 us
ONE = cluster(2, [(0, 1, 100, 2)])


def test_a_put_takes_alpha_and_its_bytes_and_its_signal_comes_with_it() -> None:
    plan = pair("memory", [[put("memory"), op("signal", "memory", 0)]], [[op("wait", "memory", 0)]])
    assert us(plan, TWO) == pytest.approx(2 + 1000, rel=1e-9)


def test_a_memory_channel_keeps_its_thread_block_and_a_port_channel_its_engine() -> None:
    """Two puts in a row: both pay alpha; over a port the thread block has long gone on to its copy."""
    ends = [op("signal", "memory", 0), op("signal", "memory", 0)]
    waits = [op("wait", "memory", 0), op("wait", "memory", 0)]
    near = pair("memory", [[put("memory"), put("memory"), *ends]], [waits])
    far = pair(
        "port",
        [[put("port", 0), put("port", 0), op("signal", "port", 0), op("flush", "port", 0)]],
        [[op("wait", "port", 0)]],
    )
    assert us(far, TWO) == pytest.approx(2 * 1002, rel=1e-9)
    assert us(near, TWO) == pytest.approx(2 * 1002 + 2, rel=1e-9)  # the second signal is alone
    tasks = PlanPredictor(TWO, far, CostOptions()).tasks
    first, second, *_ = tasks.places
    assert first.after == second.after == ()


def test_a_barrier_waits_for_the_last() -> None:
    """The second thread block puts after the first has: one after the other, not side by side."""
    meet = PlanOperation("barrier", barrier=0, blocks=2)
    told = [op("signal", "memory", 0)]
    apart = pair("memory", [[put("memory"), meet], [meet, put("memory"), *told]], [[op("wait", "memory", 0)]])
    beside = pair("memory", [[put("memory"), meet], [put("memory"), meet, *told]], [[op("wait", "memory", 0)]])
    assert us(apart, TWO) == pytest.approx(2 * 1002, rel=1e-9)
    assert us(beside, TWO) == pytest.approx(2 + 2000, rel=1e-9)


def test_what_cannot_run_is_refused() -> None:
    with pytest.raises(HetesynthError, match="wait for ever"):
        us(pair("memory", [[op("wait", "memory", 0)]], [[]]), TWO)
    with pytest.raises(HetesynthError, match="no link"):
        us(pair("memory", [[]], [[put("memory")]]), ONE)


@pytest.mark.parametrize("name", COLLECTIVE_NAMES)
def test_every_collective_is_no_quicker_than_its_bounds_and_moves_its_chunks(name: CollectiveName) -> None:
    result = made("fig10", name, "all-pairs" if name in ("alltoall", "allreduce") else "greedy", ("mscclpp",))
    topology, asked = example("fig10"), result.problem.collective
    data = next(e.data for e in result.programs.values() if not e.in_place)
    clock = PlanPredictor(topology, read_plan_json(data), CostOptions())
    bound = tightest(time_bounds(topology, name, asked.root), SIZE)
    timeline = clock.timeline(SIZE)
    assert timeline.makespan >= float(bound.seconds(SIZE)) * (1 - 1e-9)
    assert timeline.makespan >= fullest(timeline.graph) * (1 - 1e-9)
    crossed: Counter[int] = Counter()  # pieces of chunks that come to each rank
    for place in clock.tasks.places:
        if place.src is not None and place.dst is not None and place.src[0] != place.dst[0]:
            crossed[place.dst[0]] += place.count
    chunks = Counter(result.problem.arcs[t.link].dst for t in result.solution.schedule.transfers)
    pieces = crossed.total() // chunks.total()
    assert crossed == Counter({rank: number * pieces for rank, number in chunks.items()})
