"""The page of the HeteCCL paper: models of others, scores, parts that come out the same."""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from benchmarks.__main__ import run as run_command
from benchmarks.heteccl import clusters, measuring
from benchmarks.heteccl.cases import CompositionCase, ProgramCase, SynthesisCase, all_cases, chosen
from benchmarks.heteccl.page import page, scorecard
from benchmarks.heteccl.published import CLAIMS, SECONDS, TRAINING
from benchmarks.heteccl.rivals import SKETCHES, Rivals, sketched
from benchmarks.heteccl.run import Entries, Entry, Journal, measured
from benchmarks.heteccl.scores import cases_of, claim_scores, scores, second_scores
from benchmarks.heteccl.sublinks import BatchedPath
from benchmarks.heteccl.time_tables import appendix_k
from benchmarks.heteccl.training import MODELS
from benchmarks.measure import Process
from hetesynth.engine.request import Request
from hetesynth.errors import HetesynthError
from hetesynth.model.problem import Budget
from hetesynth.model.topology import Topology
from hetesynth.topology.language import load_topology

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
PAGE = ROOT / "docs" / "hetecclpaper.md"
NANOSECOND = 1e-9


def topology(name: str, folder: Path) -> Topology:
    path = folder / "topo.dsl"
    path.write_text(clusters.source(name, EXAMPLES))
    return load_topology(path)


@pytest.mark.parametrize(("hops", "sublinks"), [(1, 1), (2, 3), (4, 4), (3, 9)])
def test_appendix_k_is_what_the_simulator_says(hops: int, sublinks: int) -> None:
    """Equations 9 and 10 with the first batch's last hop, for whole groups of batches; then equation 11."""
    ratios = []
    for groups in (1, 4, 32):
        path = BatchedPath(hops, sublinks, groups * sublinks)
        assert path.simulated(1) == pytest.approx(path.sequential + path.left_out, abs=NANOSECOND)
        assert path.simulated() == pytest.approx(path.heteccl + path.left_out, abs=NANOSECOND)
        ratios.append(path.simulated() / path.simulated(1))
    if sublinks > 1 and hops > 1:
        assert all(later < earlier for earlier, later in pairwise(ratios))
    many = BatchedPath(hops, sublinks, 10**6)
    assert many.heteccl / many.sequential == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize(
    ("name", "servers"),
    [
        ("v100_fail_both", (3, 7)), ("v100_fail_each4", (3, 3, 8)), ("a100_4p8", (4, 8)), ("a100_8x4", (8,) * 4),
        ("v100_4p8_nic18G", (4, 8)), ("h20_8x2", (8, 8)),
    ],
)  # fmt: skip
def test_clusters_of_the_figures(tmp_path: Path, name: str, servers: tuple[int, ...]) -> None:
    cluster = topology(name, tmp_path)
    each = [cluster.servers.count(server) for server in dict.fromkeys(cluster.servers)]
    assert (cluster.name, tuple(each)) == (name, servers)


def test_every_case_has_a_cluster_and_a_name_of_its_own() -> None:
    cases = all_cases()
    assert len({case.name for case in cases}) == len(cases)
    assert all(clusters.source(case.cluster, EXAMPLES) for case in cases)
    with pytest.raises(HetesynthError):
        clusters.source("v100_none", EXAMPLES)


def test_sketches_leave_the_links_that_they_state(tmp_path: Path) -> None:
    cluster = topology("h20_4p8", tmp_path)  # the server of 8 has two GPUs for each NIC, ranks 4 to 11
    paired, numbered = (sketched(cluster, sketch) for sketch in SKETCHES)
    between = {(link.src, link.dst) for link in paired.links if (link.src < 4) != (link.dst < 4)}
    assert {src for src, dst in between if dst < 4} == {4, 6, 8, 10}
    assert {dst for src, dst in between if src < 4} == {5, 7, 9, 11}
    across = {(link.src, link.dst) for link in numbered.links if (link.src < 4) != (link.dst < 4)}
    assert across == {pair for i in range(4) for j in (i, i + 4) for pair in ((i, j + 4), (j + 4, i))}
    inside = sum(cluster.servers[link.src] == cluster.servers[link.dst] for link in cluster.links)
    assert len(paired.links) == inside + len(between) and len(numbered.links) == inside + len(across)


