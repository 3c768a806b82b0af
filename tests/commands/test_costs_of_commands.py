"""What runtimes cost, in everything that chooses and tells times: tuning, bounds, atlas, compare, reports."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hetesynth.engine.predictors import CostOptions, SchedulePredictor, first_predictor
from hetesynth.engine.request import Request
from hetesynth.engine.synth import synthesize
from hetesynth.engine.time_verdict import bounds_of
from hetesynth.model.collective import COLLECTIVE_NAMES, ROOTED, CollectiveName
from hetesynth.model.problem import Budget
from hetesynth.model.runtime_costs import NCCL_TABLES
from hetesynth.model.target import TARGETS

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FIG10 = EXAMPLES / "fig10" / "topo.dsl"
REQUEST = Request(FIG10, "allgather", strategy="greedy", budget=Budget(effort=1.0), chunks_stated=True)


@pytest.mark.parametrize("name", COLLECTIVE_NAMES)
@pytest.mark.parametrize("target", ["portable", "msccl-executor", "mscclpp"])
def test_no_program_is_predicted_below_the_bound_and_the_launch(name: CollectiveName, target: str) -> None:
    """With every cost counted, for sizes from a byte a chunk on."""
    if name not in TARGETS[target].collectives:
        pytest.skip("no such files")
    asked = replace(REQUEST, collective=name, targets=(TARGETS[target],), runtime=NCCL_TABLES, single_root=True)
    synthesis = synthesize(replace(asked, root=0 if name in ROOTED else None))
    costs = CostOptions.of(synthesis.request)
    bounds = bounds_of(synthesis.topology, name, synthesis.problem.collective.root, costs)
    program = first_predictor(synthesis.topology, synthesis.programs, costs)
    schedule = SchedulePredictor(synthesis.topology, synthesis.problem, synthesis.solution.schedule, costs)
    assert program is not None
    for size in (1_000, 1_000_000, 1_000_000_000):
        assert program.predict(size).seconds >= bounds.seconds(size) * (1 - 1e-9)
        assert schedule.predict(size).seconds >= bounds.seconds(size) * (1 - 1e-9)
