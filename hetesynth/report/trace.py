"""A run as a trace that Perfetto and chrome://tracing open: what each resource and each thread block did when.

A process is the schedule, the resources or a GPU; a thread is a resource or a thread block. Events of one thread
must not overlap, so what does several things at once gets as many threads. Of a program that loops often the first
loops are there.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import islice
from typing import Any

from hetesynth.model.timeline import Floats, Timeline
from hetesynth.report.contents import ProgramRun, Report

MAX_EVENTS = 500_000
_RESOURCES, _PROGRAM_RESOURCES, _GPUS = 1, 2, 10  # process ids

Event = dict[str, Any]
Told = Callable[[int], tuple[str, dict[str, Any]]]
"""Of a task: what it is called, and what else there is to say."""


def chrome_trace(report: Report) -> bytes:
    """Return the trace of ``report``; events past ``MAX_EVENTS`` are left out, and ``otherData`` says how many."""
    every = _events(report)
    events = list(islice(every, MAX_EVENTS))
    left_out = sum(1 for _ in every)
    events.sort(key=lambda event: event.get("ts", -1.0))  # names come first
    other = {"title": report.title, "size_bytes": report.size, "simulated": True, "events_left_out": left_out}
    lines = ",\n".join(json.dumps(event, separators=(",", ":")) for event in events)
    head = json.dumps(other, separators=(",", ":"))
    return f'{{"displayTimeUnit":"ns","otherData":{head},"traceEvents":[\n{lines}\n]}}\n'.encode()


def _events(report: Report) -> Iterator[Event]:
    if report.run is not None and (report.program is None or report.run.capacities):  # else read off the program
        arcs = report.run.problem.arcs  # the first tasks of the timeline are the transfers
        names = [f"chunk {t.chunk}: {arcs[t.link].src}->{arcs[t.link].dst}" for t in report.run.schedule.transfers]
        yield from _process(_RESOURCES, "Schedule: resources")
        yield from _resource_events(_RESOURCES, report.run.timeline, names, len(names))
    if report.program is not None:
        run = report.program
        names = []
        for x in run.steps:
            block = run.blocks[x.block]
            peers = f" {x.peers}" if x.peers else ""
            names.append(f"GPU {block.rank}{peers}, block {block.id} step {x.step}")
        yield from _process(_PROGRAM_RESOURCES, "Program: resources")
        yield from _resource_events(_PROGRAM_RESOURCES, run.timeline, names, run.tasks)
        yield from _block_events(report, run)


def _process(process: int, name: str) -> Iterator[Event]:
    yield {"ph": "M", "pid": process, "name": "process_name", "args": {"name": name}}
    yield {"ph": "M", "pid": process, "name": "process_sort_index", "args": {"sort_index": process}}


def _resource_events(process: int, timeline: Timeline, names: list[str], last: int) -> Iterator[Event]:
    """Yield an event for each of the first ``last`` tasks that send bytes, on each resource it draws from."""
    graph = timeline.graph
    tasks: list[list[int]] = [[] for _ in graph.names]
    uses, first, size = graph.uses.tolist(), graph.uses_start.tolist(), graph.size.tolist()
    for task in range(last):
        if size[task] > 0:
            for resource in uses[first[task] : first[task + 1]]:
                tasks[resource].append(task)

    def told(task: int) -> tuple[str, dict[str, Any]]:
        return names[task % len(names)], {"bytes": round(size[task]), "loop": task // len(names)}

    rows = zip(graph.names, tasks, strict=True)
    yield from _threads(process, rows, timeline.begin, timeline.sent, told)


def _block_events(report: Report, run: ProgramRun) -> Iterator[Event]:
    """Yield the steps of each thread block, from when it got to them until their end. Steps under way at once
    (puts that it does not wait for) are on threads of their own."""
    tasks: list[list[int]] = [[] for _ in run.blocks]
    for task in range(run.tasks):
        tasks[run.steps[task % len(run.steps)].block].append(task)
    by_gpu: dict[int, list[tuple[str, list[int]]]] = defaultdict(list)
    for block, members in zip(run.blocks, tasks, strict=True):
        by_gpu[block.rank].append((f"block {block.id}: {block.label}", members))

    def told(task: int) -> tuple[str, dict[str, Any]]:
        x = run.steps[task % len(run.steps)]
        waited = max(0.0, float(run.timeline.ready[task] - run.since[task]))
        args = {"step": x.step, "loop": task // len(run.steps), "waited_us": _us(waited)}
        said = {"with": x.peers, "from": x.src, "to": x.dst, "chunks": list(x.chunks)}
        return x.operation, args | {name: value for name, value in said.items() if value}

    for rank, rows in by_gpu.items():
        yield from _process(_GPUS + rank, f"GPU {rank} ({report.topology.vertices[rank].name})")
        yield from _threads(_GPUS + rank, rows, run.since, run.timeline.end, told)


def _threads(
    process: int, rows: Iterable[tuple[str, Sequence[int]]], begin: Floats, end: Floats, told: Told
) -> Iterator[Event]:
    """Yield the events of ``rows`` (name, tasks), each row on as many threads as tasks are under way at once."""
    begins, ends = begin.tolist(), end.tolist()
    thread = 0
    for row, tasks in rows:
        free: list[int] = []  # threads of this row, the lowest first
        busy: list[tuple[float, int]] = []  # until when
        count = 0
        for task in sorted(tasks, key=lambda i: (begins[i], ends[i], i)):
            while busy and busy[0][0] <= begins[task]:
                heappush(free, heappop(busy)[1])
            if not free:
                heappush(free, thread + count)
                named = {"ph": "M", "pid": process, "tid": thread + count}
                count += 1
                yield named | {"name": "thread_name", "args": {"name": row + (f" #{count}" if count > 1 else "")}}
                yield named | {"name": "thread_sort_index", "args": {"sort_index": thread + count}}
            where = heappop(free)
            heappush(busy, (ends[task], where))
            name, args = told(task)
            at = _us(begins[task])
            span = {"ts": at, "dur": round(_us(ends[task]) - at, 3)}  # both ends rounded alike
            yield {"ph": "X", "pid": process, "tid": where} | span | {"name": name, "args": args}
        thread += count


def _us(seconds: float) -> float:
    """Return ``seconds`` in microseconds, rounded to whole nanoseconds."""
    return round(seconds * 1e9) / 1000
