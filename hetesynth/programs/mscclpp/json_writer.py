"""Plan -> JSON, field by field as MSCCL++'s loader reads it."""

import json
from typing import Any

from hetesynth.model.plan import CHANNEL_TYPES, LocalSlice, Plan, PlanOperation, Slice


def write_plan_json(plan: Plan) -> bytes:
    """The JSON text of ``plan``, one operation a line: equal plans, equal bytes."""
    gpus = []
    for gpu in plan.gpus:
        blocks = []
        for block in gpu.blocks:
            channels = [(kind, block.channels(kind)) for kind in CHANNEL_TYPES]
            buffers = [(kind, block.buffers(kind)) for kind in CHANNEL_TYPES]
            blocks.append(
                {
                    "id": block.id,
                    "ops": [_operation(x) for x in block.operations],
                    "channels": [{"channel_type": kind, "channel_ids": ids} for kind, ids in channels if ids],
                    "remote_buffer_refs": [
                        {"access_channel_type": kind, "remote_buffer_ids": ids} for kind, ids in buffers if ids
                    ],
                }
            )
        peers = [(kind, gpu.peers(kind)) for kind in CHANNEL_TYPES]
        gpus.append(
            {
                "id": gpu.rank,
                "input_chunks": gpu.input_chunks,
                "output_chunks": gpu.output_chunks,
                "scratch_chunks": gpu.scratch_chunks,
                "threadblocks": blocks,
                "channels": [{"channel_type": kind, "connected_to": ranks} for kind, ranks in peers if ranks],
                "remote_buffers": [
                    {"rank": b.rank, "type": b.buffer, "access_channel_types": b.access}
                    for b in gpu.remote_buffers
                ],
                "semaphores": [{"init_value": value} for value in gpu.semaphores],
            }
        )
    values = {
        "name": plan.name,
        "collective": plan.collective,
        "protocol": plan.protocol,
        "inplace": plan.in_place,
        "reuse_resources": plan.reuse_resources,
        "gpus": gpus,
        "num_threads_per_block": plan.threads,
        "use_double_scratch_buffer": plan.double_scratch,
        "buffer_alignment": plan.alignment,
        "min_message_size": plan.min_bytes,
        "max_message_size": plan.max_bytes,
    }
    return (_text(values, 0) + "\n").encode("ascii")


def _operation(x: PlanOperation) -> dict[str, Any]:
    """Return the fields of an operation in JSON, without empty ones."""
    values = {
        "name": x.op,
        "src_buff": [_slice(part) for part in x.src],
        "dst_buff": [_slice(part) for part in x.dst],
        "channel_ids": x.channels,
        "channel_type": x.channel_type,
        "barrier_id": x.barrier,
        "num_threadblocks": x.blocks,
        "semaphore_ids": x.semaphores,
        "reduce_op": "sum" if x.op in ("re", "res", "rre", "rres") else None,
    }
    return {key: value for key, value in values.items() if value not in (None, (), [])}


def _slice(part: Slice) -> dict[str, Any]:
    where = {"type": part.buffer} if isinstance(part, LocalSlice) else {"buffer_id": part.buffer_id}
    return {**where, "index": part.index, "size": part.size}


def _text(values: dict[str, Any], depth: int) -> str:
    """Return the object as text, with its keys on lines of their own, and the entries of some lists too."""
    pad = " " * (depth + 1)
    lines = []
    for key, entry in values.items():
        text = json.dumps(entry) if key not in ("gpus", "threadblocks", "ops") or not entry else ""
        if not text:
            of_entry = (json.dumps(x) if key == "ops" else _text(x, depth + 2) for x in entry)
            text = "[\n" + ",\n".join(f"{pad} {x}" for x in of_entry) + f"\n{pad}]"
        lines.append(f"{pad}{json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n" + " " * depth + "}"
