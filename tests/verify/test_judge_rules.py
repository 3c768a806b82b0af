"""The rules of the judges: each is in the code and in the manual, and findings carry them."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import get_args

import pytest
from plan_builders import exchange, pair

import hetesynth.judge
from hetesynth.cli.main import run
from hetesynth.judge.msccl.lint_readers import READERS
from hetesynth.judge.rules import BY_ID, RULES, Stage
from hetesynth.model.target import TARGETS
from hetesynth.model.verdict import ViolationKind
from hetesynth.programs.mscclpp.json_writer import write_plan_json

MULTIPROCESSORS = TARGETS["mscclpp"].multiprocessors
DOCS = Path(__file__).parents[2] / "docs"


def test_every_rule_is_used_and_no_other() -> None:
    used: set[str] = set()
    for path in Path(hetesynth.judge.__file__).parent.rglob("*.py"):
        if path.name != "rules.py":
            nodes = ast.walk(ast.parse(path.read_text()))
            used |= {n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    assert set(RULES) <= used
    assert {word for word in used if word.startswith("plan-")} <= set(RULES)
    assert len(BY_ID) == len(RULES)
    for rule in RULES.values():
        assert rule.kind in get_args(ViolationKind) and rule.stage in get_args(Stage)


def test_the_tables_in_the_manual_are_those_of_the_code() -> None:
    text = (DOCS / "verify.md").read_text() + (DOCS / "mscclpp.md").read_text()
    rows = re.findall(r"^\| (HX\d+) \| (\S+) \| (\S+) \| (\S+) \| .* \| (.*) \|$", text, re.MULTILINE)
    assert sorted(rows) == sorted((r.id, r.name, r.kind, r.stage, r.help) for r in RULES.values())
    assert f"or else {MULTIPROCESSORS}," in text
    for name in READERS:
        assert f"| {name} | {TARGETS[name].multiprocessors} |" in text


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
