"""Nothing that is said of a damaged MSCCL++ plan changes unnoticed: whole verdicts, as digests."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
from plan_builders import NOP, barrier, block, copy, exchange, gpu, local, on, pair, plan, put, semaphore
from support.damages import LIKE, damaged_json, damaged_values, digests
from test_mscclpp_judge import RECEIVED, SUM, two_blocks

from hetesynth.errors import HetesynthError
from hetesynth.judge.mscclpp.judge import open_range_violations, plan_violations, plan_warnings
from hetesynth.judge.mscclpp.reader import read_plan_json
from hetesynth.model.collective import CollectiveName
from hetesynth.model.plan import PLAN_OPS, Plan, PlanOperation

TABLES = Path(__file__).parent / "golden"
PAIR = Path(__file__).parents[1] / "lowering" / "golden" / "mscclpp_allgather_pair.json"


def taken(rank: int) -> list[PlanOperation]:
    """The other's chunk, taken by a get, and the sum with the own one."""
    other = put(local("i", 0), 0, to=0).dst
    return [
        copy(local("i", 0), local("o", 0)), NOP, on("signal"), on("wait"), NOP,
        PlanOperation("get", "memory", (), other, (local("s", 0),)), NOP, on("signal"), on("wait"), NOP, SUM,
    ]  # fmt: skip


PLANS: dict[str, Plan] = {
    "memory": pair(exchange(0)),
    "port": pair(exchange(0, "port"), "port", exchange(1, "port")),
    "barrier": two_blocks([*RECEIVED, barrier(0, 2)], [barrier(0, 2), SUM]),
    "semaphore": two_blocks(
        [*RECEIVED, semaphore("sem_release", 0)], [semaphore("sem_acquire", 0), NOP, SUM], (0,)
    ),
    "get": plan(*(gpu(r, block(0, taken(r)), i=1, o=1) for r in (0, 1)), name="allreduce"),
}


def verdict(made: Plan) -> str:
    """All that is said of it: as a file that anybody runs, and on links and servers that are known."""
    parts = []
    for options in ({}, {"root": 1, "links": {(0, 1)}, "servers": ("a", "b", "b"), "sms": 1, "max_findings": 3}):
        try:
            parts.append("; ".join(map(repr, plan_violations(made, **options))))  # type: ignore[arg-type]
        except HetesynthError as error:
            parts.append(error.render())
        except LookupError as error:  # names what no reader lets through
            parts.append(repr(error))
    parts.append("; ".join(map(repr, [*open_range_violations(made), *plan_warnings(made)])))
    return " | ".join(parts)


def read(data: bytes) -> str:
    """What the reader refuses, or the plan and what is said of it."""
    try:
        made = read_plan_json(data, "x.json")
    except HetesynthError as error:
        return error.render()
    return f"{made!r} {verdict(made)}"


@pytest.mark.parametrize("name", PLANS)
def test_verdicts_on_damaged_plans_are_what_they_were(name: str, golden: Callable[[Path, bytes], None]) -> None:
    damages = damaged_values(PLANS[name], (*LIKE, PLAN_OPS, (*get_args(CollectiveName), "custom")))
    golden(TABLES / f"mscclpp_{name}.txt", digests(damages, verdict))


def test_verdicts_on_damaged_files_are_what_they_were(golden: Callable[[Path, bytes], None]) -> None:
    golden(TABLES / "mscclpp_file.txt", digests(damaged_json(json.loads(PAIR.read_bytes())), read))


def test_the_undamaged_plans_are_right() -> None:
    assert not any(plan_violations(made) for made in PLANS.values())
