"""A server with two classes of NICs: nothing is planned over the slower one, and the verdict has two limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks.generated_clusters import generated_cluster
from support.library_programs import ring_program, tree_program

from hetesynth import api
from hetesynth.engine import time_verdict
from hetesynth.engine.predictors import CostOptions, ProgramPredictor
from hetesynth.engine.protocols import runnable, supported
from hetesynth.engine.time_verdict import bounds_of, target_seconds
from hetesynth.judge.bounds.time_bounds import time_bound_violations
from hetesynth.model.collective import COLLECTIVE_NAMES, ROOTED, CollectiveName
from hetesynth.model.program import Program
from hetesynth.model.runtime_costs import NCCL_TABLES
from hetesynth.model.target import PORTABLE, TARGETS
from hetesynth.model.topology import Rank, Topology
from hetesynth.model.usable_links import usable
from hetesynth.topology.language import parse_topology

CLUSTER = """
node n {
  gpus 2
  link gpu0 <-> gpu1 { bandwidth 100 GB/s; latency 1 us }
  nic nic[0-1] { bandwidth 200 Gbps }
  nic nic[2-3] { bandwidth 100 Gbps }
  attach gpu[0-1] -> nic[0-1]
  attach gpu[0-1] -> nic[2-3]
}
cluster c { instance a[0-1] = n  fabric f { join *.nic*; latency 1 us } }
"""


@pytest.mark.parametrize("collective", ["allgather", "allreduce"])
def test_two_limits(tmp_path: Path, collective: CollectiveName) -> None:
    file = tmp_path / "c.dsl"
    file.write_text(CLUSTER)
    made = api.synthesize(file, collective, size="1GB", always=True)
    verdict = made.verdict
    assert verdict is not None and verdict.target_limit is not None
    assert verdict.target_limit == pytest.approx(verdict.limit * 1.5, rel=0.01)  # 2 x 25 of 2 x (25 + 12.5) GB/s
    assert 95 < (verdict.percent_of_target_limit or 0) <= 100
    assert any(line.startswith("limit of programs for the target: ") for line in verdict.explanation)
    # the target's limit is proved on the links that are left, and its certificate holds there only
    bound, part, whole = made.time_optimality.bound, made.topology, made.topology.whole
    assert bound is not None and whole is not None
    assert not time_bound_violations(part, collective, None, bound)
    assert time_bound_violations(whole, collective, None, bound)
    # the schedule has the numbers of the whole cluster, and the program takes there what was said
    made.write(tmp_path / "x")
    schedule, program = tmp_path / "x.schedule.json", tmp_path / "x.xml"
    assert not api.verify(schedule, file).count("error")
    assert api.simulate(program, file, "1GB").predictions[0].seconds == pytest.approx(verdict.seconds)


def test_hops_make_a_second_limit(tmp_path: Path) -> None:
    file = tmp_path / "c.dsl"
    file.write_text(CLUSTER)
    made = api.synthesize(file, "allgather", size="1KB")
    assert made.topology.whole is not None
    verdict, stated = made.verdict, api.synthesize(file, "allgather", size="1KB", runtime_costs=False).verdict
    assert verdict is not None and verdict.target_limit is not None
    assert 99 < (verdict.percent_of_target_limit or 0) <= 100 and (verdict.percent_of_limit or 0) < 80
    assert stated is not None and stated.target_limit is None
    assert stated.figures()["target_limit_us"] is None
    assert not any("target" in line for line in stated.explanation)


def programs(topology: Topology, name: CollectiveName, root: Rank | None) -> Iterator[Program]:
    """What libraries run, cut coarsely and finely: sends, rings or chains, trees."""
    for parts in (1, 8):
        yield ring_program(topology, name, root, parts)
        if name == "allreduce":
            yield tree_program(topology, parts)


@pytest.mark.parametrize(
    "seed", [304, 309, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (305, 310, 325, 326))]
)
def test_no_program_is_quicker(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, options = parse_topology(generated_cluster(seed).text), CostOptions(runtime=NCCL_TABLES)
    monkeypatch.setattr(time_verdict, "ALIKE", 0.0)  # hops always count
    near = 0.0
    for target in (PORTABLE, TARGETS["msccl-executor"]):
        topology = usable(whole, [target])
        prices = options.costs(topology)
        for name in COLLECTIVE_NAMES:
            root = 0 if name in ROOTED else None
            bounds = bounds_of(topology, name, root, options)
            tried = supported(prices, target, name, topology.servers)
            for program in programs(topology, name, root):
                for protocol in runnable(program, prices, target, topology.servers):
                    assert protocol in tried
                    monkeypatch.setattr(time_verdict, "supported", lambda *_, only=protocol: [only])
                    predictor = ProgramPredictor(topology, replace(program, protocol=protocol), options, target)
                    for size in (2**10, 2**16, 2**20, 2**24):
                        least = target_seconds(topology, bounds, root, size, options, target)
                        timeline, unsteady = predictor.run(size)  # loops are extrapolated
                        share = least / timeline.makespan
                        assert share <= 1 + 1e-9 + 0.01 * unsteady, (name, protocol, size, program.name)
                        near = max(near, share)
    assert near > 0.95  # and some are there


def test_hops_count_where_they_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two GPUs, 10 GB/s and 1 us apart: a message takes the hop of its protocol, start and bytes on the wire."""
    text = 'node n { model "H100" gpus 2 link gpu0 <-> gpu1 { bandwidth 10 GB/s; latency 1 us; kind pcie } }'
    topology = parse_topology(f"{text}\ncluster c {{ instance a = n }}")
    options = CostOptions(runtime=NCCL_TABLES, calibration="spec")
    bounds = bounds_of(topology, "broadcast", 0, options)

    def limit(size: int) -> float:
        return target_seconds(topology, bounds, 0, size, options, PORTABLE) * 1e6

    assert limit(10_000) == pytest.approx(min(6.6 + 1 + 2, 14 + 2.5 + 8 / 7, 8.4 + 3.4 + 1))
    assert limit(100_000) == pytest.approx(min(6.6 + 1 + 20, 14 + 1.9 + 80 / 7, 8.4 + 3.4 + 10))
    monkeypatch.setattr(time_verdict, "_of_programs", None)
    assert limit(10**9) == pytest.approx(8.4 + 3.4 + 100_000)  # no time is spent on hops


