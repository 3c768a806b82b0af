"""A program as the interpreter reads it: one table of little-endian 32-bit words for each rank, and back.

Header (16 words): magic, version, words in all, ranks, rank, thread blocks, steps, connections in and out, the
most of these on any rank, chunks of input, output and scratch, chunks of a block of the collective, root or -1.
By thread block: id, channel, first step, steps, connection in, connection out (-1: none). By connection, those
in first: peer, number of the same connection among those of the peer. By step: op (+ 256 where others wait for
it), buffer and offset it reads, buffer and offset it writes (0 input, 1 output, 2 scratch, -1 none), chunks,
thread block (by position) and step that it waits for (-1: none). ``interpreter.h`` has the same structures.
"""

import struct
from collections.abc import Mapping, Sequence

from hetesynth.errors import HetesynthError
from hetesynth.model.program import (
    READS,
    RECEIVES,
    SENDS,
    WRITES,
    Buffer,
    BufferSlice,
    GpuProgram,
    Instruction,
    Op,
    ThreadBlock,
)

MAGIC, VERSION, HEADER_WORDS, AWAITED = 0x54445348, 1, 16, 256
OPS: tuple[Op, ...] = ("nop", "s", "r", "cpy", "re", "rcs", "rrs", "rrc", "rrcs")
BUFFERS: tuple[Buffer, ...] = ("i", "o", "s")
_End = tuple[int, int, int]
"""(rank, peer, channel)."""


