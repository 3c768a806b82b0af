"""Plan -> JSON, field by field as MSCCL++'s loader reads it."""

from __future__ import annotations

import json
from typing import Any

from hetesynth.model.plan import CHANNEL_TYPES, GpuPlan, LocalSlice, Plan, PlanBlock, PlanOperation

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
    kinds = [kind for kind in CHANNEL_TYPES if gpu.peers(kind)]
    return {
        "id": gpu.rank,
        "input_chunks": gpu.input_chunks,
        "output_chunks": gpu.output_chunks,
        "scratch_chunks": gpu.scratch_chunks,
        "threadblocks": [_block(block) for block in gpu.blocks],
        "channels": [{"channel_type": kind, "connected_to": gpu.peers(kind)} for kind in kinds],
        "remote_buffers": [
            {"rank": b.rank, "type": b.buffer, "access_channel_types": b.access} for b in gpu.remote_buffers
        ],
        "semaphores": [{"init_value": value} for value in gpu.semaphores],
    }


def _block(block: PlanBlock) -> Object:
    channels = {kind: block.channels(kind) for kind in CHANNEL_TYPES if block.channels(kind)}
    buffers = {kind: block.buffers(kind) for kind in CHANNEL_TYPES if block.buffers(kind)}
    return {
        "id": block.id,
        "ops": [_operation(operation) for operation in block.operations],
        "channels": [{"channel_type": kind, "channel_ids": ids} for kind, ids in channels.items()],
        "remote_buffer_refs": [
            {"access_channel_type": kind, "remote_buffer_ids": ids} for kind, ids in buffers.items()
        ],
    }


def _operation(operation: PlanOperation) -> Object:
    values: Object = {"name": operation.op}
    for key, parts in (("src_buff", operation.src), ("dst_buff", operation.dst)):
        if parts:
            values[key] = [
                {"type": x.buffer, "index": x.index, "size": x.size}
                if isinstance(x, LocalSlice)
                else {"buffer_id": x.buffer_id, "index": x.index, "size": x.size}
                for x in parts
            ]
    if operation.channels:
        values["channel_ids"] = operation.channels
    if operation.channel_type is not None:
        values["channel_type"] = operation.channel_type
    if operation.barrier is not None:
        values["barrier_id"] = operation.barrier
        values["num_threadblocks"] = operation.blocks
    if operation.semaphores:
        values["semaphore_ids"] = operation.semaphores
    if operation.op in ("re", "res", "rre", "rres"):
        values["reduce_op"] = "sum"
    return values


_SPREAD = frozenset({"gpus", "threadblocks", "ops"})
"""Lists written one entry a line; everything inside an operation stays on its line."""


def _text(value: Object, depth: int) -> str:
    """The object with its keys on lines of their own."""
    pad = " " * (depth + 1)
    lines = []
    for key, entry in value.items():
        if key not in _SPREAD or not entry:
            text = json.dumps(entry)
        else:
            of_entry = (json.dumps(x) if key == "ops" else _text(x, depth + 2) for x in entry)
            text = "[\n" + ",\n".join(f"{pad} {x}" for x in of_entry) + f"\n{pad}]"
        lines.append(f"{pad}{json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n" + " " * depth + "}"
