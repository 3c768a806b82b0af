"""The effort decides what is tried: the same bytes whatever the hash seed or the clock, and more never loses."""

import itertools
from pathlib import Path

import pytest

from hetesynth.cli.options import TimeBudget
from hetesynth.engine.choice.choice import CandidateSpecs, choose
from hetesynth.engine.request import Request
from hetesynth.engine.synth import synthesize
from hetesynth.model import deadline
from hetesynth.model.problem import Budget
from hetesynth.topology.language import load_topology

EXAMPLES = Path(__file__).parents[2] / "examples"
SIZE = 1 << 18


def cluster(name: str) -> Path:
    return EXAMPLES / name / "topo.dsl"


@pytest.mark.parametrize("collective", ["allgather", "alltoall"])
def test_a_slow_clock_changes_no_byte(monkeypatch: pytest.MonkeyPatch, collective: str) -> None:
    asked = Request(cluster("fig10"), collective, budget=Budget(effort=1.0), size=SIZE)  # type: ignore[arg-type]
    usual = synthesize(asked)
    ticks = itertools.count()
    monkeypatch.setattr(deadline, "source", lambda: next(ticks) * 100.0)
    slowed = synthesize(asked)
    assert usual.files == slowed.files
    assert not usual.decided_by_clock and not slowed.decided_by_clock and not slowed.cut_short


@pytest.mark.parametrize("name", ["fig10", "v100_4p8"])
def test_more_effort_never_loses(name: str) -> None:
    topology = load_topology(cluster(name))

    def chosen(effort: float) -> tuple[float, int]:
        asked = Request(cluster(name), "allgather", budget=Budget(effort=effort), size=SIZE)
        choice = choose(CandidateSpecs(topology, asked, SIZE))
        return choice.ranked[0].seconds or 0.0, len(choice.run.tried)

    (little, few), (much, many) = chosen(1.0), chosen(4.0)
    assert 0 < much <= little and many > few


@pytest.mark.parametrize(
    ("text", "seconds"), [("30s", 30.0), ("2m", 120.0), ("500ms", 0.5), ("7", 7.0), ("0.25", 0.25), ("1h", 3600.0)]
)
def test_time_budgets_have_units(text: str, seconds: float) -> None:
    assert TimeBudget().convert(text, None, None) == seconds
