"""Each report of one hand-written build, as a file; every status is in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from support.build_report_sample import PLACES, sample

from hetesynth.cli.build import build_text
from hetesynth.deploy.reports.pages import index_page
from hetesynth.deploy.reports.words import all_annotations, code_quality, sarif_annotations, workflow_commands
from hetesynth.deploy.reports.write import document, junit_xml, markdown_summary

FOLDER = Path(__file__).parent / "golden_reports"
LINKS = {"alpha/rccl-6/allgather/1MB..64MB": "cells/alpha allgather.html"}
NOTES = {"beta/rccl-6/allreduce/1MB..64MB": "HS561: for another <topology>"}


def _index() -> bytes:
    """The page without its styles and script, which are files of their own."""
    page = index_page(sample(), PLACES, LINKS, NOTES).decode()
    head, _, rest = page.partition("<style>")
    return (head.partition('<meta http-equiv="Content')[0] + rest.partition("</style>")[2]).encode()


REPORTS: dict[str, Callable[[], bytes]] = {
    "report.json": lambda: json.dumps(document(sample(), PLACES), indent=1).encode(),
    "junit.xml": lambda: junit_xml(sample(), PLACES),
    "github.txt": lambda: "\n".join(workflow_commands(all_annotations(sample(), PLACES))).encode(),
    "gitlab.json": lambda: code_quality(all_annotations(sample(), PLACES)),
    "annotations.sarif": lambda: sarif_annotations(all_annotations(sample(), PLACES)),
    "summary.md": lambda: markdown_summary(sample(), PLACES).encode(),
    "index.html": _index,
    "terminal.txt": lambda: build_text(sample()).encode(),
}


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_is_what_it_was(name: str, golden: Callable[[Path, bytes], None]) -> None:
    golden(FOLDER / name, REPORTS[name]())
