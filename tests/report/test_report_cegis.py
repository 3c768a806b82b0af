"""The page's section on CEGIS: its table is the trace, names stay text."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from html import unescape
from pathlib import Path

from hetesynth.engine.artifacts import Synthesis
from hetesynth.engine.page.report import report_of_synthesis
from hetesynth.engine.page.report_cegis import MAX_ROWS, cegis_run
from hetesynth.engine.request import FirstCandidate, Request
from hetesynth.engine.synth import synthesize
from hetesynth.model.collective import CollectiveName
from hetesynth.report.contents import CegisRun
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


def test_long_traces_are_shortened() -> None:
    synthesis = made("h20_4p8", "allgather")
    many = cegis_run(replace(synthesis, cegis=synthesis.cegis * 100))
    assert many is not None and len(many.rows) == MAX_ROWS
    assert any(f"first and the last {MAX_ROWS // 2}" in sentence for sentence in many.said)
    assert (many.rows[0][0], many.rows[-1][0]) == ("1", str(100 * len(synthesis.cegis)))


def test_the_page_has_a_section_where_cegis_ran() -> None:
    page = html_page(report_of_synthesis(made("h20_4p8", "allgather", None, "greedy"))).decode()
    assert "#cegis" not in page and 'id="cegis"' not in page and "<!--cegis" not in page
    page = html_page(report_of_synthesis(made("h20_4p8", "allgather"))).decode()
    assert page.count('id="cegis"') == 1 and '<a href="#cegis">' in page


def test_hostile_words_stay_text() -> None:
    hostile = "</td><script>document.title='owned'</script><!--notes-->"
    synthesis = made("h20_4p8", "allgather")
    entry = replace(synthesis.cegis[0], counterexamples=(hostile,), phase=hostile)
    page = html_page(report_of_synthesis(replace(synthesis, cegis=(entry, *synthesis.cegis)))).decode()
    assert hostile not in page and page.count("<script") == page.count("</script>")
    section = page[page.index('<section id="cegis"') : page.index('<section id="proof"')]
    assert "<script" not in section and hostile in unescape(section)
