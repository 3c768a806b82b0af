"""The table of programs on clusters: cells are kept, bad ones do not end a run, the page counts right."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from hetesynth.bench.cluster_cell_process import measured
from hetesynth.bench.cluster_cells import ClusterCell, Conditions, Journal
from hetesynth.bench.cluster_page import cluster_page, percentile
from hetesynth.bench.cluster_tables import (
    COLLECTIVES,
    GENERATED,
    SIZES,
    ClusterCase,
    cases,
    measured_cells,
)
from hetesynth.bench.generated_clusters import generated_clusters
from hetesynth.bench.measure import Process
from hetesynth.cli import main
from hetesynth.errors import HetesynthError

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
OURS = {"wall": 2.5, "gpus": 3, "program": 2e-3, "limit": 1e-3, "candidate": "trees, c=2"}
RING = {"wall": 1.0, "gpus": 3, "program": 3e-3, "limit": 1e-3, "candidate": "ring, c=1"}
ENDED = Process(0, 3.0, None, None, f"{json.dumps(OURS)}\n{json.dumps(RING)}\n", "", False)
TWO = tuple(ClusterCase("gen", f"text {n}", "allgather", 1000) for n in range(2))


class Pretend:
    """Runs nothing, and tells of each command as it is told; an interrupt is raised."""

    def __init__(self, *ends: Process | type[KeyboardInterrupt]) -> None:
        self.ends = [*ends]
        self.commands: list[Sequence[str]] = []

    def __call__(self, command: Sequence[str], environment: dict[str, str], timeout: float) -> Process:
        self.commands.append(command)
        end = self.ends.pop(0)
        if isinstance(end, Process):
            return end
        raise end


def cells_of(journal: Journal, process: Pretend, budget: float = 1.0) -> list[ClusterCell]:
    return [*measured_cells(TWO, journal, Conditions(budget), lambda *told: None, process)]


def test_a_cell_says_what_the_process_told(tmp_path: Path) -> None:
    process = Pretend(ENDED, ENDED)
    cell = cells_of(Journal(None), process)[0]
    assert (cell.gpus, cell.program, cell.limit, cell.ring, cell.wall) == (3, 2e-3, 1e-3, 3e-3, 2.5)
    assert cell.percent == pytest.approx(50) and cell.factor == pytest.approx(1.5)
    assert (
        process.commands[0][-5:] == ["allgather", "1000", "1", "0", "0"] and not cell.error and not cell.ring_error
    )


def test_a_run_that_was_stopped_goes_on(tmp_path: Path) -> None:
    file = tmp_path / "cells.json"
    with pytest.raises(KeyboardInterrupt):
        cells_of(Journal(file), Pretend(ENDED, KeyboardInterrupt))
    rest = Pretend(ENDED)
    assert len(cells_of(Journal(file), rest)) == 2 and len(rest.commands) == 1
    nothing = Pretend()
    assert cells_of(Journal(file), nothing) == cells_of(Journal(file), nothing)
    assert json.loads(file.read_text())["cells"][0]["percent_of_limit"] == pytest.approx(50)


def test_cells_of_another_text_or_budget_are_not_reused(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "cells.json")
    cells_of(journal, Pretend(ENDED, ENDED))
    other = Pretend(ENDED, ENDED)
    cells_of(journal, other, budget=2.0)
    assert len(other.commands) == 2
    changed = Pretend(ENDED)
    [*measured_cells([replace(TWO[0], text="other")], journal, Conditions(1.0), lambda *told: None, changed)]
    assert len(changed.commands) == 1


@pytest.mark.parametrize(
    ("ended", "error", "ring_error"),
    [
        (replace(ENDED, output=json.dumps(OURS), hung=True, code=-9), "", "killed after 3 s"),
        (replace(ENDED, output="", hung=True, code=-9), "killed after 3 s", "killed after 3 s"),
        (replace(ENDED, output="", code=1, errors="Traceback\nOops: no"), "Oops: no", "Oops: no"),
        (replace(ENDED, output="nonsense", code=0), "exit code 0", "exit code 0"),
    ],
)
def test_one_bad_cell_does_not_end_the_run(ended: Process, error: str, ring_error: str) -> None:
    bad, good = cells_of(Journal(None), Pretend(ended, ENDED))
    assert (bad.error, bad.ring_error) == (error, ring_error)
    assert (bad.program is None) == bool(error) and good.program is not None


@pytest.mark.parametrize("text", ["", "[]", '{"cells": [{"cluster": 1}]}', '{"cells": 3}'])
def test_what_is_no_journal_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "cells.json"
    file.write_text(text)
    with pytest.raises(HetesynthError, match="no journal") as refused:
        Journal(file)
    assert refused.value.code == "HS904" and file.read_text() == text


def test_all_examples_and_the_first_generated_clusters_are_in_the_table() -> None:
    every = cases(EXAMPLES)
    names = {folder.parent.name for folder in EXAMPLES.glob("*/topo.dsl")}
    names |= {cluster.name for cluster in generated_clusters(range(32))}
    assert GENERATED == 32 and {case.cluster for case in every} == names
    assert len(every) == len({case.name for case in every}) == len(names) * len(COLLECTIVES) * len(SIZES)
    selected = cases(EXAMPLES, ["gen031", "dgx1 broadcast"], [10**9])
    assert len(selected) == len(COLLECTIVES) + 1 and not cases(EXAMPLES, ["nowhere"])


def cell(cluster: str, program: float | None, ring: float | None = None, size: int = 10**9) -> ClusterCell:
    return ClusterCell(
        cluster, "", "allgather", size, 5.0, 4, program, 1.0, ring, 9.0, error="" if program else "why"
    )


def test_the_page_counts() -> None:
    shares = (100, 96, 92, 92.9999, 93, 84, 85, 50, 99, 98)
    cells = [cell(f"c{share:g}", 100 / share, 100 / share) for share in shares]
    cells += [replace(cells[0], cluster="slow", ring=0.9), replace(cells[0], cluster="none", ring=None)]
    cells.append(cell("bad", None))
    page = cluster_page(cells, len(cells) + 1)
    line = next(line for line in page.splitlines() if line.startswith("| 1 GB | allgather |"))
    columns = [column.strip() for column in line.split("|")[1:-1]]
    assert columns[2:5] == ["13", f"{(93 + 96) / 2:.1f}", "84.0"]
    assert columns[5] == "50.0 (c50), 84.0 (c84), 85.0 (c85)"
    assert columns[6:] == ["5", "2", "1 of 11", "1"]
    assert "**Incomplete**: 13 of 14 cells." in page and "- bad, allgather, 1 GB: why" in page
    assert "| slow | 4 | 1,000,000 us, 100.0 %, 0.90 x | 9 |" in page and "100.0 %, no library" in page
    assert "Incomplete" not in cluster_page(cells, len(cells)) and "| processor |" in page


def test_percentiles_are_of_the_nearest_rank() -> None:
    values = [float(v) for v in range(20, 0, -1)]
    assert [percentile(values, share) for share in (0.0, 0.05, 0.1, 0.5, 1.0)] == [1, 1, 2, 10, 20]


def test_the_command_measures_a_cell_and_takes_it_from_the_journal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = tmp_path / "cells.json"
    words = ["bench", "--clusters", "--only", "gen031_3_ring_degraded allgather", "--size", "16MB"]
    words += ["--time-budget", "3", "--journal", str(journal), "--examples", str(EXAMPLES)]
    assert main.run(words) == 0
    page = capsys.readouterr().out
    (entry,) = json.loads(journal.read_text())["cells"]
    assert entry["gpus"] == 3 and 0 < entry["limit"] <= entry["program"] and entry["ring"] and entry["wall"] > 0
    assert f"{entry['program'] * 1e6:,.0f} us" in page
    entry["program"] = entry["limit"] * 4
    journal.write_text(json.dumps({"cells": [entry]}))
    assert main.run([*words, "--json"]) == 0
    (again,) = json.loads(capsys.readouterr().out)
    assert again["percent_of_limit"] == pytest.approx(25)


def test_ctrl_c_keeps_the_cells_so_far(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*arguments: object) -> Iterator[ClusterCell]:
        yield cell("first", 2.0)
        raise KeyboardInterrupt

    monkeypatch.setattr("hetesynth.bench.cluster_tables.measured_cells", interrupted)
    words = [
        "bench",
        "--clusters",
        "--only",
        "gen031",
        "--examples",
        str(EXAMPLES),
        "-o",
        str(tmp_path / "page.md"),
    ]
    assert main.run(words) == 3
    page = (tmp_path / "page.md").read_text()
    assert "**Incomplete**: 1 of 10 cells." in page and "| first | 4 |" in page
    assert capsys.readouterr().out.startswith("wrote ")


@pytest.mark.parametrize("words", [["--clusters", "--time"], ["--size", "1GB"], ["--journal", "x.json"]])
def test_options_that_do_not_go_together_are_refused(words: list[str]) -> None:
    assert main.run(["bench", *words]) == 2


def test_other_conditions_are_other_cells(tmp_path: Path) -> None:
    journal, ends = Journal(tmp_path / "cells.json"), Pretend(*[ENDED] * 6)
    kinds = Conditions(1.0), Conditions(1.0, runtime_costs=True), Conditions(1.0, thread_blocks=1024)
    for kind in kinds * 2:
        cells = [*measured_cells(TWO, journal, kind, lambda *told: None, ends)]
        assert {cell.conditions for cell in cells} == {kind}
    assert [command[-2:] for command in ends.commands[::2]] == [["0", "0"], ["1", "0"], ["0", "1024"]]
    assert "costs is counted" in cluster_page([replace(cell("a", 2.0), runtime_costs=True)], 1)
    assert "With 1024 thread blocks a GPU" in cluster_page([replace(cell("a", 2.0), thread_blocks=1024)], 1)


def test_thread_blocks_and_costs_reach_the_command(tmp_path: Path) -> None:
    path = tmp_path / "topo.dsl"
    path.write_text(next(iter(generated_clusters(range(31, 32)))).text)
    plain, costed, narrow, wide = (
        measured(path, "allgather", 10**9, kind)
        for kind in (
            Conditions(60),
            Conditions(60, runtime_costs=True),
            Conditions(60, thread_blocks=5),
            Conditions(60, thread_blocks=1024),
        )
    )
    assert costed["program"] > plain["program"] + 6e-6
    assert narrow["program"] > 1.01 * wide["program"] and wide["program"] <= plain["program"]