def test_models_of_others_have_programs_that_take_their_time(tmp_path: Path) -> None:
    cluster = topology("h20_4x3", tmp_path)
    rivals = Rivals(cluster, Request(tmp_path / "topo.dsl", "allgather", budget=Budget(60.0, effort=1.0)))
    size = 12 * 10**6
    least = (size * 2 / 3) / 200e9  # eight of twelve chunks enter a server over four NICs of 50 GB/s
    seconds, sketch = rivals.taccl(size)
    (aligned,), (rounds,) = rivals.teccl("HS", (size,)), rivals.teccl("SE", (size,))
    assert sketch in SKETCHES and seconds is not None and aligned is not None and rounds is not None
    assert all(least < each < 20 * least for each in (seconds, aligned, rounds))


def said(case: ProgramCase, ratio: float) -> Entry:
    """Every rival takes ``ratio`` times as long as ours, which is at half of the limit."""
    rows = [
        {"size": size, "ours": 2.0, "limit": 1.0, "candidate": "c", "sketch": ""}
        | dict.fromkeys(("NCCL", "TACCL", "HS", "SE"), 2.0 * ratio)
        for size in case.sizes
    ]
    return Entry(case.name, "", 1.0, 1.0, 1.0, {"gpus": 12, "rows": rows})


def test_claims_are_judged_number_by_number() -> None:
    claim = next(c for c in CLAIMS if c.figure == "6" and c.rival == "NCCL")
    assert [case.cluster for case in cases_of(claim)] == list(clusters.H20)
    for ratio, met in ((2.5, [True, True]), (1.5, [True, False]), (1.4, [False, False])):
        entries = {case.name: said(case, ratio) for case in cases_of(claim)}
        assert [score.met for score in claim_scores(claim, entries)] == met
    assert [score.ours for score in claim_scores(claim, {})] == [None, None]
    entries = {case.name: said(case, 1.2) for case in cases_of(claim)}  # the limit has 2.4
    allowed, beyond = claim_scores(claim, entries)
    assert allowed.ceiling == beyond.ceiling == pytest.approx(2.4) and "ideal" in beyond.why
    assert (allowed.verdict, beyond.verdict) == ("no", "no: beyond the limit")


def test_every_number_of_the_paper_is_counted_and_every_claim_has_cases() -> None:
    every = scores({})
    numbers = sum(len(claim.numbers) for claim in CLAIMS)
    assert len(every) == len(SECONDS) + numbers + 2 * len(TRAINING) and not any(score.met for score in every)
    assert all(cases_of(claim) for claim in CLAIMS)


def test_seconds_count_only_with_steps_at_the_bound() -> None:
    case = SynthesisCase("Table 1", "h20_16", "allgather", 1, "cegis")
    for figures, met in (
        ({"seconds": 0.8, "steps": 4, "bound": 4}, True),
        ({"seconds": 0.8, "steps": 5, "bound": 4}, False),
        ({"seconds": 1.0, "steps": 4, "bound": 4}, False),
    ):
        entries = {case.name: Entry(case.name, "", 1.0, 1.0, 1.0, figures)}
        assert next(second_scores(entries)).met is met


def test_an_iteration_is_compute_and_allreduces() -> None:
    model = replace(MODELS[0], layers=10, gpus=16)
    assert model.iteration(1.0) - model.compute == pytest.approx(40.0)
    assert replace(model, gpus=32).compute == pytest.approx(model.compute / 2)
    flops = 6 * 1.2e9 * 4 * 2048  # six for each parameter and token; 24 layers of 2048 have 12 L h^2 parameters
    exact = MODELS[0].compute * MODELS[0].gpus * 148e12 * 0.45
    assert flops < exact < 1.25 * flops


