"""Topology files to plans for MSCCL++: every collective, both aliasings, bytes judged and run in random orders."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.plan_chaos import outcome

from hetesynth.engine.request import Request
from hetesynth.engine.synth import synthesize
from hetesynth.judge.mscclpp.judge import plan_violations
from hetesynth.judge.mscclpp.reader import read_plan_json
from hetesynth.model.collective import COLLECTIVE_NAMES, CollectiveName
from hetesynth.model.problem import Budget
from hetesynth.model.target import target
from hetesynth.programs.layout import in_place_supported

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def check(cluster: str, name: CollectiveName, chunks: int = 1) -> None:
    """Synthesize for MSCCL++ and judge the bytes again, with what the topology knows of servers and links."""
    topology = EXAMPLES / cluster / "topo.dsl"
    wanted = (target("mscclpp"),)
    request = Request(topology, name, chunks=chunks, strategy="greedy", budget=Budget(effort=1.0), targets=wanted)
    made = synthesize(request)
    plans = {suffix: data for suffix, data in made.files.items() if "mscclpp" in suffix}
    assert len(plans) == (2 if in_place_supported(name) else 1)
    servers = made.topology.servers
    links = {(arc.src, arc.dst) for arc in made.problem.arcs}
    root = made.problem.collective.root
    for suffix, data in plans.items():
        plan = read_plan_json(data)
        assert plan.in_place == ("inplace" in suffix)
        assert plan_violations(plan, root=root, links=links, servers=servers) == []
        if plan.ranks <= 16:
            assert outcome(plan, root) == "right"


@pytest.mark.parametrize("name", COLLECTIVE_NAMES)
def test_every_collective_on_a_small_cluster(name: CollectiveName) -> None:
    check("fig10", name)
