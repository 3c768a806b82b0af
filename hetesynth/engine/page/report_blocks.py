"""What the thread blocks of a program or plan did, as a report shows it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from hetesynth.engine.predictors import PlanPredictor, ProgramPredictor
from hetesynth.errors import HetesynthError
from hetesynth.model.program import RECEIVES, SENDS, BufferSlice, Program, ThreadBlock
from hetesynth.model.topology import Rank
from hetesynth.report.contents import BlockRow, ProgramRun, StepRow
from hetesynth.simulate.plan import Cell, PlanTask

_PLACE = re.compile(r"gpu (\d+) thread block (\d+) step (\d+)")

Place = tuple[int, int, int]
Connection = tuple[int, int, int]


def chunks_moved(program: Program) -> dict[Place, tuple[int, ...]]:
    """The chunks by (GPU, thread block, step); a receive moves what the send it meets does."""
    from hetesynth.programs.lifting.dataflow import flow_of, shape
    from hetesynth.search.collectives import collective

    sent: dict[Place, dict[int, None]] = defaultdict(dict)  # by rank, number of the thread block, and step
    try:
        size = shape(program)
        goal = collective(program.collective, program.ranks, size.chunks_per_rank, program.root)
        for arrival in flow_of(program, goal, size.pieces).arrivals:
            place = _PLACE.fullmatch(arrival.place)
            if place is not None:
                sent[int(place[1]), int(place[2]), int(place[3])][arrival.value.chunk] = None
    except (HetesynthError, ValueError):
        pass
    sends: dict[Connection, list[tuple[int, ...]]] = defaultdict(list)
    takes: dict[Connection, list[Place]] = defaultdict(list)
    by_place: dict[Place, tuple[int, ...]] = {}
    for g, gpu in enumerate(program.gpus):
        for b, block in enumerate(gpu.thread_blocks):
            for step, x in enumerate(block.instructions):
                moved = tuple(sent.get((gpu.rank, block.id, step), ()))
                if x.op in SENDS and block.send_peer is not None:
                    by_place[g, b, step] = moved
                    sends[gpu.rank, block.send_peer, block.channel].append(moved)
                if x.op in RECEIVES and block.recv_peer is not None:
                    takes[block.recv_peer, gpu.rank, block.channel].append((g, b, step))
    for connection, places in takes.items():
        for where, moved in zip(places, sends[connection], strict=False):
            by_place[where] = tuple(dict.fromkeys((*moved, *by_place.get(where, ()))))
    return by_place


BUFFERS = {"i": "input", "o": "output", "s": "scratch"}


def program_run(predictor: ProgramPredictor, size: int) -> ProgramRun:
    """The instructions of a program in MSCCL XML for a buffer of ``size`` bytes."""
    program, tasks, timeline = predictor.program, predictor.tasks(size), predictor.timeline(size)
    number: dict[tuple[int, int], int] = {}
    rows: list[BlockRow] = []
    for g, gpu in enumerate(program.gpus):
        for b, block in enumerate(gpu.thread_blocks):
            number[g, b] = len(rows)
            peers = _peers(block).replace("GPU ", "") or "local"
            label = f"{peers} ch {block.channel}" if program.channels > 1 else peers
            rows.append(BlockRow(gpu.rank, block.id, label))
    moved = chunks_moved(program)
    steps = []
    for p in tasks.places:
        block = program.gpus[p.gpu].thread_blocks[p.block]
        x = block.instructions[p.step]
        chunks = moved.get((p.gpu, p.block, p.step), ())
        src, dst = _slice(x.src), _slice(x.dst)
        steps.append(StepRow(number[p.gpu, p.block], p.step, x.op, _peers(block), src, dst, chunks))
    since = np.zeros(timeline.graph.tasks)  # when the thread block of each task got to it
    ends: dict[int, float] = {}
    for task, end in enumerate(timeline.end.tolist()):
        number_of_block = steps[task % len(steps)].block
        since[task] = ends.get(number_of_block, 0.0)
        ends[number_of_block] = end
    return ProgramRun(
        blocks=tuple(rows),
        steps=tuple(steps),
        timeline=timeline,
        since=since,
        simulated=tasks.simulated,
        loops=tasks.loops,
    )


def _peers(block: ThreadBlock) -> str:
    said = (("from", block.recv_peer), ("to", block.send_peer))
    return " ".join(f"{word} GPU {peer}" for word, peer in said if peer is not None)


def _slice(place: BufferSlice | None) -> str:
    return "" if place is None else f"{BUFFERS[place.buffer]}[{place.offset}]"


# -- MSCCL++


def plan_run(predictor: PlanPredictor, size: int) -> ProgramRun:
    """The operations of a plan for a buffer of ``size`` bytes; their chunks are not followed."""
    plan, timeline = predictor.plan, predictor.timeline(size)
    number: dict[tuple[int, int], int] = {}
    rows: list[BlockRow] = []
    for g, gpu in enumerate(plan.gpus):
        for b, block in enumerate(gpu.blocks):
            number[g, b] = len(rows)
            near = [gpu.memory_peers[c] for c in block.memory_channels]
            far = [gpu.port_peers[c] for c in block.port_channels]
            said = [f"{kind} {_ranges(peers)}" for kind, peers in (("memory", near), ("port", far)) if peers]
            rows.append(BlockRow(gpu.rank, block.id, ", ".join(said) or "local"))
    places = predictor.tasks.places
    steps = []
    for p in places:
        op = plan.gpus[p.gpu].blocks[p.block].operations[p.step].op
        whom = ""
        if p.src is not None and p.dst is not None and p.src[0] != p.dst[0]:
            whom = f"to GPU {p.dst[0]}" if p.src[0] == p.gpu else f"from GPU {p.src[0]}"
        if p.peers:  # that it signals or waits for
            whom = f"{'from' if op in ('wait', 'rlxwait') else 'to'} GPU {_ranges(p.peers)}"
        src, dst = _cell(p.src, p), _cell(p.dst, p)
        steps.append(StepRow(number[p.gpu, p.block], p.step, op, whom, src, dst, ()))
    end = timeline.end
    since = np.asarray([max((end[i] for i in p.after), default=0.0) for p in places], dtype=np.float64)
    return ProgramRun(tuple(rows), tuple(steps), timeline, since)


def _ranges(ranks: Iterable[Rank]) -> str:
    """``1-3, 7``."""
    runs: list[list[Rank]] = []
    for rank in sorted(set(ranks)):
        if runs and runs[-1][1] == rank - 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def _cell(cell: Cell | None, place: PlanTask) -> str:
    if cell is None:
        return ""
    rank, buffer, index = cell
    span = f"{index}" if place.count == 1 else f"{index}..{index + place.count - 1}"
    return f"{BUFFERS[buffer]}[{span}]" + ("" if rank == place.gpu else " there")
