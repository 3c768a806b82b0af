"""A run as a trace that Perfetto and chrome://tracing open: what each resource and each thread block did when.

In: a report. Out: JSON in Chrome's trace event format (complete events ``X``, metadata ``M``, flows ``s`` and
``f``; microseconds). A process is the schedule, the resources or a GPU; a thread is a resource or a thread block.
Transfers share a resource, and events of one thread must not overlap, so a resource gets as many threads as it
carries transfers at once. Of a program that loops often the first loops are there. The same report gives the
same bytes.

Readers count whole nanoseconds and bind a flow to whatever is open on its thread at its time, in the order of the
file: so times are rounded to nanoseconds, flows lie just inside what they join, and events are sorted.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from itertools import islice
from typing import Any

from hetesynth.model.timeline import Timeline
from hetesynth.report.contents import ProgramRun, Report, ScheduleRun

MAX_EVENTS = 500_000
TICK = 0.001  # us: the least time that readers tell apart
_RESOURCES, _PROGRAM_RESOURCES, _GPUS = 1, 2, 10  # process ids

Event = dict[str, Any]


def chrome_trace(report: Report) -> bytes:
    """The trace of ``report``; events past ``MAX_EVENTS`` are left out, and ``otherData`` says how many."""
    every = _events(report)
    events = list(islice(every, MAX_EVENTS))
    left_out = sum(1 for _ in every)
    if left_out:
        events, left_out = _whole_flows(events, left_out)
    events.sort(key=_moment)
    other = {"title": report.title, "size_bytes": report.size, "simulated": True, "events_left_out": left_out}
    lines = ",\n".join(json.dumps(event, separators=(",", ":")) for event in events)
    head = json.dumps(other, separators=(",", ":"))
    return f'{{"displayTimeUnit":"ns","otherData":{head},"traceEvents":[\n{lines}\n]}}\n'.encode()


def _events(report: Report) -> Iterator[Event]:
    if report.run is not None:
        names = _transfer_names(report.run)
        yield from _named(_RESOURCES, "Schedule: resources", 0)
        yield from _resource_events(_RESOURCES, report.run.timeline, names, len(names))
    if report.program is not None:
        yield from _named(_PROGRAM_RESOURCES, "Program: resources", 1)
        run = report.program
        yield from _resource_events(_PROGRAM_RESOURCES, run.timeline, _task_names(run), run.tasks)
        yield from _block_events(report, run)


def _named(process: int, name: str, order: int) -> Iterator[Event]:
    yield {"ph": "M", "pid": process, "name": "process_name", "args": {"name": name}}
    yield {"ph": "M", "pid": process, "name": "process_sort_index", "args": {"sort_index": order}}


def _us(seconds: float) -> float:
    return round(seconds * 1e6, 3)


def _whole_flows(events: list[Event], left_out: int) -> tuple[list[Event], int]:
    """The events without flows of which one end is left out, and how many are left out then."""
    ends = Counter(event["id"] for event in events if "id" in event)
    whole = [event for event in events if ends.get(event.get("id"), 2) == 2]
    return whole, left_out + len(events) - len(whole)


def _moment(event: Event) -> tuple[float, int]:
    """Names come first. What begins at a time comes after the flows that lie inside of what has begun before."""
    if event["ph"] == "M":
        return -1.0, 0
    return event["ts"], {"s": 0, "f": 1}.get(event["ph"], 2) if event.pop("inside", False) else 2


def _lasts(begin: float, end: float) -> float:
    """Microseconds, so that rounded begin and length add up to the rounded end."""
    return max(0.0, round(_us(end) - _us(begin), 3))


def _transfer_names(run: ScheduleRun) -> list[str]:
    """Of every task of the schedule's timeline that sends: the first are its transfers."""
    arcs = run.problem.arcs
    return [f"chunk {t.chunk}: {arcs[t.link].src}->{arcs[t.link].dst}" for t in run.schedule.transfers]


def _task_names(run: ProgramRun) -> list[str]:
    found = []
    for x in run.steps:
        block = run.blocks[x.block]
        peers = f" {x.peers}" if x.peers else ""
        found.append(f"GPU {block.rank}{peers}, block {block.id} step {x.step}")
    return found


