"""A run as a trace that Perfetto and chrome://tracing open: what each resource and each thread block did when.

In: a report. Out: JSON in Chrome's trace event format (complete events ``X``, metadata ``M``, flows ``s`` and
``f``; microseconds). A process is the schedule, the resources or a GPU; a thread is a resource or a thread block.
Transfers share a resource, and events of one thread must not overlap, so a resource gets as many threads as it
carries transfers at once. Of a program that loops often the first loops are there. The same report gives the
same bytes.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from heapq import heappop, heappush
from typing import Any

from hetesynth.model.timeline import Timeline
from hetesynth.report.contents import ProgramRun, Report, ScheduleRun

MAX_EVENTS = 500_000
OPERATIONS = {
    "s": "send", "r": "receive", "cpy": "copy", "re": "reduce", "nop": "nop", "rcs": "receive, copy, send",
    "rrs": "receive, reduce, send", "rrc": "receive, reduce, copy", "rrcs": "receive, reduce, copy, send",
}  # fmt: skip
RECEIVES = frozenset({"r", "rcs", "rrs", "rrc", "rrcs"})
_RESOURCES, _PROGRAM_RESOURCES, _GPUS = 1, 2, 10  # process ids

Event = dict[str, Any]


def chrome_trace(report: Report) -> bytes:
    """The trace of ``report``; events past ``MAX_EVENTS`` are left out, and ``otherData`` says how many."""
    events: list[Event] = []
    left_out = 0
    for event in _events(report):
        if len(events) < MAX_EVENTS:
            events.append(event)
        else:
            left_out += 1
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
    return round(seconds * 1e6, 4)


def _transfer_names(run: ScheduleRun) -> list[str]:
    """Of every task of the schedule's timeline that sends: the first are its transfers."""
    arcs = run.problem.arcs
    return [f"chunk {t.chunk}: {arcs[t.link].src}->{arcs[t.link].dst}" for t in run.schedule.transfers]


def _task_names(run: ProgramRun) -> list[str]:
    names = []
    for g, b, s in zip(run.gpu.tolist(), run.block.tolist(), run.step.tolist(), strict=True):
        gpu = run.program.gpus[g]
        block = gpu.thread_blocks[b]
        names.append(f"{gpu.rank}->{block.send_peer}, block {block.id} step {s}")
    return names


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
                "dur": max(0.0, round(_us(sent[task]) - _us(begin[task]), 4)), "name": names[task % len(names)],
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
    """Instructions by thread block, from the end of the one before to their own, and the messages between."""
    for gpu in run.program.gpus:
        process = _GPUS + gpu.rank
        yield from _named(process, f"GPU {gpu.rank} ({report.topology.vertices[gpu.rank].name})", process)
        for block in gpu.thread_blocks:
            peers = f"from {block.recv_peer}" if block.recv_peer is not None else ""
            peers += f"{' ' if peers else ''}to {block.send_peer}" if block.send_peer is not None else ""
            yield from _thread(process, block.id, f"block {block.id}: {peers or 'local'}, channel {block.channel}")
    since, ready, end = run.since().tolist(), run.timeline.ready.tolist(), run.timeline.end.tolist()
    where = list(zip(run.gpu.tolist(), run.block.tolist(), run.step.tolist(), strict=True))
    for task in range(run.tasks):
        g, b, s = where[task % len(where)]
        gpu = run.program.gpus[g]
        block = gpu.thread_blocks[b]
        x = block.instructions[s]
        yield {
            "ph": "X", "pid": _GPUS + gpu.rank, "tid": block.id, "ts": _us(since[task]),
            "dur": max(0.0, round(_us(end[task]) - _us(since[task]), 4)), "name": OPERATIONS[x.op],
            "args": {
                "step": s, "chunks": x.count, "loop": task // len(where),
                "from": f"{x.src.buffer}[{x.src.offset}]" if x.src else None,
                "to": f"{x.dst.buffer}[{x.dst.offset}]" if x.dst else None,
                "waited_us": _us(max(0.0, ready[task] - since[task])),
            },
        }  # fmt: skip
    yield from _flows(run, where)


def _flows(run: ProgramRun, where: list[tuple[int, int, int]]) -> Iterator[Event]:
    """An arrow for each message, from the end of its send to the end of its receive."""
    graph, end = run.timeline.graph, run.timeline.end.tolist()
    waits, first = graph.waits.tolist(), graph.waits_start.tolist()
    number = 0
    for task in range(run.tasks):
        g, b, s = where[task % len(where)]
        gpu = run.program.gpus[g]
        block = gpu.thread_blocks[b]
        if block.recv_peer is None or block.instructions[s].op not in RECEIVES:
            continue
        for before in waits[first[task] : first[task + 1]]:
            other, sender, _ = where[before % len(where)]
            sending = run.program.gpus[other]
            source = sending.thread_blocks[sender]
            met = sending.rank == block.recv_peer and source.send_peer == gpu.rank
            if not met or source.channel != block.channel:
                continue
            common = {"cat": "message", "name": "message", "id": number}
            yield {"ph": "s", "pid": _GPUS + sending.rank, "tid": source.id, "ts": _us(end[before]), **common}
            yield {"ph": "f", "bp": "e", "pid": _GPUS + gpu.rank, "tid": block.id, "ts": _us(end[task]), **common}
            number += 1
            break
