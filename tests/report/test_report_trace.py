"""The trace: what Perfetto needs of the format, what was simulated, and what Chrome's viewer reads."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from support.chromium import Browser, chromium
from support.reports import report
from support.trace_viewer import opened, read, viewer

from hetesynth.report.contents import ProgramRun
from hetesynth.report.trace import chrome_trace

Event = dict[str, Any]
ENDS = 1e-3  # us: what rounding of begins and lengths may add up to


@pytest.fixture(scope="module")
def trace() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(chrome_trace(report("h20_4p8")))
    return found


def events(trace: dict[str, Any], phase: str) -> list[Event]:
    return [e for e in trace["traceEvents"] if e["ph"] == phase]


def threads(trace: dict[str, Any]) -> dict[tuple[int, int], str]:
    named = [e for e in events(trace, "M") if e["name"] == "thread_name"]
    return {(e["pid"], e["tid"]): e["args"]["name"] for e in named}


def test_every_event_has_what_its_phase_needs(trace: dict[str, Any]) -> None:
    needs = {
        "X": {"pid", "tid", "ts", "dur", "name"},
        "M": {"pid", "name", "args"},
        "s": {"pid", "tid", "ts", "id"},
        "f": {"pid", "tid", "ts", "id", "bp"},
    }
    for event in trace["traceEvents"]:
        assert needs[event["ph"]] <= set(event)
        assert event.get("ts", 0) >= 0 and event.get("dur", 0) >= 0
    processes = {e["pid"] for e in events(trace, "M") if e["name"] == "process_name"}
    assert {(e["pid"], e["tid"]) for e in events(trace, "X")} <= set(threads(trace))
    assert {pid for pid, _ in threads(trace)} <= processes


def test_events_of_one_thread_do_not_overlap(trace: dict[str, Any]) -> None:
    by_thread: dict[tuple[int, int], list[Event]] = defaultdict(list)
    for event in events(trace, "X"):
        by_thread[event["pid"], event["tid"]].append(event)
    for some in by_thread.values():
        some.sort(key=lambda e: (e["ts"], e["ts"] + e["dur"]))
        assert all(one["ts"] + one["dur"] <= two["ts"] + ENDS for one, two in pairwise(some))


def test_it_says_what_was_simulated(trace: dict[str, Any]) -> None:
    """A track for every thread block and busy resource, its bytes, and the predicted time."""
    found = report("h20_4p8")
    assert found.run is not None and found.program is not None
    assert sum(pid >= 10 for pid, _ in threads(trace)) == len(found.program.blocks)
    carried: dict[str, int] = defaultdict(int)
    for e in events(trace, "X"):
        if e["pid"] == 1:
            carried[threads(trace)[1, e["tid"]].partition(" #")[0]] += e["args"]["bytes"]
    assert dict(carried) == {u.name: pytest.approx(u.size) for u in found.run.timeline.uses() if u.size > 0}
    last = max(e["ts"] + e["dur"] for e in events(trace, "X") if e["pid"] == 1)
    assert last == pytest.approx(found.run.timeline.makespan * 1e6, abs=ENDS)


def test_an_arrow_for_each_message_and_none_goes_back_in_time(trace: dict[str, Any]) -> None:
    run = report("h20_4p8").program
    assert run is not None
    sends = sum(x.operation in ("s", "rcs", "rrs", "rrcs") for x in run.steps)
    starts = {e["id"]: e["ts"] for e in events(trace, "s")}
    ends = {e["id"]: e["ts"] for e in events(trace, "f")}
    assert set(starts) == set(ends) and len(starts) == sends * run.shown
    assert all(starts[i] <= ends[i] + ENDS for i in starts)


def test_hostile_names_are_strings_and_events_past_the_limit_are_counted(
    monkeypatch: pytest.MonkeyPatch, trace: dict[str, Any]
) -> None:
    hostile = replace(report("h20_4p8"), title='"}\n<\ud800')
    assert json.loads(chrome_trace(hostile))["otherData"]["title"] == '"}\n<\ud800'
    monkeypatch.setattr("hetesynth.report.trace.MAX_EVENTS", 100)
    cut = json.loads(chrome_trace(report("h20_4p8")))
    assert len(cut["traceEvents"]) == 100
    assert cut["otherData"]["events_left_out"] == len(trace["traceEvents"]) - 100


@pytest.mark.skipif(
    chromium() is None or viewer() is None,
    reason="there is no Chromium, or no viewer: pip install --no-deps torch-tb-profiler",
)
@pytest.mark.parametrize("target", ["portable", "mscclpp"])
def test_chromes_viewer_reads_everything_and_every_arrow_joins_its_steps(target: str, tmp_path: Path) -> None:
    path, shown = viewer(), report("h20_4p8", targets=(target,))
    run = shown.program
    assert path is not None and run is not None and shown.run is not None
    trace = chrome_trace(shown)
    broken = json.loads(trace)
    next(event for event in broken["traceEvents"] if event["ph"] == "s")["ts"] = (
        1e9  # an arrow that hangs in the air
    )
    with Browser(tmp_path) as browser:
        page = opened(browser, path)
        said = read(page, trace)
        assert read(page, json.dumps(broken).encode())["warnings"]
    phases = Counter(event["ph"] for event in json.loads(trace)["traceEvents"])
    assert said["warnings"] == []
    assert said["slices"] == phases["X"] and len(said["flows"]) == phases["s"] == phases["f"]
    meant = sorted(tuple(step(run, task) for task in message) for message in run.messages)
    seen = sorted(tuple((int(gpu.split()[1]), *rest) for gpu, *rest in arrow) for arrow in said["flows"])
    assert seen == meant and len(meant) > 100


def step(run: ProgramRun, task: int) -> tuple[int, int, str, int]:
    """A step as the trace tells of it: GPU, step, operation, loop."""
    x = run.steps[task % len(run.steps)]
    return run.blocks[x.block].rank, x.step, x.operation, task // len(run.steps)