def _resource_events(process: int, timeline: Timeline, names: list[str], last: int) -> Iterator[Event]:
    """One event for each of the first ``last`` tasks on each resource that it draws from."""
    graph = timeline.graph
    tasks: list[list[int]] = [[] for _ in graph.names]
    uses, first = graph.uses.tolist(), graph.uses_start.tolist()
    for task, size in enumerate(graph.size[:last].tolist()):
        if size > 0:
            for resource in uses[first[task] : first[task + 1]]:
                tasks[resource].append(task)
    begin, sent, size = timeline.begin.tolist(), timeline.sent.tolist(), graph.size.tolist()
    thread = 0
    for resource, members in enumerate(tasks):
        if not members:
            continue
        lanes = _lanes(sorted(members, key=lambda i: (begin[i], sent[i], i)), begin, sent)
        for number in range(max(lanes.values()) + 1):
            name = graph.names[resource] + (f" #{number + 1}" if number else "")
            yield from _thread(process, thread + number, name)
        for task, lane in lanes.items():
            yield {
                "ph": "X", "pid": process, "tid": thread + lane, "ts": _us(begin[task]),
                "dur": _lasts(begin[task], sent[task]), "name": names[task % len(names)],
                "args": {"bytes": round(size[task]), "loop": task // len(names)},
            }  # fmt: skip
        thread += max(lanes.values()) + 1


def _lanes(ordered: Iterable[int], begin: list[float], sent: list[float]) -> dict[int, int]:
    """A lane for every task, so that no two of a lane overlap; the lowest that is free."""
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    found: dict[int, int] = {}
    count = 0
    for task in ordered:
        while busy and busy[0][0] <= begin[task]:
            heappush(free, heappop(busy)[1])
        if not free:
            heappush(free, count)
            count += 1
        found[task] = heappop(free)
        heappush(busy, (sent[task], found[task]))
    return found


def _thread(process: int, thread: int, name: str) -> Iterator[Event]:
    yield {"ph": "M", "pid": process, "tid": thread, "name": "thread_name", "args": {"name": name}}
    yield {"ph": "M", "pid": process, "tid": thread, "name": "thread_sort_index", "args": {"sort_index": thread}}


def _block_events(report: Report, run: ProgramRun) -> Iterator[Event]:
    """Steps by thread block, from when it got to them to their end, and the messages between.

    What a thread block has under way at once (puts that it does not wait for) is on tracks of its own.
    """
    since, end = run.since.tolist(), run.timeline.end.tolist()
    tasks: list[list[int]] = [[] for _ in run.blocks]
    for task in range(run.tasks):
        tasks[run.steps[task % len(run.steps)].block].append(task)
    tracks: dict[int, tuple[int, int]] = {}  # task -> process and thread
    threads: dict[int, int] = {}
    for block, members in zip(run.blocks, tasks, strict=True):
        process = _GPUS + block.rank
        if block.rank not in threads:
            name = f"GPU {block.rank} ({report.topology.vertices[block.rank].name})"
            yield from _named(process, name, process)
        first = threads.get(block.rank, 0)
        lanes = _lanes(sorted(members, key=lambda i: (since[i], end[i], i)), since, end)
        count = max(lanes.values(), default=0) + 1
        threads[block.rank] = first + count
        for lane in range(count):
            extra = f" #{lane + 1}" if lane else ""
            yield from _thread(process, first + lane, f"block {block.id}{extra}: {block.label}")
        tracks |= {task: (process, first + lane) for task, lane in lanes.items()}
    yield from _steps(run, tracks)


def _steps(run: ProgramRun, tracks: dict[int, tuple[int, int]]) -> Iterator[Event]:
    """Every task, and behind it the flows that leave from it or end in it. One that takes no time sends none."""
    since, ready, end = (times.tolist() for times in (run.since, run.timeline.ready, run.timeline.end))
    flows: dict[int, list[tuple[str, int]]] = defaultdict(list)
    for number, (sent, taken) in enumerate(run.messages):
        if max(sent, taken) < run.tasks and _lasts(since[sent], end[sent]) >= 2 * TICK:
            flows[sent].append(("s", number))
            flows[taken].append(("f", number))
    for task in range(run.tasks):
        process, thread = tracks[task]
        yield _step_event(run, task, process, thread, (since[task], ready[task], end[task]))
        begun, ended = _us(since[task]), _us(end[task])
        at = max(begun, round(ended - TICK, 3))
        for phase, number in flows[task]:
            event: Event = {"ph": phase, "pid": process, "tid": thread, "ts": at, "cat": "message", "id": number}
            event |= {"name": "message", "inside": at > begun} | ({"bp": "e"} if phase == "f" else {})
            yield event


def _step_event(
    run: ProgramRun, task: int, process: int, thread: int, when: tuple[float, float, float]
) -> Event:  # fmt: skip
    """``when``: since, ready, end."""
    since, ready, end = when
    x = run.steps[task % len(run.steps)]
    said = {"with": x.peers, "from": x.src, "to": x.dst, "chunks": list(x.chunks)}
    return {
        "ph": "X", "pid": process, "tid": thread, "ts": _us(since), "dur": _lasts(since, end), "name": x.operation,
        "args": {
            "step": x.step, "loop": task // len(run.steps), "waited_us": _us(max(0.0, ready - since)),
            **{name: value for name, value in said.items() if value},
        },
    }  # fmt: skip
