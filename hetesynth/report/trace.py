"""A run as a trace that Perfetto and chrome://tracing open: what each resource and each thread block did when.

A process is the schedule, the resources or a GPU; a thread is a resource or a thread block. Transfers share a
resource, and events of one thread must not overlap, so a resource gets as many threads as it carries transfers at
once. Of a program that loops often the first loops are there.

Readers count whole nanoseconds and bind a flow to whatever is open on its thread at its time. So times are whole
nanoseconds, a step of a thread block takes at least two (which the next one lacks), and flows lie strictly inside
what they join.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from itertools import islice
from typing import Any

from hetesynth.model.timeline import Timeline
from hetesynth.report.contents import ProgramRun, Report

MAX_EVENTS = 500_000
LEAST = 2  # nanoseconds of a step
_ORDER = ("s", "f", "X")  # of one time
_RESOURCES, _PROGRAM_RESOURCES, _GPUS = 1, 2, 10  # process ids

Event = dict[str, Any]


def chrome_trace(report: Report) -> bytes:
    """Return the trace of ``report``; events past ``MAX_EVENTS`` are left out, and ``otherData`` says how many."""
    every = _events(report)
    events = list(islice(every, MAX_EVENTS))
    left_out = sum(1 for _ in every)
    if left_out:  # flows of which one end is left out are left out too
        ends = Counter(event["id"] for event in events if "id" in event)
        whole = [event for event in events if ends.get(event.get("id"), 2) == 2]
        events, left_out = whole, left_out + len(events) - len(whole)
    # Names come first; of flows at one time the begin (``s``) before the end (``f``).
    events.sort(key=lambda e: (-1.0, 0) if e["ph"] == "M" else (e["ts"], _ORDER.index(e["ph"])))
    other = {"title": report.title, "size_bytes": report.size, "simulated": True, "events_left_out": left_out}
    lines = ",\n".join(json.dumps(event, separators=(",", ":")) for event in events)
    head = json.dumps(other, separators=(",", ":"))
    return f'{{"displayTimeUnit":"ns","otherData":{head},"traceEvents":[\n{lines}\n]}}\n'.encode()


def _events(report: Report) -> Iterator[Event]:
    if report.run is not None and (report.program is None or report.run.capacities):  # else read off the program
        arcs = report.run.problem.arcs  # the first tasks of the timeline are the transfers
        names = [f"chunk {t.chunk}: {arcs[t.link].src}->{arcs[t.link].dst}" for t in report.run.schedule.transfers]
        yield from _process(_RESOURCES, "Schedule: resources", 0)
        yield from _resource_events(_RESOURCES, report.run.timeline, names, len(names))
    if report.program is not None:
        run = report.program
        names = []
        for x in run.steps:
            block = run.blocks[x.block]
            peers = f" {x.peers}" if x.peers else ""
            names.append(f"GPU {block.rank}{peers}, block {block.id} step {x.step}")
        yield from _process(_PROGRAM_RESOURCES, "Program: resources", 1)
        yield from _resource_events(_PROGRAM_RESOURCES, run.timeline, names, run.tasks)
        yield from _block_events(report, run)


def _process(process: int, name: str, order: int) -> Iterator[Event]:
    yield {"ph": "M", "pid": process, "name": "process_name", "args": {"name": name}}
    yield {"ph": "M", "pid": process, "name": "process_sort_index", "args": {"sort_index": order}}


def _thread(process: int, thread: int, name: str) -> Iterator[Event]:
    at = {"ph": "M", "pid": process, "tid": thread}
    yield at | {"name": "thread_name", "args": {"name": name}}
    yield at | {"name": "thread_sort_index", "args": {"sort_index": thread}}


def _slice(at: tuple[int, int], begin: int, end: int, name: str, args: dict[str, Any]) -> Event:
    """What runs at (process, thread) between two nanoseconds."""
    spot = {"ph": "X", "pid": at[0], "tid": at[1], "ts": begin / 1000, "dur": (end - begin) / 1000}
    return spot | {"name": name, "args": args}


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)


def _resource_events(process: int, timeline: Timeline, names: list[str], last: int) -> Iterator[Event]:
    """One event for each of the first ``last`` tasks on each resource that it draws from."""
    graph = timeline.graph
    tasks: list[list[int]] = [[] for _ in graph.names]
    uses, first = graph.uses.tolist(), graph.uses_start.tolist()
    begin, sent, size = timeline.begin.tolist(), timeline.sent.tolist(), graph.size.tolist()
    for task in range(last):
        if size[task] > 0:
            for resource in uses[first[task] : first[task + 1]]:
                tasks[resource].append(task)
    thread = 0
    for resource, members in enumerate(tasks):
        tracks = _tracks(members, begin, sent)
        count = max(tracks.values(), default=-1) + 1
        for number in range(count):
            name = graph.names[resource] + (f" #{number + 1}" if number else "")
            yield from _thread(process, thread + number, name)
        for task, track in tracks.items():
            args = {"bytes": round(size[task]), "loop": task // len(names)}
            times = _ns(begin[task]), _ns(sent[task])
            yield _slice((process, thread + track), *times, names[task % len(names)], args)
        thread += count


def _tracks(tasks: Iterable[int], begin: list[float], end: list[float]) -> dict[int, int]:
    """A track for every task in order of time, so that no two of a track overlap; the lowest that is free."""
    free: list[int] = []
    busy: list[tuple[float, int]] = []
    track_of: dict[int, int] = {}
    for task in sorted(tasks, key=lambda i: (begin[i], end[i], i)):
        while busy and busy[0][0] <= begin[task]:
            heappush(free, heappop(busy)[1])
        track_of[task] = heappop(free) if free else len(busy)
        heappush(busy, (end[task], track_of[task]))
    return track_of


# -- thread blocks


def _block_events(report: Report, run: ProgramRun) -> Iterator[Event]:
    """Steps by thread block, from when it got to them to their end, and the messages between.

    What a thread block has under way at once (puts that it does not wait for) is on tracks of its own.
    """
    since, end = run.since.tolist(), run.timeline.end.tolist()
    tasks: list[list[int]] = [[] for _ in run.blocks]
    for task in range(run.tasks):
        tasks[run.steps[task % len(run.steps)].block].append(task)
    spans: dict[int, tuple[tuple[int, int], int, int]] = {}  # (process, thread), begin and end in nanoseconds
    threads: dict[int, int] = {}
    for block, members in zip(run.blocks, tasks, strict=True):
        process = _GPUS + block.rank
        if process not in threads:
            name = f"GPU {block.rank} ({report.topology.vertices[block.rank].name})"
            yield from _process(process, name, process)
        first = threads.get(process, 0)
        tracks = _tracks(members, since, end)
        threads[process] = first + max(tracks.values(), default=0) + 1
        for thread in range(first, threads[process]):
            extra = f" #{thread - first + 1}" if thread > first else ""
            yield from _thread(process, thread, f"block {block.id}{extra}: {block.label}")
        free: dict[int, int] = {}
        for task, track in tracks.items():
            begin = max(_ns(since[task]), free.get(track, 0))
            free[track] = max(_ns(end[task]), begin + LEAST)
            spans[task] = (process, first + track), begin, free[track]
    for task in range(run.tasks):
        x = run.steps[task % len(run.steps)]
        waited = max(0.0, float(run.timeline.ready[task] - run.since[task]))
        said = {"with": x.peers, "from": x.src, "to": x.dst, "chunks": list(x.chunks)}
        args = {"step": x.step, "loop": task // len(run.steps), "waited_us": _ns(waited) / 1000}
        yield _slice(*spans[task], x.operation, args | {name: value for name, value in said.items() if value})
    for number, (sent, received) in enumerate(run.messages):
        if max(sent, received) >= run.tasks:
            continue
        source, begin, left = spans[sent]  # arrows from the last moment of one to that of the other
        target, _, taken_at = spans[received]
        arrives = taken_at - 1
        leaves = max(begin + 1, min(left - 1, arrives))
        for phase, (process, thread), at in (("s", source, leaves), ("f", target, max(arrives, leaves))):
            event: Event = {"ph": phase, "pid": process, "tid": thread, "ts": at / 1000}
            event |= {"bp": "e"} if phase == "f" else {}
            yield event | {"cat": "message", "name": "message", "id": number}
