"""The trace as Chrome's own trace viewer reads it: nothing refused, every arrow where it belongs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

import pytest
from support.chromium import Browser, Page, chromium
from support.reports import report
from support.trace_viewer import opened, read, viewer

from hetesynth.report.contents import ProgramRun, Report
from hetesynth.report.trace import chrome_trace

pytestmark = pytest.mark.skipif(
    chromium() is None or viewer() is None,
    reason="there is no Chromium, or no viewer: pip install --no-deps torch-tb-profiler",
)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    path = viewer()
    assert path is not None
    with Browser(tmp_path_factory.mktemp("profile")) as browser:
        yield opened(browser, path)


def plan() -> Report:
    return report("h20_4p8", targets=("mscclpp",))


@pytest.mark.parametrize("kind", ["program", "plan"])
def test_the_viewer_reads_everything(page: Page, kind: str) -> None:
    shown = plan() if kind == "plan" else report("h20_4p8")
    trace = chrome_trace(shown)
    found = read(page, trace)
    phases = Counter(event["ph"] for event in json.loads(trace)["traceEvents"])
    assert found["warnings"] == []
    assert found["slices"] == phases["X"] and len(found["flows"]) == phases["s"] == phases["f"]
    assert len(found["threads"]) == len({tuple(names) for names in found["threads"]})
    assert shown.program is not None and shown.run is not None
    ends = (shown.program.timeline.makespan, shown.run.timeline.makespan)
    assert found["last"] == pytest.approx(max(ends) * 1e3, abs=2e-5)  # steps of no time are drawn as 2 ns


def name(run: ProgramRun, task: int) -> tuple[int, int, str, int]:
    """A step as the trace tells of it: GPU, step, operation, loop."""
    x = run.steps[task % len(run.steps)]
    return run.blocks[x.block].rank, x.step, x.operation, task // len(run.steps)


@pytest.mark.parametrize("kind", ["program", "plan"])
def test_arrows_lead_from_the_step_that_sends_to_the_one_that_takes(page: Page, kind: str) -> None:
    run = (plan() if kind == "plan" else report("h20_4p8")).program
    assert run is not None
    trace = chrome_trace(plan() if kind == "plan" else report("h20_4p8"))
    meant = sorted(tuple(name(run, task) for task in message) for message in run.messages)
    arrows = read(page, trace)["flows"]
    seen = sorted(tuple((int(gpu.split()[1]), *rest) for gpu, *rest in arrow) for arrow in arrows)
    assert seen == meant and len(meant) > 100


def test_the_viewer_tells_a_flow_that_hangs_in_the_air(page: Page) -> None:
    """The reader is no rubber stamp: moved out of its step, an arrow is refused."""
    values = json.loads(chrome_trace(report("h20_4p8")))
    flow = next(event for event in values["traceEvents"] if event["ph"] == "s")
    flow["ts"] = 1e9
    assert read(page, json.dumps(values).encode())["warnings"]


def test_what_is_left_out_leaves_no_arrow_behind(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hetesynth.report.trace.MAX_EVENTS", 900)
    found = read(page, chrome_trace(replace(report("h20_4p8"), run=None)))
    assert found["warnings"] == []
