"""The trace: what Perfetto needs of the format, and that it says what was simulated."""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from support.reports import report

from hetesynth.report.trace import MAX_EVENTS, chrome_trace

Event = dict[str, Any]
ENDS = 1e-3  # us: what rounding of begins and lengths may add up to


@pytest.fixture(scope="module")
def trace() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(chrome_trace(report("h20_4p8")))
    return found


def events(trace: dict[str, Any], phase: str) -> list[Event]:
    return [e for e in trace["traceEvents"] if e["ph"] == phase]


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


def test_events_of_one_thread_do_not_overlap(trace: dict[str, Any]) -> None:
    threads: dict[tuple[int, int], list[Event]] = defaultdict(list)
    for event in events(trace, "X"):
        threads[event["pid"], event["tid"]].append(event)
    for found in threads.values():
        found.sort(key=lambda e: (e["ts"], e["ts"] + e["dur"]))
        for one, two in pairwise(found):
            assert one["ts"] + one["dur"] <= two["ts"] + ENDS


def test_every_thread_and_process_has_a_name(trace: dict[str, Any]) -> None:
    named = {(e["pid"], e["tid"]) for e in events(trace, "M") if e["name"] == "thread_name"}
    processes = {e["pid"] for e in events(trace, "M") if e["name"] == "process_name"}
    assert {(e["pid"], e["tid"]) for e in events(trace, "X")} <= named
    assert {pid for pid, _ in named} <= processes


def test_there_is_a_track_for_every_thread_block_and_every_busy_resource(trace: dict[str, Any]) -> None:
    found = report("h20_4p8")
    assert found.run is not None and found.program is not None
    names = [(e["pid"], e["args"]["name"]) for e in events(trace, "M") if e["name"] == "thread_name"]
    assert sum(pid >= 10 for pid, _ in names) == len(found.program.blocks)
    busy = {use.name for use in found.run.timeline.uses() if use.size > 0}
    assert busy == {name for pid, name in names if pid == 1 and " #" not in name}


def test_bytes_on_a_resource_are_those_simulated(trace: dict[str, Any]) -> None:
    found = report("h20_4p8")
    assert found.run is not None
    resource = {
        (e["pid"], e["tid"]): e["args"]["name"].partition(" #")[0]
        for e in events(trace, "M")
        if e["name"] == "thread_name"
    }
    carried: dict[str, int] = defaultdict(int)
    for e in events(trace, "X"):
        if e["pid"] == 1:
            carried[resource[1, e["tid"]]] += e["args"]["bytes"]
    assert dict(carried) == {u.name: pytest.approx(u.size) for u in found.run.timeline.uses() if u.size > 0}


def test_an_arrow_for_each_message_and_none_goes_back_in_time(trace: dict[str, Any]) -> None:
    run = report("h20_4p8").program
    assert run is not None
    sends = sum("send" in x.operation for x in run.steps)
    starts = {e["id"]: e["ts"] for e in events(trace, "s")}
    ends = {e["id"]: e["ts"] for e in events(trace, "f")}
    assert set(starts) == set(ends) and len(starts) == sends * run.shown
    assert all(starts[i] <= ends[i] + ENDS for i in starts)


def test_the_last_end_is_the_predicted_time(trace: dict[str, Any]) -> None:
    found = report("h20_4p8")
    assert found.run is not None
    last = max(e["ts"] + e["dur"] for e in events(trace, "X") if e["pid"] == 1)
    assert last == pytest.approx(found.run.timeline.makespan * 1e6, abs=ENDS)


def test_the_same_report_gives_the_same_bytes_and_hostile_names_are_strings() -> None:
    found = report("h20_4p8")
    assert chrome_trace(found) == chrome_trace(found)
    assert json.loads(chrome_trace(replace(found, title='"}\n<\ud800')))["otherData"]["title"] == '"}\n<\ud800'


def test_events_past_the_limit_are_counted(monkeypatch: pytest.MonkeyPatch, trace: dict[str, Any]) -> None:
    monkeypatch.setattr("hetesynth.report.trace.MAX_EVENTS", 100)
    cut = json.loads(chrome_trace(report("h20_4p8")))
    assert len(cut["traceEvents"]) == 100 < MAX_EVENTS
    assert cut["otherData"]["events_left_out"] == len(trace["traceEvents"]) - 100
