"""The rules for plans: each is in the code and in the manual, and findings carry them wherever they are shown."""

from __future__ import annotations

import ast
import json
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from test_mscclpp_judge import NOP, block, copy, exchange, gpu, local, pair, plan, put, semaphore

import hetesynth.judge.mscclpp
from hetesynth.cli.main import run
from hetesynth.judge.msccl.rules import BY_ID, Stage
from hetesynth.judge.mscclpp.judge import plan_violations
from hetesynth.judge.mscclpp.rules import ALL_BY_ID, PLAN_RULES
from hetesynth.model.plan import Plan, PlanBlock
from hetesynth.model.target import TARGETS
from hetesynth.model.verdict import ViolationKind
from hetesynth.programs.mscclpp.json_writer import write_plan_json

MULTIPROCESSORS = TARGETS["mscclpp"].multiprocessors


def test_every_rule_is_used_and_no_other() -> None:
    used: set[str] = set()
    for path in sorted(Path(hetesynth.judge.mscclpp.__file__).parent.glob("*.py")):
        if path.name != "rules.py":
            nodes = ast.walk(ast.parse(path.read_text()))
            used |= {n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    assert {word for word in used if word.startswith("plan-")} == set(PLAN_RULES)
    assert len(ALL_BY_ID) == len(BY_ID) + len(PLAN_RULES)
    for rule in ALL_BY_ID.values():
        assert rule.kind in get_args(ViolationKind) and rule.stage in get_args(Stage)


def test_the_table_in_the_manual_is_that_of_the_code() -> None:
    text = (Path(__file__).parents[2] / "docs" / "mscclpp.md").read_text()
    for rule in PLAN_RULES.values():
        assert f"| {rule.id} | {rule.name} | {rule.kind} | {rule.stage} | {rule.summary} | {rule.help} |" in text
    assert f"or else {MULTIPROCESSORS}," in text


def crowded(blocks: int) -> Plan:
    """An exchange beside thread blocks that do nothing."""
    idle = [PlanBlock(t, (NOP,)) for t in range(1, blocks)]
    return plan(*(gpu(r, block(0, exchange(r)), *idle) for r in range(2)))


def test_thread_blocks_must_all_be_on_the_gpu_at_once() -> None:
    assert plan_violations(crowded(3), sms=3) == plan_violations(crowded(3)) == []
    found = plan_violations(crowded(4), sms=3)
    assert [(v.rule, v.rank) for v in found] == [("HX820", 0), ("HX820", 1)]


def races() -> Plan:
    both = pair([*exchange(0)[:4], copy(local("i", 0), local("s", 0)), *exchange(0)[4:]])
    first, second = both.gpus
    other = replace(first.blocks[0], id=1, operations=(copy(local("i", 0), local("s", 0)),))
    return replace(both, gpus=(replace(first, blocks=(first.blocks[0], other)), second))


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (replace(crowded(1), alignment=8), "plan-alignment"),
        (replace(crowded(1), threads=0), "plan-threads"),
        (pair([*exchange(0), NOP, put(local("i", 0), 9)]), "plan-range"),
        (pair([*exchange(0), semaphore("sem_acquire", 3)]), "plan-semaphore-range"),
        (pair([*exchange(0), *[NOP] * 60]), "plan-operation-limit"),
        (pair(exchange(0)[:-1]), "plan-signals-left"),
        (pair(exchange(0)[1:]), "plan-deadlock"),
        (pair([*exchange(0), NOP, copy(local("s", 0), local("o", 0))]), "plan-undefined-data"),
        (pair([*exchange(0), NOP, copy(local("o", 0), local("i", 0))]), "plan-input-overwritten"),
        (pair([*exchange(0)[:4], *exchange(0)[5:]]), "plan-final-data"),
        (pair([*exchange(0)[:1], *exchange(0)[3:5], NOP, *exchange(0)[1:2], *exchange(0)[6:]]),
         "plan-early-access"),
        (pair([*exchange(0), copy(local("i", 0), local("s", 0)), copy(local("s", 0), local("s", 1))]),
         "plan-missing-nop"),
        (races(), "plan-race"),
    ],
)  # fmt: skip
def test_findings_have_the_rule_of_their_defect(broken: Plan, rule: str) -> None:
    found = plan_violations(broken)
    assert rule in {ALL_BY_ID[v.rule or ""].name for v in found}
    assert all(v.kind == ALL_BY_ID[v.rule or ""].kind for v in found)


NODE = "node n { gpus 1; nic nic0 { bandwidth 100 Gbps }; attach gpu0 -> nic0 }"
APART = NODE + "\ncluster apart { instance a = n; instance b = n; fabric ib { join *.nic0 } }\n"
TOGETHER = "node n { gpus 2; link gpu0 <-> gpu1 { bandwidth 25 GB/s } }\ncluster together { instance a = n }\n"


def test_the_command_tells_the_rule_and_its_help_in_every_form(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "p.json"
    file.write_bytes(write_plan_json(replace(crowded(MULTIPROCESSORS + 1), max_bytes=2**20)))
    assert run(["verify", str(file)]) == 1
    told = capsys.readouterr().out
    assert "limit: gpu 0: 109 thread blocks wait for each other on 108 multiprocessors" in told
    assert "[HX820]" in told and "help: Use fewer thread blocks." in told
    assert run(["verify", str(file), "--json"]) == 1
    violations = json.loads(capsys.readouterr().out)["violations"]
    assert {(v["rule"], v["help"]) for v in violations} == {("HX820", "Use fewer thread blocks.")}
    assert run(["verify", str(file), "--sarif"]) == 1
    log = json.loads(capsys.readouterr().out)["runs"][0]
    assert [rule["id"] for rule in log["tool"]["driver"]["rules"]] == ["HX820"]
    assert {result["ruleId"] for result in log["results"]} == {"HX820"}
    assert run(["verify", str(file), "--sms", "109"]) == 0


def test_the_topology_says_which_gpus_share_memory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "p.json"
    file.write_bytes(write_plan_json(pair(exchange(0))))
    far = tmp_path / "far.json"
    far.write_bytes(write_plan_json(pair(exchange(0, "port"), "port")))
    together, apart = tmp_path / "together.dsl", tmp_path / "apart.dsl"
    together.write_text(TOGETHER)
    apart.write_text(APART)
    assert run(["verify", str(file), "--topo", str(together)]) == 0
    assert run(["verify", str(far), "--topo", str(apart)]) == 0
    capsys.readouterr()
    assert run(["verify", str(file), "--topo", str(apart), "--json"]) == 1
    found = json.loads(capsys.readouterr().out)["violations"]
    assert {v["rule"] for v in found} == {"HX809"}
