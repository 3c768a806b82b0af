"""Scratch without holes after fusion, and sends and receives that repeat each other's places again.

In: the operations of all ranks, some fused. Out: the same with scratch renumbered, and the scratch of each rank
in chunks. The cells that operations read and write keep their names: only what is written in the file changes.

Plain sends and the plain receives they meet repeat the same four fields. Where one side is fused, the other names
the place the fused one really uses.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from hetesynth.model.program import BufferSlice
from hetesynth.programs.layout import chunk_at
from hetesynth.programs.msccl.placement import Operation

Operations = Sequence[tuple[Operation, ...]]
_Offsets = Mapping[int, int]


def compacted(ranks: Operations) -> tuple[list[tuple[Operation, ...]], tuple[int, ...]]:
    """The operations of every rank with dense scratch, and its size by rank."""
    offsets = [_offsets(operations) for operations in ranks]
    left: dict[int, BufferSlice] = {}
    lands: dict[int, BufferSlice] = {}
    for rank, operations in enumerate(ranks):
        for op in operations:
            if op.message is None or op.op in ("re", "cpy"):
                continue
            if op.op == "s":
                left[op.message.index] = _moved(op.src, offsets[rank])
                continue
            lands[op.message.index] = _moved(op.dst, offsets[rank])
            if op.forwards is not None:
                left[op.forwards.index] = _moved(op.src if op.op == "rrs" else op.dst, offsets[rank])
    done = [
        tuple(_rewritten(op, offsets[rank], left, lands) for op in operations)
        for rank, operations in enumerate(ranks)
    ]
    return done, tuple(len(of) for of in offsets)


def _rewritten(
    op: Operation, offsets: _Offsets, left: Mapping[int, BufferSlice], lands: Mapping[int, BufferSlice]
) -> Operation:
    if op.message is not None and op.op == "s":
        return replace(op, src=_moved(op.src, offsets), dst=lands[op.message.index])
    if op.message is not None and op.op == "r":
        return replace(op, src=left[op.message.index], dst=_moved(op.dst, offsets))
    return replace(op, src=_moved(op.src, offsets), dst=_moved(op.dst, offsets))


def _offsets(operations: Sequence[Operation]) -> _Offsets:
    """Old offset -> new offset of every scratch chunk in use; neighbours stay neighbours."""
    used = sorted({offset for op in operations for place in _own(op) for offset in _chunks(place, op.count)})
    return {old: new for new, old in enumerate(used)}


def _own(op: Operation) -> Iterator[BufferSlice]:
    """The places of this rank that the operation names."""
    if op.op != "r":
        yield op.src
    if op.op != "s":
        yield op.dst


def _chunks(place: BufferSlice, count: int) -> range:
    return range(place.offset, place.offset + count) if place.buffer == "s" else range(0)


def _moved(place: BufferSlice, offsets: _Offsets) -> BufferSlice:
    return place if place.buffer != "s" else chunk_at("s", offsets[place.offset])
