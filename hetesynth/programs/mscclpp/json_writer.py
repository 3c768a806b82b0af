"""Plan -> JSON, field by field as MSCCL++'s loader reads it.

In: a ``Plan``. Out: bytes. Knows nothing of how the plan was made.
"""

from __future__ import annotations

import json
from typing import Any

from hetesynth.model.plan import (
    CHANNEL_TYPES,
    GpuPlan,
    LocalSlice,
    Plan,
    PlanBlock,
    PlanOperation,
    RemoteSlice,
    Slice,
)

Object = dict[str, Any]


def write_plan_json(plan: Plan) -> bytes:
    """The JSON text of ``plan``, one operation a line: equal plans, equal bytes."""
    values = {
        "name": plan.name,
        "collective": plan.collective,
        "protocol": plan.protocol,
        "inplace": plan.in_place,
        "reuse_resources": plan.reuse_resources,
        "gpus": [_gpu(gpu) for gpu in plan.gpus],
        "num_threads_per_block": plan.threads,
        "use_double_scratch_buffer": plan.double_scratch,
        "buffer_alignment": plan.alignment,
        "min_message_size": plan.min_bytes,
        "max_message_size": plan.max_bytes,
    }
    return (_text(values, 0) + "\n").encode("ascii")


def _gpu(gpu: GpuPlan) -> Object:
    return {
        "id": gpu.rank,
        "input_chunks": gpu.input_chunks,
        "output_chunks": gpu.output_chunks,
        "scratch_chunks": gpu.scratch_chunks,
        "threadblocks": [_block(block) for block in gpu.blocks],
        "channels": [
            {"channel_type": kind, "connected_to": list(gpu.peers(kind))}
            for kind in CHANNEL_TYPES
            if gpu.peers(kind)
        ],
        "remote_buffers": [
            {"rank": b.rank, "type": b.buffer, "access_channel_types": list(b.access)} for b in gpu.remote_buffers
        ],
        "semaphores": [{"init_value": value} for value in gpu.semaphores],
    }


def _block(block: PlanBlock) -> Object:
    return {
        "id": block.id,
        "ops": [_operation(operation) for operation in block.operations],
        "channels": [
            {"channel_type": kind, "channel_ids": list(block.channels(kind))}
            for kind in CHANNEL_TYPES
            if block.channels(kind)
        ],
        "remote_buffer_refs": [
            {"access_channel_type": kind, "remote_buffer_ids": list(block.buffers(kind))}
            for kind in CHANNEL_TYPES
            if block.buffers(kind)
        ],
    }


def _operation(operation: PlanOperation) -> Object:
    values: Object = {"name": operation.op}
    if operation.src:
        values["src_buff"] = [_slice(part) for part in operation.src]
    if operation.dst:
        values["dst_buff"] = [_slice(part) for part in operation.dst]
    if operation.channels:
        values["channel_ids"] = list(operation.channels)
    if operation.channel_type is not None:
        values["channel_type"] = operation.channel_type
    if operation.barrier is not None:
        values["barrier_id"] = operation.barrier
        values["num_threadblocks"] = operation.blocks
    if operation.semaphores:
        values["semaphore_ids"] = list(operation.semaphores)
    if operation.op in ("re", "res", "rre", "rres"):
        values["reduce_op"] = "sum"
    return values


def _slice(part: Slice) -> Object:
    match part:
        case LocalSlice(buffer, index, size):
            return {"type": buffer, "index": index, "size": size}
        case RemoteSlice(buffer_id, index, size):
            return {"buffer_id": buffer_id, "index": index, "size": size}


_SPREAD = frozenset({"gpus", "threadblocks", "ops"})
"""Lists written one entry a line; everything inside an operation stays on its line."""


def _text(value: Object, depth: int) -> str:
    """The object with its keys on lines of their own."""
    pad = " " * (depth + 1)
    lines = []
    for key, entry in value.items():
        if key not in _SPREAD or not entry:
            text = json.dumps(entry)
        elif key == "ops":
            text = "[\n" + ",\n".join(f"{pad} {json.dumps(x)}" for x in entry) + f"\n{pad}]"
        else:
            text = "[\n" + ",\n".join(f"{pad} {_text(x, depth + 2)}" for x in entry) + f"\n{pad}]"
        lines.append(f"{pad}{json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n" + " " * depth + "}"
