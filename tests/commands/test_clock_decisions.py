"""Whatever the clock decides is told: a clock that jumps gives the same bytes, or ``cut_short`` is true."""

import itertools
import json
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from hetesynth.engine import atlas as atlases
from hetesynth.engine.artifacts import Synthesis
from hetesynth.engine.choice.tuning import CandidateSpecs, tune
from hetesynth.engine.compare import compare
from hetesynth.engine.compilation import compilation
from hetesynth.engine.request import Request
from hetesynth.engine.synth import synthesized
from hetesynth.errors import HetesynthError
from hetesynth.model import deadline
from hetesynth.model.problem import Budget
from hetesynth.topology.language import load_topology

EXAMPLES = Path(__file__).parents[2] / "examples"
LONG = 1e9  # seconds: a budget that nothing uses up
JUMPS = 6
SMALL = (1 << 16, 1 << 24)


def cluster(name: str) -> Path:
    return EXAMPLES / name / "topo.dsl"


def of_synthesis(made: Synthesis) -> tuple[bytes, bool]:
    return b"".join(made.files.values()), made.cut_short


def synth(**options: object) -> Callable[[Budget], tuple[bytes, bool]]:
    def command(budget: Budget) -> tuple[bytes, bool]:
        try:
            return of_synthesis(synthesized(compilation(Request(budget=budget, **options))))  # type: ignore[arg-type]
        except HetesynthError as error:
            assert error.exit_code == 3
            return b"", error.message.endswith("in the time budget")

    return command


def atlas(budget: Budget) -> tuple[bytes, bool]:
    made = atlases.atlas(Request(cluster("fig10"), "allgather", budget=budget), SMALL)
    files = {name: data for name, data in made.files.items() if name != "index.json"}
    return b"".join(files[name] for name in sorted(files)), made.cut_short


def comparison(budget: Budget) -> tuple[bytes, bool]:
    found = compare(Request(cluster("fig10"), "allgather", budget=budget), SMALL, ("auto", "greedy", "ring"))
    figures = found.figures()
    return json.dumps(figures["results"]).encode(), figures["cut_short"]


FIG10, RING, V100 = cluster("fig10"), cluster("ring8"), cluster("v100_4p8")
COMMANDS = {
    "greedy": synth(topology=V100, collective="allgather", strategy="greedy", chunks=3),
    "cegis": synth(topology=V100, collective="broadcast", strategy="cegis", chunks=3),
    "monolithic": synth(topology=FIG10, collective="allgather", strategy="monolithic"),
    "auto": synth(topology=V100, collective="broadcast", chunks=3),
    "direct": synth(topology=V100, collective="alltoall", strategy="direct"),
    "auto sized": synth(topology=FIG10, collective="allgather", size=1 << 22),
    "auto sized, personal": synth(topology=RING, collective="alltoall", size=1 << 20),
    "atlas": atlas,
    "compare": comparison,
}
QUICK = ("monolithic", "auto sized, personal")


class Jumping:
    """A clock whose steps are tiny, with now and then a large one."""

    def __init__(self, seed: int) -> None:
        self.rng, self.time = Random(seed), 0.0
        self.often = 10 ** self.rng.uniform(-3.0, 0.0)

    def __call__(self) -> float:
        self.time += self.rng.expovariate(1.0) if self.rng.random() < self.often else 1e-9
        return self.time


def frozen_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deadline, "source", lambda: 0.0)


def test_a_candidate_that_was_cut_short_cuts_the_tuning_run_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """The list is tried to its end; the search of one candidate was ended by its share of the budget."""
    ticks = itertools.count()
    monkeypatch.setattr(deadline, "source", lambda: next(ticks) * 1e-3)
    asked = Request(V100, "broadcast", 3, strategy="greedy", budget=Budget(1.0), chunks_stated=True, size=1 << 20)
    held = tune(CandidateSpecs(load_topology(V100), asked, 1 << 20))
    assert held.cut_short and held.ending == "time"
    assert [place for place in asked.budget.clock_decisions.told() if "greedy, c=3" in place]
    assert not [place for place in asked.budget.clock_decisions.told() if "untried" in place]


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in QUICK else pytest.mark.slow) for n in COMMANDS])
def test_the_same_bytes_or_cut_short(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    frozen_clock(monkeypatch)
    whole, short = COMMANDS[name](Budget(LONG))
    assert not short
    cut = 0
    for seed in range(JUMPS):
        monkeypatch.setattr(deadline, "source", Jumping(seed))
        found, short = COMMANDS[name](Budget(3.0))
        assert short or found == whole
        cut += short
    assert cut
