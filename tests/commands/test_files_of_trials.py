"""A program in steady state that was timed in the choice is the one that is written: lowered once, as quick."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hetesynth.engine import steady_programs
from hetesynth.engine.predictors import CostOptions, first_predictor
from hetesynth.engine.request import Request
from hetesynth.engine.synth import synthesize
from hetesynth.model.collective import CollectiveName
from hetesynth.model.problem import Budget
from hetesynth.model.target import TARGETS
from hetesynth.programs.msccl.dispatched import lower_dispatched
from hetesynth.programs.msccl.lower import Lowered, LoweringOptions

EXAMPLES = Path(__file__).parents[2] / "examples"
SIZE = 64 << 20


def asked(name: CollectiveName, cluster: str = "ring8") -> Request:
    targets = (TARGETS["portable"],)
    topology = EXAMPLES / cluster / "topo.dsl"
    return Request(topology, name, strategy="steady-state", budget=Budget(), size=SIZE, targets=targets)


@pytest.mark.parametrize("name", ["allgather", "allreduce"])
def test_what_is_reported_is_what_the_bytes_take(name: CollectiveName) -> None:
    synthesis = synthesize(asked(name))
    predictor = first_predictor(synthesis.topology, synthesis.programs, CostOptions.of(synthesis.request))
    assert predictor is not None and synthesis.strategy == "steady-state"
    assert synthesis.program_seconds == predictor.timeline(SIZE).makespan


def test_it_is_lowered_once_out_of_place(monkeypatch: pytest.MonkeyPatch) -> None:
    lowered: list[tuple[int, bool]] = []

    def counting(*arguments: Any) -> Lowered:
        options: LoweringOptions = arguments[-1]
        lowered.append((arguments[2].pieces, options.in_place))
        return lower_dispatched(*arguments)

    monkeypatch.setattr(steady_programs, "lower_dispatched", counting)
    synthesis = synthesize(asked("allgather"))
    written = [pieces for pieces, in_place in lowered if in_place]
    assert len(synthesis.programs) == 2 and len(written) == 1
    assert lowered.count((written[0], False)) == 1
