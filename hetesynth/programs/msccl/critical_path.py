"""The critical path of a program: how long it takes when every chunk takes one unit everywhere.

In: the operations of all ranks as a graph (``HappensBefore``). Out: a number. It compares two
programs for one schedule; real links differ, so it is no prediction.

An instruction on n chunks takes n units after all it waits for. A receive may start one unit after its send did
and ends at least one unit after it. A send waits until the message ``slots`` before it was received.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Sequence

from hetesynth.programs.msccl.dependences import HappensBefore, RankBlocks

Connection = tuple[int, int, int]  # (source, destination, channel)


def critical_path(graph: HappensBefore, ranks: Sequence[RankBlocks], slots: int) -> int:
    """The length in chunk times; 0 for a program without operations."""
    operations = [op for rank in ranks for op in rank.operations]
    begun, ended = array("q", [0]) * len(operations), array("q", [0]) * len(operations)
    received: dict[Connection, list[int]] = defaultdict(list)  # when each message was received
    sent: dict[Connection, int] = defaultdict(int)
    for g in graph.total_order:
        op, before, sender = operations[g], graph.previous[g], graph.sender[g]
        start = ended[before] if before >= 0 else 0
        for p in graph.waits[g]:
            start = max(start, ended[p])
        if sender >= 0:
            start = max(start, begun[sender] + 1)
        out = op.message if op.op == "s" else op.forwards
        if out is not None:
            connection = (out.src, out.dst, out.channel)
            if sent[connection] >= slots:
                start = max(start, received[connection][sent[connection] - slots])
            sent[connection] += 1
        begun[g] = start
        ended[g] = start + op.count
        if sender >= 0 and op.message is not None:
            ended[g] = max(ended[g], ended[sender] + 1)
            received[op.message.src, op.message.dst, op.message.channel].append(ended[g])
    return max(ended, default=0)
