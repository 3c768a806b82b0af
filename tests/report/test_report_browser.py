"""The page in a real headless Chromium: drawn without complaint, worked by keyboard, legible, still, safe."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.chromium import Browser, Page, chromium
from support.reports import luminance, report

from hetesynth.report.contents import Report
from hetesynth.report.html.page import html_page

pytestmark = pytest.mark.skipif(chromium() is None, reason="there is no Chromium: apt-get install chromium")

HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
READY = "document.documentElement.dataset.ready === 'true'"
CONTROLS = [
    "theme", "chunk", "first", "back", "play", "on", "last", "step", "speed", "paint", "smaller", "larger",
    "stage", "rows", "order", "colour", "find", "compact", "zoom-out", "zoom-in", "zoom-fit", "gantt", "use-of",
    "use-all", "chart-time", "chart-band",
]  # fmt: skip


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with Browser(tmp_path_factory.mktemp("profile")) as running:
        yield running


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    return written(report("h20_4p8"), tmp_path_factory.mktemp("page"))


def written(shown: Report, folder: Path) -> str:
    path = folder / "report.html"
    path.write_bytes(html_page(shown))
    return path.as_uri()


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """A page of its own."""
    found = opened(browser, address)
    yield found
    found.close()


@pytest.fixture(scope="module")
def shared(browser: Browser, address: str) -> Page:
    return opened(browser, address)


@pytest.fixture
def used(shared: Page) -> Page:
    """One page for all that only work its controls, which are as at first."""
    for element, value in (("chunk", "-1"), ("rows", "0"), ("paint", "step"), ("speed", "1200"), ("use-of", "0")):
        choose(shared, element, value)
    shared.value(
        "(() => { const f = document.getElementById('find'), c = document.getElementById('compact'); "
        "f.value = ''; f.dispatchEvent(new Event('input')); if (c.checked) c.click(); "
        "document.getElementById('first').click(); "
        "document.querySelectorAll('details').forEach((d) => { d.open = false; }); })()"
    )
    return shared


def opened(browser: Browser, address: str, **look: Any) -> Page:
    found = browser.page(address, **look)
    found.wait(READY)
    return found


def text(page: Page, element: str) -> str:
    found: str = page.value(f"document.getElementById('{element}').textContent")
    return found


def focus(page: Page, element: str) -> None:
    page.value(f"document.getElementById('{element}').focus()")


def choose(page: Page, element: str, value: str) -> None:
    page.value(
        f"(() => {{ const e = document.getElementById('{element}'); e.value = '{value}'; "
        "e.dispatchEvent(new Event('change')); })()"
    )


def test_the_page_is_drawn_without_complaints_and_asks_for_nothing(page: Page, address: str) -> None:
    assert page.complaints() == []
    assert page.requests() == [address]
    topology = report("h20_4p8").topology
    assert page.value("document.querySelectorAll('#canvasbox path.wire').length") == len(topology.wires)
    assert page.value("document.querySelectorAll('#canvasbox rect.gpu').length") == topology.ranks
    assert page.value("document.querySelectorAll('figure svg path.curve').length") == 2 * len(
        report("h20_4p8").curves
    )
    assert text(page, "failure") == ""


def test_hostile_names_are_text(browser: Browser, tmp_path: Path) -> None:
    plain = report("h20_4p8")
    vertices = tuple(replace(v, name=v.name + HOSTILE, model=HOSTILE) for v in plain.topology.vertices)
    topology = replace(plain.topology, name=HOSTILE, vertices=vertices)
    curves = tuple(replace(c, name=c.name + HOSTILE) for c in plain.curves)
    attacked = replace(plain, title=HOSTILE, topology=topology, curves=curves, notes=(HOSTILE,))
    page = opened(browser, written(attacked, tmp_path))
    page.value("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    page.value("new Promise((done) => setTimeout(done, 50))")
    assert page.value("document.title") == HOSTILE
    assert page.value("document.querySelectorAll('img').length") == 0
    assert HOSTILE in text(page, "hardware")
    assert page.complaints() == []
    page.close()


def test_tab_visits_every_control_in_order_and_focus_is_visible(page: Page) -> None:
    page.value("document.body.focus()")
    visited, unseen = [], []
    for _ in range(60):
        page.press("Tab")
        here = page.value(
            "(() => { const e = document.activeElement, s = getComputedStyle(e); "
            "return [e.id, s.outlineStyle, parseFloat(s.outlineWidth), e.tagName]; })()"
        )
        if here[3] == "BODY":
            break
        visited.append(here[0])
        if here[1] == "none" or here[2] < 2:
            unseen.append(here)
    assert unseen == []
    assert [v for v in visited if v in CONTROLS] == CONTROLS


def test_every_control_has_a_name(used: Page) -> None:
    page = used
    nodes = page.accessibility()
    focusable = [
        n
        for n in nodes
        if not n["ignored"] and any(p["name"] == "focusable" and p["value"]["value"] for p in n["properties"])
    ]
    named = [n for n in focusable if n["name"]["value"].strip()]
    unnamed = [n["role"]["value"] for n in focusable if n not in named]
    assert [role for role in unnamed if role not in ("RootWebArea", "generic")] == []
    assert len(named) >= len(CONTROLS)


def test_steps_by_keyboard_say_what_the_schedule_says(used: Page) -> None:
    page = used
    run = report("h20_4p8").run
    assert run is not None
    steps = [len(step) for step in run.schedule.steps()]
    focus(page, "stage")
    page.press("Home")
    assert text(page, "said").startswith("Start")
    for number, count in enumerate(steps):
        page.press("ArrowRight")
        assert text(page, "said").startswith(f"Step {number + 1} of {len(steps)}: {count} transfers")
        assert page.value("document.getElementById('step').value") == str(number + 1)
    page.press("ArrowRight")
    assert text(page, "said").startswith(f"Step {len(steps)} of")
    page.press("ArrowLeft")
    assert text(page, "said").startswith(f"Step {len(steps) - 1} of")
    focus(page, "step")
    page.press("Home")
    assert text(page, "said").startswith("Start")
    page.press("End")
    assert page.value("[...document.querySelectorAll('.level')].every((r) => r.height.baseVal.value > 20)")


@pytest.mark.parametrize("still", [True, False])
def test_nothing_moves_where_motion_is_unwanted(browser: Browser, address: str, still: bool) -> None:
    page = opened(browser, address, still=still)
    choose(page, "speed", "2400")
    focus(page, "stage")
    page.press("Home")
    page.press(" ")
    look = "document.querySelector('#canvasbox canvas').toDataURL()"
    page.value("new Promise((done) => setTimeout(done, 100))")
    first = page.value(look)
    page.value("new Promise((done) => setTimeout(done, 300))")
    assert (page.value(look) == first) == still
    assert text(page, "said").startswith("Step 1 of 3")
    page.close()


BLOCKS, WIRES = "0", "2"
"""The rows of the time chart, those of the program first."""


def test_the_filter_by_chunk_filters_every_drawing(used: Page) -> None:
    page = used
    run = report("h20_4p8").run
    assert run is not None
    choose(page, "rows", WIRES)
    choose(page, "chunk", "5")
    mine = [i for i, t in enumerate(run.schedule.transfers) if t.chunk == 5]
    graph = run.timeline.graph
    crossed = {int(r) for i in mine for r in graph.uses[graph.uses_start[i] : graph.uses_start[i + 1]]}
    assert text(page, "gantt-said").startswith(f"{len(crossed)} rows that chunk 5")
    focus(page, "stage")
    page.press("Home")
    page.press("ArrowRight")
    first = sum(run.schedule.transfers[i].start == 0 for i in mine)
    assert f"{first} transfers of chunk 5" in text(page, "said")
    page.press("End")
    assert page.value("document.querySelectorAll('rect.holds').length") == 12
    choose(page, "rows", BLOCKS)
    told = re.match(r"(\d+) rows", text(page, "gantt-said"))
    assert told is not None and 0 < int(told[1]) < 92


def test_the_time_chart_by_keyboard(used: Page) -> None:
    page = used
    run = report("h20_4p8").run
    assert run is not None
    choose(page, "rows", WIRES)
    focus(page, "gantt")
    page.press("ArrowDown")
    uses = [u for u in run.timeline.uses() if u.size > 0]
    assert text(page, "gantt-detail").startswith(uses[0].name)
    page.press("ArrowDown", times=3)
    assert text(page, "gantt-detail").startswith(uses[3].name)
    page.press(".")
    assert re.search(r"chunk \d+ .*step 1: 0 µs|chunk \d+ .*step 1: [\d.]+ µs to", text(page, "gantt-detail"))
    before = text(page, "gantt-detail")
    page.press(".")
    assert text(page, "gantt-detail") != before
    page.press(",")
    assert text(page, "gantt-detail") == before
    page.press("+", times=3)
    assert "shown is" in text(page, "gantt-said")
    page.press("0")
    assert "shown is" not in text(page, "gantt-said")
    page.press("Escape")
    assert text(page, "gantt-detail").startswith("Point at a bar")


def test_tables_say_what_the_drawings_show(used: Page) -> None:
    page = used
    found = report("h20_4p8")
    assert found.run is not None
    focus(page, "stage")
    page.press("ArrowRight")
    page.value("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    rows = "document.querySelectorAll('#{} tbody tr').length"
    page.wait(f"{rows.format('curve-table')} > 0")
    assert page.value(rows.format("step-table")) == len(found.run.schedule.steps()[0])
    assert page.value(rows.format("curve-table")) == len(found.sizes)
    assert page.value(rows.format("hardware")) == len(found.topology.vertices) + len(found.topology.wires)
    focus(page, "chart-time")
    page.press("Home")
    first = text(page, "curve-said")
    page.press("ArrowRight")
    assert first.startswith("1 KB: this program") and text(page, "curve-said").startswith("4 KB: this program")


def contrast(one: str, two: str) -> float:
    low, high = sorted((luminance(one), luminance(two)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_marks_have_contrast(browser: Browser, address: str, scheme: str) -> None:
    page = opened(browser, address, scheme=scheme)

    def colour(name: str) -> str:
        found: str = page.value(f"getComputedStyle(document.documentElement).getPropertyValue('--{name}').trim()")
        return found

    for ground in ("page", "panel"):
        assert contrast(colour("ink"), colour(ground)) >= 7
        assert contrast(colour("quiet"), colour(ground)) >= 4.5
        assert contrast(colour("strong"), colour(ground)) >= 4.5
        assert min(contrast(colour(m), colour(ground)) for m in ("busy", "full", "focus")) >= 3
    assert contrast(colour("ink"), colour("full-back")) >= 7 and contrast(colour("full"), colour("full-back")) >= 3
    assert min(contrast(colour("ink"), colour(part)) for part in ("part", "host", "pcie", "router")) >= 7
    assert contrast(colour("gpu-ink"), colour("gpu")) >= 4.5 and contrast(colour("gpu-ink"), colour("level")) >= 4
    assert (luminance(colour("page")) < 0.1) == (scheme == "dark")
    page.close()


@pytest.mark.parametrize("width", [360, 1920])
def test_the_page_fits_its_window_and_nothing_jumps(browser: Browser, address: str, width: int) -> None:
    page = opened(browser, address, width=width)
    assert page.value("document.documentElement.scrollWidth") <= width
    page.value(
        "window.shifts = 0; new PerformanceObserver((list) => list.getEntries().forEach("
        "(e) => { window.shifts += e.value; })).observe({type: 'layout-shift', buffered: true})"
    )
    focus(page, "stage")
    page.press("ArrowRight", times=3)
    choose(page, "paint", "use")
    page.value("new Promise((done) => setTimeout(done, 100))")
    assert page.value("window.shifts") < 0.02 and page.complaints() == []
    page.close()


def test_what_a_report_lacks_is_not_shown(browser: Browser, tmp_path: Path) -> None:
    """No steps; steps that were read off a program; no program."""
    plain = report("h20_4p8")
    assert plain.run is not None
    page = opened(browser, written(replace(plain, run=None, collective=None), tmp_path))
    assert page.complaints() == [] and text(page, "said").startswith("There are no steps to show")
    assert "thread blocks" in text(page, "gantt-said")
    page.close()
    page = opened(browser, written(replace(plain, run=replace(plain.run, capacities=False)), tmp_path))
    assert page.complaints() == [] and "thread blocks" in text(page, "gantt-said")
    assert text(page, "use-said").startswith("Bottleneck of the program: ")
    page.close()
    curves = tuple(replace(c, seconds=c.seconds[:1]) for c in plain.curves)
    page = opened(browser, written(replace(plain, program=None, sizes=plain.sizes[:1], curves=curves), tmp_path))
    assert page.complaints() == []
    assert page.value("document.querySelectorAll('#rows option').length") == 2
    page.close()


def test_the_thread_blocks_of_a_plan_are_shown(browser: Browser, tmp_path: Path) -> None:
    found = report("fig10", targets=("mscclpp",)).program
    assert found is not None
    page = opened(browser, written(report("fig10", targets=("mscclpp",)), tmp_path))
    assert page.complaints() == []
    choose(page, "rows", BLOCKS)
    assert text(page, "gantt-said").startswith(f"{len(found.blocks)} rows: thread blocks")
    focus(page, "gantt")
    page.press("ArrowDown")
    page.press(".")
    assert text(page, "gantt-detail").startswith("GPU 0 block 0 memory")
    assert f"Step 0: {found.steps[0].operation} {found.steps[0].peers}" in text(page, "gantt-detail")
    choose(page, "chunk", "3")  # whose way through a plan is not known
    assert text(page, "gantt-said").startswith(f"{len(found.blocks)} rows")
    page.close()
