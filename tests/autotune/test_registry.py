"""The registry of strategies: a new row is found everywhere, and what the rows say is true."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support.graphs import full, problem

from hetesynth.errors import HetesynthError
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.collective import COLLECTIVE_NAMES, CollectiveName
from hetesynth.model.problem import Budget
from hetesynth.search.copy_problem import CopyProblem
from hetesynth.search.registry import ROWS, StrategyRow, names, strategy, timed_strategies
from hetesynth.search.search import Strategy
from hetesynth.search.solve import Solution, Solver
from hetesynth.search.timed.earliest_arrival import Rates

ROOT = Path(__file__).resolve().parents[2]
FIG10 = ROOT / "examples" / "fig10" / "topo.dsl"

MODULE = """
from hetesynth.search.greedy import greedy
from hetesynth.search.search import Strategy

STRATEGY = Strategy("novel", greedy.improve)


def made_for(rates):
    return Strategy("novel", greedy.improve)
"""
ADD_ROW = """
import sys
from hetesynth.search import registry

row = registry.StrategyRow("novel", "new in a test", "nobody", {fields})
registry.ROWS = (*registry.ROWS, row)
"""
RUN = "from hetesynth.cli.main import run; sys.exit(run(sys.argv[1:]))"
STEPS = '"novel:STRATEGY"'
TIME = '"novel:made_for", "time"'
NEW_ROWS = pytest.mark.parametrize("fields", [STEPS, TIME])


def with_row(folder: Path, fields: str, then: str, *arguments: str) -> str:
    """What ``then`` prints where the registry has one row more, whose module is in ``folder``."""
    (folder / "novel.py").write_text(MODULE)
    script = ADD_ROW.format(fields=fields) + then
    path = os.pathsep.join([str(folder), str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], cwd=folder, env={**os.environ, "PYTHONPATH": path},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@NEW_ROWS
def test_a_new_row_can_be_asked_for(tmp_path: Path, fields: str) -> None:
    size = ["--size", "1MB", "--chunks", "1"] if fields == TIME else []
    asked = ["synth", str(FIG10), "--coll", "allgather", "--strategy", "novel", *size, "-o", "out", "--json"]
    assert json.loads(with_row(tmp_path, fields, RUN, *asked))["strategy"] == "novel"
    assert (tmp_path / "out.schedule.json").exists()


def test_names_are_unique_and_the_code_has_them() -> None:
    every = [row.name for row in ROWS]
    assert len(set(every)) == len(every) and all(row.summary and row.source for row in ROWS)
    for name in names("steps"):
        assert strategy(name).name == name and strategy(name) is strategy(name)
    rates = Rates([], [], [], 1)
    for row in ROWS:
        if row.objective == "time":
            assert {made.name for _, made in timed_strategies(row, rates)} == {row.name}


@pytest.mark.parametrize("name", COLLECTIVE_NAMES)
@pytest.mark.parametrize("row", [row for row in ROWS if not row.library], ids=lambda row: row.name)
def test_a_strategy_takes_the_collectives_of_its_row(row: StrategyRow, name: CollectiveName) -> None:
    """Four ranks, every two of them joined."""
    wanted = problem(full(4), name)
    if row.name == "composition":  # two pods of two
        wanted = replace(wanted, servers=("a", "a", "b", "b"))
    tables = CopyProblem(wanted)
    alpha = [1.0 + ((arc.src ^ arc.dst) > 1) for arc in wanted.arcs]  # two and two are near each other
    rates = Rates(alpha, tables.resources_of, [float(r.capacity) for r in tables.resources], 1)
    made: list[Strategy] = (
        [strategy(row.name)] if row.objective == "steps" else [s for _, s in timed_strategies(row, rates)]
    )
    for one in made:
        try:
            outcome = Solver(one, Budget(effort=1.0), schedule_violations).solve(wanted)
        except HetesynthError as error:
            assert error.code == "HS306"
            assert name not in row.accepts
        else:
            assert isinstance(outcome, Solution) == (name in row.accepts)


def test_the_page_has_a_line_for_every_row() -> None:
    text = (ROOT / "docs" / "strategies.md").read_text()
    lines = [[c.strip() for c in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| `")]
    assert [line[0] for line in lines] == [f"`{row.name}`" for row in ROWS]
    for row, (_, counts, source, files, _what) in zip(ROWS, lines, strict=True):
        assert counts == {"steps": "steps", "time": "seconds, with `--size`"}[row.objective]
        assert source == row.source
        module = row.code.partition(":")[0].removeprefix("hetesynth.search.")
        named = re.findall("`([^`]+)`", files)
        assert row.library or f"{module.replace('.', '/')}.py" in named
        assert named and all((ROOT / "hetesynth" / "search" / file).exists() for file in named)
