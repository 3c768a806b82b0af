"""Plans of MSCCL++ written by hand: two GPUs that gather, and their parts."""

from __future__ import annotations

from hetesynth.model.plan import (
    ChannelType,
    GpuPlan,
    LocalSlice,
    Plan,
    PlanBlock,
    PlanOp,
    PlanOperation,
    RemoteBuffer,
    RemoteSlice,
    Slice,
)
from hetesynth.model.program import Buffer

NOP = PlanOperation("nop")


def on(op: PlanOp, *channels: int, kind: ChannelType = "memory") -> PlanOperation:
    counted = (LocalSlice("o", 0, 1),) * len(channels or (0,)) if op == "flush" else ()
    return PlanOperation(op, kind, channels or (0,), dst=counted)


def local(buffer: Buffer, index: int, size: int = 1) -> LocalSlice:
    return LocalSlice(buffer, index, size)


def put(src: Slice, index: int, *, to: int = 0, kind: ChannelType = "memory", op: PlanOp = "put") -> PlanOperation:
    return PlanOperation(op, kind, (0,) if kind == "port" else (), (src,), (RemoteSlice(to, index, src.size),))


def copy(src: Slice, dst: Slice) -> PlanOperation:
    return PlanOperation("copy", src=(src,), dst=(dst,))


def add(dst: Slice, *src: Slice) -> PlanOperation:
    return PlanOperation("re", src=src, dst=(dst,))


def barrier(number: int, blocks: int) -> PlanOperation:
    return PlanOperation("barrier", barrier=number, blocks=blocks)


def semaphore(op: PlanOp, *ids: int) -> PlanOperation:
    return PlanOperation(op, semaphores=ids)


def block(number: int, operations: list[PlanOperation], kind: ChannelType = "memory") -> PlanBlock:
    if kind == "memory":
        return PlanBlock(number, tuple(operations), memory_channels=(0,), memory_buffers=(0, 1))
    return PlanBlock(number, tuple(operations), port_channels=(0,), port_buffers=(0, 1))


def gpu(
    rank: int, *blocks: PlanBlock, i: int = 1, o: int = 2, s: int = 2, kind: ChannelType = "memory"
) -> GpuPlan:
    peer = 1 - rank
    return GpuPlan(
        rank, i, o, s, blocks,
        memory_peers=(peer,) if kind == "memory" else (), port_peers=(peer,) if kind == "port" else (),
        remote_buffers=(RemoteBuffer(peer, "o", (kind,)), RemoteBuffer(peer, "s", (kind,))),
    )  # fmt: skip


def plan(*gpus: GpuPlan, name: str = "allgather", in_place: bool = False) -> Plan:
    return Plan("p", name, "Simple", in_place, gpus)


def exchange(rank: int, kind: ChannelType = "memory") -> list[PlanOperation]:
    """An allgather's part of one of two ranks."""
    end = [on("flush", kind=kind)] if kind == "port" else []
    return [
        on("rlxsignal", kind=kind), on("rlxwait", kind=kind), NOP,
        put(local("i", 0), rank, kind=kind), copy(local("i", 0), local("o", rank)), NOP,
        on("signal", kind=kind), on("wait", kind=kind), *end,
    ]  # fmt: skip


def pair(
    first: list[PlanOperation], kind: ChannelType = "memory", second: list[PlanOperation] | None = None
) -> Plan:
    other = exchange(1, kind) if second is None else second
    return plan(gpu(0, block(0, first, kind), kind=kind), gpu(1, block(0, other, kind), kind=kind))
