"""A server with two classes of NICs: nothing is planned over the slower one, and the verdict has two limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from hetesynth import api
from hetesynth.engine.predictors import CostOptions
from hetesynth.judge.bounds.time_bounds import time_bound_violations
from hetesynth.model.calibration import calibrated
from hetesynth.model.collective import CollectiveName

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
    made = api.synthesize(file, collective, size="1GB")
    verdict = made.verdict
    assert verdict is not None and verdict.target_limit is not None
    assert verdict.target_limit == pytest.approx(verdict.limit * 1.5, rel=0.01)  # 2 x 25 of 2 x (25 + 12.5) GB/s
    assert 95 < (verdict.percent_of_target_limit or 0) <= 100
    assert "% of that of programs for the target" in verdict.line
    # the target's limit is proved on the links that are left, and its certificate holds there only
    bound, part, whole = made.time_optimality.bound, made.topology, made.topology.whole
    assert bound is not None and whole is not None
    rates = CostOptions.of(made.request).rates
    assert not time_bound_violations(calibrated(part, rates), collective, None, bound)
    assert time_bound_violations(calibrated(whole, rates), collective, None, bound)
    # the schedule has the numbers of the whole cluster, and the program takes there what was said
    made.write(tmp_path / "x")
    schedule, program = tmp_path / "x.schedule.json", tmp_path / "x.xml"
    assert not api.verify(schedule, file).count("error")
    assert api.simulate(program, file, "1GB").predictions[0].seconds == pytest.approx(verdict.seconds)


def test_one_limit_where_latency_decides(tmp_path: Path) -> None:
    file = tmp_path / "c.dsl"
    file.write_text(CLUSTER)
    made = api.synthesize(file, "allgather", size="1KB")
    assert made.topology.whole is not None
    assert made.verdict is not None and made.verdict.target_limit is None
    assert "target" not in made.verdict.line and made.verdict.figures()["target_limit_us"] is None
