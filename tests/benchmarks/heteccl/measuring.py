"""One case in a process of its own: ``PYTHONPATH=tests python -m benchmarks.heteccl.measuring NAME TOPOLOGY``.

In: the name of a synthesis or of programs, the file of the cluster. Out: an object of JSON. Of a synthesis:
``gpus``, ``steps``, ``bound``, ``within`` (the bound on reduce-scatter, then allgather), ``proof``, ``seconds`` of
the search with its bounds and judge, ``calls`` of Z3, ``counterexamples``, ``iterations``. Of programs: ``gpus``
and a row for each size with seconds of ``ours``, ``limit``, ``NCCL`` by its formula, best ``rings``, ``TACCL``,
``HS`` and ``SE``, the ``percent`` of the limit, both at line rate, and what won.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from benchmarks.heteccl.cases import ProgramCase, SynthesisCase, all_cases
from benchmarks.heteccl.rivals import Rivals
from hetesynth.engine.compilation import PhaseTimer
from hetesynth.engine.predictors import CostOptions
from hetesynth.engine.problem import load_problem, verified_solver
from hetesynth.engine.request import Request
from hetesynth.engine.synth import synthesize
from hetesynth.engine.time_verdict import rival_at
from hetesynth.errors import HetesynthError
from hetesynth.model.cegis_trace import totals
from hetesynth.model.problem import Budget
from hetesynth.model.runtime_costs import NCCL_TABLES
from hetesynth.search import registry
from hetesynth.search.effort import for_steps
from hetesynth.search.search import Candidate
from hetesynth.search.solve import Solution
from hetesynth.topology.language import load_topology

BUDGET = 600.0  # seconds of one search; the default effort ends before


def synthesis(case: SynthesisCase, topology: Path) -> dict[str, Any]:
    """The search of ``case``; reductions obey HeteCCL's eq. 8."""
    request = Request(
        topology, case.collective, chunks=case.chunks, budget=Budget(BUDGET, effort=1.0), exclusion="step"
    )
    _, problem = load_problem(request, PhaseTimer())
    policy = for_steps(request.policy, request.budget.effort)
    solver = verified_solver(registry.strategy(case.strategy), request.budget, policy)
    solver = replace(solver, first_candidate=cast("Candidate", case.first))
    started = time.monotonic()
    outcome = solver.solve(problem)
    seconds = time.monotonic() - started
    total = totals(solver.trace.entries)
    said: dict[str, Any] = {
        "gpus": problem.ranks, "seconds": seconds,
        **{name: total[name] for name in ("calls", "counterexamples", "iterations")},
    }  # fmt: skip
    if not isinstance(outcome, Solution):
        return said | {"error": outcome.reason}
    return said | {
        "steps": outcome.schedule.makespan, "bound": outcome.bound.steps, "proof": outcome.bound.proof,
        "within": outcome.within,
    }  # fmt: skip


def programs(case: ProgramCase, topology: Path) -> dict[str, Any]:
    """The programs of ``case`` by the default command, beside NCCL and the models."""
    cluster = load_topology(topology)
    request = Request(
        topology, case.collective, budget=Budget(BUDGET, effort=1.0), runtime=NCCL_TABLES, single_root=True
    )
    rivals = Rivals(cluster, request)
    aligned, rounds = (rivals.teccl(variant, case.sizes) for variant in ("HS", "SE"))
    rows = []
    for size, hs, se in zip(case.sizes, aligned, rounds, strict=True):
        written = synthesize(replace(request, size=size))
        options = CostOptions.of(request)
        nccl = rival_at(cluster, case.collective, None, size, options)
        rings = synthesize(replace(request, size=size, strategy="ring"))
        taccl, sketch = rivals.taccl(size)
        rows.append({
            "size": size, "ours": written.program_seconds, "limit": written.verdict.limit,
            "percent": written.verdict.percent_of_limit,
            "NCCL": None if isinstance(nccl, str) else nccl.seconds,
            "rings": rings.program_seconds, "TACCL": taccl, "HS": hs, "SE": se,
            "candidate": "" if written.choice is None else written.choice.label, "sketch": sketch,
        })  # fmt: skip
    return {"gpus": cluster.ranks, "rows": rows}


def main(arguments: list[str]) -> None:
    """Measure the case of that name and print what it says."""
    name, topology = arguments
    case = next(each for each in all_cases() if each.name == name)
    try:
        if isinstance(case, SynthesisCase):
            said = synthesis(case, Path(topology))
        elif isinstance(case, ProgramCase):
            said = programs(case, Path(topology))
        else:
            said = {"error": "a composition is a command of its own"}
    except HetesynthError as error:
        said = {"error": f"{error.code}: {error.message}"}
    sys.stdout.write(json.dumps(said) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
