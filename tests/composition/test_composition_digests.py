"""Nothing that the judge says of a damaged composition changes unnoticed: whole verdicts, as digests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.damages import damaged_json, digests
from support.pods import SMALL, composed, document

from hetesynth.judge.composition.judge import judge_composition
from hetesynth.search.pods.compose import ComposedName
from hetesynth.topology.language import parse_pods

TABLES = Path(__file__).parent / "golden"


CASES: list[tuple[str, ComposedName]] = [
    ("4x2", "allgather"),
    ("2x2", "allreduce"),
    ("2x4", "reducescatter"),
    ("uplinks", "allgather"),
    ("pipe", "allgather"),
]


@pytest.mark.parametrize(("name", "collective"), CASES)
def test_verdicts_on_damaged_compositions_are_what_they_were(
    name: str, collective: ComposedName, golden: Callable[[Path, bytes], None]
) -> None:
    """Alone, on its cluster, and on one whose NICs are slower."""
    clusters = None, parse_pods(SMALL[name]), parse_pods(SMALL[name].replace("100 Gbps", "60 Gbps"))

    def verdict(data: bytes) -> str:
        return " | ".join(repr(judge_composition(data, on).violations) for on in clusters)

    values = document(composed(SMALL[name], collective))
    path = TABLES / f"composition_{name}_{collective}.txt"
    golden(path, digests(damaged_json(values), verdict))