def test_a_message_occupies_wires_before_its_latency(monkeypatch: pytest.MonkeyPatch) -> None:
    """What enters the slow GPU from afar fills its wire from the start, and the last of it comes from nearby."""
    text = """
    node n {
      gpus 3
      switch plx0 { ports gpu0; bandwidth 30 GB/s; latency 1 us; kind pcie }
      switch plx1 { ports gpu1; bandwidth 30 GB/s; latency 1 us; kind pcie }
      link gpu2 <-> plx1 { bandwidth 3 GB/s; kind pcie }
      bus host { members plx[0-1]; bandwidth 30 GB/s; latency 20 us; kind upi }
    }
    cluster c { instance a = n }"""
    topology, options = parse_topology(text), CostOptions(runtime=NCCL_TABLES, calibration="spec")
    chains = ring_program(topology, "broadcast", 0, 24, ((1, 2, 0), (1, 2, 0), (2, 1, 0)))
    seconds = ProgramPredictor(topology, replace(chains, protocol="LL"), options).run(2**20)[0].makespan
    bounds = bounds_of(topology, "broadcast", 0, options)
    monkeypatch.setattr(time_verdict, "supported", lambda *_: ["LL"])
    assert seconds == pytest.approx(target_seconds(topology, bounds, 0, 2**20, options, PORTABLE), rel=1e-9)
    assert seconds == pytest.approx(6.6e-6 + 2 * 2**20 / 3e9 + 1e-6, rel=1e-9)
    plain = ProgramPredictor(topology, chains, options).run(2**20)[0].makespan
    verdict = time_verdict.time_verdict(topology, "broadcast", 0, 2**20, (plain, plain), options)
    assert verdict.limit <= plain < bounds.seconds(2**20)


def test_what_ll_carries_out_of_a_server_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two servers whose four NICs carry 200 GB/s: processors read the flags of LL, at 39 GB/s of data."""
    text = """
    node n {
      model "H100"
      gpus 4
      switch s { ports gpu[0-3]; bandwidth 450 GB/s; latency 0.7 us; kind nvlink }
      nic nic[0-3] { bandwidth 400 Gbps }
      attach gpu[0-3] -> nic[0-3]
    }
    cluster c { instance a[0-1] = n fabric net { join *.nic*; latency 1.3 us } }"""
    topology, options = parse_topology(text), CostOptions(runtime=NCCL_TABLES, calibration="spec")
    bounds = bounds_of(topology, "broadcast", 0, options)
    monkeypatch.setattr(time_verdict, "supported", lambda *_: ["LL"])
    seconds = target_seconds(topology, bounds, 0, 2**20, options, PORTABLE)
    assert 2**20 / 39e9 < seconds < 2**20 / 39e9 + 15e-6
