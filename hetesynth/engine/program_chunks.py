"""Which chunks of the collective each instruction of a program moves between GPUs.

In: a program. Out: chunks by place: indices of GPU, thread block and step, from ``program.gpus`` on. Empty where
the program cannot be followed, such as one whose root nobody knows: what is drawn is then not told by chunk.
"""

from __future__ import annotations

import re
from collections import defaultdict

from hetesynth.errors import HetesynthError
from hetesynth.model.program import RECEIVES, SENDS, Program
from hetesynth.model.target import PORTABLE

_PLACE = re.compile(r"gpu (\d+) thread block (\d+) step (\d+)")

Place = tuple[int, int, int]
Connection = tuple[int, int, int]


def chunks_moved(program: Program) -> dict[Place, tuple[int, ...]]:
    """The chunks by (GPU, thread block, step); a receive moves what the send it meets does."""
    sent = _sent(program)
    sends: dict[Connection, list[tuple[int, ...]]] = defaultdict(list)
    takes: dict[Connection, list[Place]] = defaultdict(list)
    by_place: dict[Place, tuple[int, ...]] = {}
    for g, gpu in enumerate(program.gpus):
        for b, block in enumerate(gpu.thread_blocks):
            for step, x in enumerate(block.instructions):
                moved = sent.get((gpu.rank, block.id, step), ())
                if x.op in SENDS and block.send_peer is not None:
                    by_place[g, b, step] = moved
                    sends[gpu.rank, block.send_peer, block.channel].append(moved)
                if x.op in RECEIVES and block.recv_peer is not None:
                    takes[block.recv_peer, gpu.rank, block.channel].append((g, b, step))
    for connection, places in takes.items():
        for place, moved in zip(places, sends[connection], strict=False):
            by_place[place] = tuple(dict.fromkeys((*moved, *by_place.get(place, ()))))
    return by_place


def _sent(program: Program) -> dict[Place, tuple[int, ...]]:
    """What each send carries, by rank, number of the thread block, and step."""
    from hetesynth.programs.lifting.buffers import Buffers, shape
    from hetesynth.programs.lifting.dataflow import flow_of
    from hetesynth.search.collectives import collective

    by_place: dict[Place, list[int]] = defaultdict(list)
    try:
        size = shape(program)
        goal = collective(program.collective, program.ranks, size.chunks_per_rank, program.root)
        buffers = Buffers(goal, size.pieces, in_place=program.in_place and not program.out_of_place)
        flow = flow_of(program, buffers, PORTABLE.slots(program.protocol))
    except (HetesynthError, ValueError):
        return {}
    for arrival in flow.arrivals:
        place = _PLACE.fullmatch(arrival.place)
        if place is not None:
            by_place[int(place[1]), int(place[2]), int(place[3])].append(arrival.value.chunk)
    return {place: tuple(dict.fromkeys(chunks)) for place, chunks in by_place.items()}
