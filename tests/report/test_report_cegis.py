"""The page's section on CEGIS: its table is the trace, its snapshots say what the judge says, names stay text."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from html import unescape
from pathlib import Path

import pytest

from hetesynth.engine.artifacts import Synthesis
from hetesynth.engine.page.report import report_of_synthesis
from hetesynth.engine.page.report_cegis import MAX_ROWS, MAX_SNAPSHOTS, cegis_run
from hetesynth.engine.request import FirstCandidate, Request
from hetesynth.engine.synth import synthesize
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.cegis_trace import CegisEntry
from hetesynth.model.collective import CollectiveName
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.report.contents import CegisRun, Cell, Snapshot
from hetesynth.report.html.page import html_page

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


@cache
def made(
    example: str, name: CollectiveName, first: FirstCandidate | None = "flood", strategy: str = "cegis"
) -> Synthesis:  # fmt: skip
    path = EXAMPLES / example / "topo.dsl"
    return synthesize(Request(path, name, strategy=strategy, schedule_only=True, first_candidate=first))


def shown(example: str, name: CollectiveName, first: FirstCandidate = "flood") -> CegisRun:
    run = cegis_run(made(example, name, first))
    assert run is not None
    return run


def cells(snapshot: Snapshot) -> list[tuple[str, int, Cell]]:
    return [(row.name, step, cell) for row in snapshot.resources for step, cell in enumerate(row.cells)]


def test_the_table_has_a_row_for_each_iteration() -> None:
    synthesis, run = made("h20_4x2p8", "allgather"), shown("h20_4x2p8", "allgather")
    assert len(run.rows) == len(synthesis.cegis) and all(len(row) == len(run.heads) for row in run.rows)
    for row, entry in zip(run.rows, synthesis.cegis, strict=True):
        assert row[3] == ("" if entry.checkpoint is None else str(entry.checkpoint + 1))
        assert (f"{entry.sends:,}" in row) == (entry.answer is not None)
        for words in entry.counterexamples:
            assert re.sub(r"step \d+: ", "", words) in row[4]
    assert "step 1: a0.nic0->ib carries 12 chunks, its capacity is 1" in run.rows[0][4], "steps count from 1"
    assert "and 21 more" in run.rows[0][4]


@pytest.mark.parametrize("first", ["flood", "nothing"])
def test_overloads_are_marked_exactly_where_the_judge_sees_them(first: FirstCandidate) -> None:
    synthesis, run = made("h20_4p8", "allgather", first), shown("h20_4p8", "allgather", first)
    (phase,) = run.phases
    overloaded = 0
    for snapshot in phase.shown:
        number = int(snapshot.title.split()[1].rstrip(":"))
        sent = synthesis.cegis[number - 1].snapshot
        assert sent is not None
        schedule = Schedule.of(Transfer(t, t + 1, k, a) for k, a, t in sent)
        said = {
            (v.resource, v.step)
            for v in schedule_violations(synthesis.problem, schedule)
            if v.kind == "overloaded"
        }
        names = {row.name for row in snapshot.resources}
        marked = {(resource, step) for resource, step, cell in cells(snapshot) if cell.mark == "over"}
        assert marked == {(resource, step) for resource, step in said if resource in names}
        assert bool(marked) == bool(said)
        overloaded += len(marked)
    assert overloaded > 0


def test_the_last_snapshot_is_the_schedule_and_breaks_nothing() -> None:
    synthesis, run = made("h20_4p8", "allgather"), shown("h20_4p8", "allgather")
    last = run.phases[0].shown[-1]
    arrivals = sum(len(cell.all.split()) for row in last.ranks for cell in row.cells)
    assert arrivals == len(synthesis.solution.schedule.transfers) == 12 * 11
    assert not any(cell.mark == "over" for row in (*last.resources, *last.ranks) for cell in row.cells)
    assert all(cell.all == "" or len(cell.text) <= len(cell.all) for row in last.ranks for cell in row.cells)


def test_a_chunk_that_arrives_twice_is_marked() -> None:
    synthesis = made("h20_4p8", "allgather")
    link = next(i for i, arc in enumerate(synthesis.problem.arcs) if (arc.src, arc.dst) == (0, 1))
    back = next(i for i, arc in enumerate(synthesis.problem.arcs) if (arc.src, arc.dst) == (5, 6))
    sent = ((0, link, 0), (0, link, 1), (3, back, 1))  # rank 5 does not hold chunk 3
    run = cegis_run(replace(synthesis, cegis=(CegisEntry(3, "seed", 1, snapshot=sent),)))
    assert run is not None
    marks = [[cell.mark for cell in row.cells] for row in run.phases[0].shown[0].ranks]
    assert marks[1] == ["some", "over", ""] and marks[6] == ["", "over", ""] and marks[0] == ["", "", ""]


def test_both_phases_of_an_allreduce_are_drawn_and_the_reversed_one_is_called_so() -> None:
    run = shown("h20_4p8", "allreduce")
    assert [phase.phase for phase in run.phases] == ["Reduce-scatter", "Allgather"]
    assert "backwards" in run.phases[0].said and not run.phases[1].said
    single = shown("h20_4p8", "reducescatter")
    assert [phase.phase for phase in single.phases] == [""] and "backwards" in single.phases[0].said


def test_long_traces_are_shortened_and_large_ones_have_no_snapshots() -> None:
    synthesis = made("h20_4p8", "allgather")
    many = cegis_run(replace(synthesis, cegis=synthesis.cegis * 100))
    assert many is not None and len(many.rows) == MAX_ROWS and len(many.phases[0].shown) == MAX_SNAPSHOTS
    assert any(f"first and the last {MAX_ROWS // 2}" in sentence for sentence in many.said)
    assert (many.rows[0][0], many.rows[-1][0]) == ("1", str(100 * len(synthesis.cegis)))
    none = cegis_run(replace(synthesis, cegis=tuple(replace(e, snapshot=None) for e in synthesis.cegis)))
    assert none is not None and none.phases == () and none.rows


def test_the_page_has_a_section_where_cegis_ran_with_its_checkpoint_marked() -> None:
    page = html_page(report_of_synthesis(made("h20_4p8", "allgather", None, "greedy"))).decode()
    assert "#cegis" not in page and 'id="cegis"' not in page and "<!--cegis" not in page
    page = html_page(report_of_synthesis(made("h20_4p8", "allgather"))).decode()
    assert page.count('id="cegis"') == 1 and '<a href="#cegis">' in page
    first = shown("h20_4p8", "allgather").phases[0].shown[0]
    assert first.title.startswith("Iteration 1:") and first.checkpoint == 1
    assert '<th scope="col" class="here">1 checkpoint</th>' in page and '<td class="over">8 of 1</td>' in page


def test_hostile_words_stay_text() -> None:
    hostile = "</td><script>document.title='owned'</script><!--notes-->"
    synthesis = made("h20_4p8", "allgather")
    entry = replace(synthesis.cegis[0], counterexamples=(hostile,), phase=hostile)
    page = html_page(report_of_synthesis(replace(synthesis, cegis=(entry, *synthesis.cegis)))).decode()
    assert hostile not in page and page.count("<script") == page.count("</script>")
    section = page[page.index('<section id="cegis"') : page.index('<section id="proof"')]
    assert "<script" not in section and hostile in unescape(section)
