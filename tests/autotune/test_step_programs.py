"""Schedules of steps: their programs keep their time, and the plain one is written where nothing else fits."""

from __future__ import annotations

from pathlib import Path

import pytest

from hetesynth.engine.artifacts import Synthesis
from hetesynth.engine.request import Request
from hetesynth.engine.synth import synthesize
from hetesynth.model.collective import CollectiveName
from hetesynth.model.problem import Budget

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def asked(cluster: str, name: CollectiveName) -> Request:
    return Request(EXAMPLES / cluster / "topo.dsl", name, budget=Budget(effort=1.0), objective="steps")


def noted(synthesis: Synthesis) -> dict[str, str]:
    """What became of dispatched programs, by what they are called."""
    return {d.what: d.verdict for d in synthesis.decisions if "dispatched" in d.what}


@pytest.mark.parametrize(
    ("cluster", "name"), [("h20_4p8", "allreduce"), ("h20_4p8", "allgather"), ("v100_4p8", "allreduce")]
)
def test_programs_keep_the_time_of_their_schedules(cluster: str, name: CollectiveName) -> None:
    synthesis = synthesize(asked(cluster, name))
    assert next(iter(noted(synthesis).values())) == "tried" and synthesis.program_seconds is not None
    assert synthesis.time_optimality.seconds is not None
    assert synthesis.program_seconds <= synthesis.time_optimality.seconds * 1.02
