"""Ctrl-C in ``compare``: what is known by then is told, and nothing else is begun."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hetesynth.engine import compare as comparison
from hetesynth.engine.choice import choice
from hetesynth.engine.choice import pool as pools
from hetesynth.engine.choice.tuning import CandidateSpecs, TuningRun, tune
from hetesynth.engine.compare import INTERRUPTED, compare
from hetesynth.engine.request import Request
from hetesynth.model.problem import Budget
from hetesynth.model.topology import Topology
from hetesynth.search.search import Progress

RING8 = Path(__file__).resolve().parents[2] / "examples" / "ring8" / "topo.dsl"
ASKED = Request(RING8, "allgather", chunks_stated=True, budget=Budget(effort=1.0))
SIZES = (1 << 10, 1 << 16, 1 << 20, 1 << 24, 1 << 28)
NAMES = ("sph", "double-tree", "greedy")


def interrupted_in(number: int, monkeypatch: pytest.MonkeyPatch, *, at_once: bool) -> list[str]:
    """Ctrl-C in the tuning run of that number, before or after it found something; the strategies that were
    tried."""
    tried: list[str] = []

    def run(specs: CandidateSpecs, progress: Progress, **options: Any) -> TuningRun:
        tried.append(specs.request.strategy)
        if len(tried) < number:
            return tune(specs, progress, **options)
        if at_once:
            raise KeyboardInterrupt
        return replace(tune(specs, progress, **options), interrupted=True, cut_short=True)

    monkeypatch.setattr(choice, "tune", run)
    return tried


@pytest.mark.parametrize("at_once", [True, False])
def test_what_is_known_is_told(monkeypatch: pytest.MonkeyPatch, at_once: bool) -> None:
    tried = interrupted_in(6, monkeypatch, at_once=at_once)  # four sizes each: the second strategy's second
    found = compare(ASKED, SIZES, NAMES)
    assert tried == ["sph"] * 4 + ["double-tree"] * 2 and found.cut_short
    by_name = {name: [e for e in found.entries if e.strategy == name] for name in NAMES}
    assert all(e.time_optimality is not None for e in (*by_name["sph"], *by_name["double-tree"]))
    assert [e.refusal for e in by_name["greedy"]] == [INTERRUPTED] * len(SIZES)


def test_an_interrupt_while_a_strategy_is_predicted_keeps_those_before(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = pools.pool

    def second(
        topology: Topology, request: Request, sizes: tuple[int, ...], progress: Progress, **options: Any
    ) -> pools.Pool:
        if request.strategy == "double-tree":
            raise KeyboardInterrupt
        return pool(topology, request, sizes, progress, **options)

    monkeypatch.setattr(comparison, "pool", second)
    found = compare(ASKED, SIZES, NAMES)
    assert {e.strategy for e in found.entries if e.time_optimality is not None} == {"sph"} and found.cut_short
