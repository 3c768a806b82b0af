"""The rules for plans: each is in the code and in the manual, and findings carry them wherever they are shown."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import get_args

import pytest
from plan_builders import exchange, pair

import hetesynth.judge.mscclpp
from hetesynth.cli.main import run
from hetesynth.judge.msccl.rules import BY_ID, Stage
from hetesynth.judge.mscclpp.rules import ALL_BY_ID, PLAN_RULES
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


NODE = "node n { gpus 1; nic nic0 { bandwidth 100 Gbps }; attach gpu0 -> nic0 }"
APART = NODE + "\ncluster apart { instance a = n; instance b = n; fabric ib { join *.nic0 } }\n"
TOGETHER = "node n { gpus 2; link gpu0 <-> gpu1 { bandwidth 25 GB/s } }\ncluster together { instance a = n }\n"


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