def pack(parts: Sequence[GpuProgram], block_chunks: int, root: int | None) -> list[bytes]:
    """Return the table of each rank of ``parts``, in order. HetesynthError HS892: no interpreter plays it."""
    ins, outs = _ends(parts, "recv"), _ends(parts, "send")
    for rank, peer, channel in outs:
        if (peer, rank, channel) not in ins:
            raise _refused(f"rank {rank} sends on channel {channel} to rank {peer}, which does not receive there")
    for rank, peer, channel in ins:
        if (peer, rank, channel) not in outs:
            raise _refused(
                f"rank {rank} receives on channel {channel} from rank {peer}, which does not send there"
            )
    most = [max((1 + k for k in ends.values()), default=0) for ends in (ins, outs)]
    tables = []
    for gpu in parts:
        fault = first_fault(gpu, (gpu.input_chunks, gpu.output_chunks, gpu.scratch_chunks))
        if fault:
            raise _refused(f"rank {gpu.rank} {fault}")
        place = {block.id: k for k, block in enumerate(gpu.thread_blocks)}
        blocks: list[int] = []
        steps: list[int] = []
        for block in gpu.thread_blocks:
            own = (
                ins.get((gpu.rank, _peer(block.recv_peer), block.channel), -1),
                outs.get((gpu.rank, _peer(block.send_peer), block.channel), -1),
            )
            blocks += [block.id, block.channel, len(steps) // 8, len(block.instructions), *own]
            for x in block.instructions:
                awaited = (place[x.depends[0]], x.depends[1]) if x.depends else (-1, -1)
                op = OPS.index(x.op) + AWAITED * x.has_dependents
                steps += [op, *_words(x.src), *_words(x.dst), x.count, *awaited]
        mine = [sorted((k, e) for e, k in ends.items() if e[0] == gpu.rank) for ends in (ins, outs)]
        peers = [
            w
            for ends, theirs in zip(mine, (outs, ins), strict=True)
            for _, (rank, peer, channel) in ends
            for w in (peer, theirs[peer, rank, channel])
        ]
        counts = [len(gpu.thread_blocks), len(steps) // 8, len(mine[0]), len(mine[1]), *most]
        chunks = [gpu.input_chunks, gpu.output_chunks, gpu.scratch_chunks, block_chunks]
        body = [*blocks, *peers, *steps]
        head = [MAGIC, VERSION, HEADER_WORDS + len(body), len(parts), gpu.rank, *counts, *chunks, _peer(root)]
        tables.append(struct.pack(f"<{len(head) + len(body)}i", *head, *body))
    return tables


def unpack(table: bytes) -> GpuProgram:
    """Return the program of the rank that ``table`` is of."""
    words = struct.unpack(f"<{len(table) // 4}i", table)
    if len(words) < HEADER_WORDS or words[:3] != (MAGIC, VERSION, len(words)):
        raise _refused(f"this is no table of version {VERSION}")
    rank, blocks, _, ins, outs = words[4:9]
    connections = HEADER_WORDS + 6 * blocks
    first = connections + 2 * (ins + outs)
    rows = [words[HEADER_WORDS + 6 * k :][:6] for k in range(blocks)]

    def peer(connection: int) -> int | None:
        return None if connection < 0 else words[connections + 2 * connection]

    def step(k: int) -> Instruction:
        op, src, src_at, dst, dst_at, count, block, awaited = words[first + 8 * k :][:8]
        source, target = (
            None if b < 0 else BufferSlice(BUFFERS[b], at) for b, at in ((src, src_at), (dst, dst_at))
        )
        depends = None if block < 0 else (rows[block][0], awaited)
        return Instruction(OPS[op % AWAITED], source, target, count, depends, op >= AWAITED)

    thread_blocks = [
        ThreadBlock(b, peer(out + ins if out >= 0 else -1), peer(at), channel, tuple(map(step, range(s, s + n))))
        for b, channel, s, n, at, out in rows
    ]
    return GpuProgram(rank, words[11], words[12], words[13], tuple(thread_blocks))


def first_fault(gpu: GpuProgram, chunks: Sequence[int]) -> str | None:
    """Return the first error that the unchecking interpreter would make with buffers of ``chunks``, or None."""
    steps = {block.id: len(block.instructions) for block in gpu.thread_blocks}
    if len(steps) != len(gpu.thread_blocks):
        return "has two thread blocks of one number"
    for block in gpu.thread_blocks:
        for k, x in enumerate(block.instructions):
            fault = _fault(x, block, steps, chunks)
            if fault:
                return f"thread block {block.id} step {k} (`{x.op}`): {fault}"
    return None


def _fault(x: Instruction, block: ThreadBlock, steps: Mapping[int, int], chunks: Sequence[int]) -> str | None:
    if x.depends and not 0 <= x.depends[1] < steps.get(x.depends[0], 0):
        return f"there is no step {x.depends[1]} of thread block {x.depends[0]}"
    if (x.op in SENDS and block.send_peer is None) or (x.op in RECEIVES and block.recv_peer is None):
        return "there is no rank to exchange with"
    for part, used in ((x.src, x.op in READS), (x.dst, x.op in WRITES)):
        if used and part is None:
            return "it names no buffer"
        if used and part is not None:
            size = chunks[BUFFERS.index(part.buffer)]
            if part.offset < 0 or x.count < 1 or part.offset + x.count > size:
                return f"{part.buffer}[{part.offset}] and {x.count} chunks: the buffer has {size} chunks"
    return None


def _ends(parts: Sequence[GpuProgram], side: str) -> dict[_End, int]:
    """Return the connections into, or out of, each rank, numbered for each rank."""
    ends: dict[_End, int] = {}
    for gpu in parts:
        count = 0
        for block in gpu.thread_blocks:
            peer = block.send_peer if side == "send" else block.recv_peer
            if peer is None:
                continue
            end = (gpu.rank, peer, block.channel)
            if peer == gpu.rank or not 0 <= peer < len(parts) or end in ends:
                raise _refused(
                    f"rank {gpu.rank} thread block {block.id}: peer {peer} on channel {block.channel} is "
                    "no other rank, or another thread block's"
                )
            ends[end] = count
            count += 1
    return ends


def _words(part: BufferSlice | None) -> tuple[int, int]:
    return (-1, 0) if part is None else (BUFFERS.index(part.buffer), part.offset)


def _peer(rank: int | None) -> int:
    return -1 if rank is None else rank


def _refused(message: str) -> HetesynthError:
    way_out = "hetesynth verify FILE --target nccl-device says what is wrong with it"
    return HetesynthError(message, code="HS892", help=way_out)
