"""The index in a real headless Chromium: its script runs under its own policy, names are text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from support.build_report_sample import PLACES, cell, record, sample, with_status
from support.chromium import Browser, Page, chromium

from hetesynth.deploy.reports.pages import index_page

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(chromium() is None, reason="there is no Chromium: apt-get install chromium"),
]
HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    odd = with_status("failed", cell(HOSTILE, "allgather"), HOSTILE, record=record(1.0), previous=record(2.0))
    report = replace(sample(), cells=(*sample().cells, odd))
    path = tmp_path_factory.mktemp("index") / "index.html"
    path.write_bytes(index_page(report, PLACES, {c.cell.name: "cells/x.html" for c in report.cells}, {}))
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield browser.page(path.as_uri())


def visible_rows(page: Page) -> int:
    return int(page.value("Array.from(document.querySelectorAll('tr[data-key]')).filter((r) => !r.hidden).length"))


def filtered(page: Page, text: str) -> int:
    page.value(
        f"(() => {{ const i = document.getElementById('filter'); i.value = '{text}';"
        " i.dispatchEvent(new Event('input')); })()"
    )
    return visible_rows(page)


def test_the_filter_works_under_the_policy(page: Page) -> None:
    assert filtered(page, "") == 11
    assert filtered(page, "beta mscclpp") == 2
    assert filtered(page, "STALE") == 1
    assert page.value("document.getElementById('shown').textContent") == "1 of 11 cells"
    assert filtered(page, "nothing of that kind") == 0
    assert filtered(page, "") == 11
