"""The trace: what Perfetto needs of the format and what was simulated."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from support.reports import report

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
    needs = {"X": {"pid", "tid", "ts", "dur", "name"}, "M": {"pid", "name", "args"}}
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
        assert all(one["ts"] + one["dur"] <= two["ts"] + 1e-6 for one, two in pairwise(some))


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


def test_hostile_names_are_strings_and_events_past_the_limit_are_counted(
    monkeypatch: pytest.MonkeyPatch, trace: dict[str, Any]
) -> None:
    hostile = replace(report("h20_4p8"), title='"}\n<\ud800')
    assert json.loads(chrome_trace(hostile))["otherData"]["title"] == '"}\n<\ud800'
    monkeypatch.setattr("hetesynth.report.trace.MAX_EVENTS", 100)
    cut = json.loads(chrome_trace(report("h20_4p8")))
    assert len(cut["traceEvents"]) == 100
    assert cut["otherData"]["events_left_out"] == len(trace["traceEvents"]) - 100