def test_a_run_goes_on_from_its_journal(tmp_path: Path) -> None:
    cases = [case for case in all_cases() if isinstance(case, CompositionCase)]
    asked: list[Sequence[str]] = []

    def process(command: Sequence[str], environment: dict[str, str], patience: float) -> Process:
        asked.append(command)
        return Process(0, 2.0, 1.0, 50.0, json.dumps({"ranks": 4}), "", hung=False)

    file = tmp_path / "journal.json"
    first = list(measured(cases, EXAMPLES, Journal(file), lambda *_: None, process))
    again = list(measured(cases, EXAMPLES, Journal(file), lambda *_: None, process))
    assert first == again and len(asked) == len(cases) and first[0].said == {"ranks": 4}


@pytest.mark.parametrize("text", ["", "[]", '{"entries": [{"cluster": 1}]}', '{"entries": 3}', "{}"])
def test_what_is_no_journal_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "journal.json"
    file.write_text(text)
    with pytest.raises(HetesynthError, match="no journal") as refused:
        Journal(file)
    assert refused.value.code == "HS904" and file.read_text() == text


def test_what_fails_is_told() -> None:
    case = chosen(("section 7",))[0]

    def process(*_: object) -> Process:
        return Process(1, 2.0, 1.0, 50.0, "", "first\nHS601: there is no schedule", hung=False)

    (entry,) = measured([case], EXAMPLES, Journal(None), lambda *_: None, process)
    assert entry.error == "HS601: there is no schedule"
    text = page({entry.name: entry})
    assert "**Failed**: section 7" in text and "cases are not measured" in text


def rows(name: str) -> list[list[str]]:
    """A table of the page, its head too."""
    with (PAGE.parent / "data" / "hetecclpaper" / f"{name}.csv").open(newline="") as stream:
        return list(csv.reader(stream))


def test_the_page_is_that_of_this_code() -> None:
    """Appendix K is worked out anew; the number of cases, claims and figures is that of the code."""
    text = PAGE.read_text()
    assert rows("appendix_k")[1:] == [[*row] for row in appendix_k()]
    assert f"of the {len(scores({}))} numbers that the paper states" in text and "Incomplete" not in text
    assert "not measured" not in text
    files = (PAGE.parent / "data" / "hetecclpaper").glob("*.csv")
    measured = "\n".join(file.read_text() for file in files)
    for case in all_cases():
        assert case.table in ("Table 1", "9", "section 7") or case.cluster in measured, case.name


def test_the_readme_says_what_the_page_says() -> None:
    page_text, readme = (" ".join(path.read_text().split()) for path in (PAGE, ROOT / "README.md"))
    for pattern in (r"(\d+ of the \d+) numbers", r"(\d+)(?: numbers)?\s+are beyond"):
        shown, claimed = re.search(pattern, page_text), re.search(pattern, readme)
        assert shown is not None and claimed is not None and shown[1] == claimed[1]


def test_a_row_of_the_page_comes_out_again(tmp_path: Path) -> None:
    case = SynthesisCase("flood", "h20_4x3", "allgather", 1, "cegis", "flood")
    path = tmp_path / "topo.dsl"
    path.write_text(clusters.source(case.cluster, EXAMPLES))
    figures = measuring.synthesis(case, path)
    (row,) = [row for row in rows("flood") if row[0] == "h20_4x3"]
    shown = [
        f"{figures['steps']} / {figures['bound']}",
        str(figures["iterations"]),
        str(figures["counterexamples"]),
    ]
    assert [row[3], *row[5:]] == [*shown, str(figures["calls"])]
    assert figures["calls"] > 0  # Z3 has a part in it


def test_the_command_prints_a_selection(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["heteccl", "--only", "flood: h20_4p8", "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)
    figures: dict[str, Any] = entry["said"]
    assert figures["steps"] == figures["bound"] == 3 and figures["counterexamples"] > 0
    assert run_command(["heteccl", "--only", "no such case"]) == 2


def test_the_scorecard_says_why() -> None:
    claim = next(c for c in CLAIMS if c.figure == "17" and c.rival == "NCCL")
    entries: Entries = {case.name: said(case, 1.1) for case in cases_of(claim)}
    text = "\n".join(scorecard(list(claim_scores(claim, entries))))
    assert "0 of the 1 numbers" in text and "| 1.95 x | 1.10 x | 2.20 x | no |" in text and "ideal" in text
