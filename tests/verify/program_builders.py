"""Small programs written out by hand, and a writer of MSCCL XML, for the tests of the second judge.

Nothing here comes from the emitter: what judges and what is judged must not share code.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from hetesynth.errors import HetesynthError
from hetesynth.execute.inprocess import run_in_process
from hetesynth.execute.job import RunOptions, job_of
from hetesynth.model.program import (
    Buffer,
    BufferSlice,
    GpuProgram,
    Instruction,
    Op,
    Program,
    Protocol,
    ThreadBlock,
)

Step = tuple[Op, str, str]


def part(text: str) -> BufferSlice:
    """``o3`` is chunk 3 of the output buffer."""
    buffer: dict[str, Buffer] = {"i": "i", "o": "o", "s": "s"}
    return BufferSlice(buffer[text[0]], int(text[1:]))


def step(
    op: Op, src: str, dst: str, count: int = 1, on: tuple[int, int] | None = None, flag: bool = False
) -> Instruction:
    """``flag``: hasdep."""
    return Instruction(op, part(src), part(dst), count, on, flag)


def nop(on: tuple[int, int]) -> Instruction:
    return Instruction("nop", None, None, 0, on, False)


def block(number: int, send: int | None, recv: int | None, *steps: Instruction, channel: int = 0) -> ThreadBlock:
    return ThreadBlock(number, send, recv, channel, steps)


def program(
    collective: str, chunks: int, gpus: list[GpuProgram], *, in_place: bool = False, both: bool = False,
    root: int | None = None, protocol: Protocol = "Simple", channels: int = 1,
) -> Program:  # fmt: skip
    return Program(
        name=collective, collective=collective, ranks=len(gpus), protocol=protocol, channels=channels,  # type: ignore[arg-type]
        chunks_per_loop=chunks, in_place=in_place or both, out_of_place=both or not in_place, min_bytes=0,
        max_bytes=0, root=root, gpus=tuple(gpus),
    )  # fmt: skip


def ring_allgather(n: int, in_place: bool) -> Program:
    """Block 0 sends to the right, block 1 receives from the left, block 2 copies the own chunk (out of place)."""
    gpus = []
    for r in range(n):
        right, left = (r + 1) % n, (r - 1) % n
        own = f"o{r}" if in_place else "i0"
        sends = [step("s", own, f"o{r}")]
        sends += [step("s", f"o{(r - t) % n}", f"o{(r - t) % n}", on=(1, t - 1)) for t in range(1, n - 1)]
        received = [(left - t) % n for t in range(n - 1)]
        gets = [
            step("r", "i0" if t == 0 and not in_place else f"o{k}", f"o{k}", flag=t < n - 2)
            for t, k in enumerate(received)
        ]
        blocks = [block(0, right, None, *sends), block(1, None, left, *gets)]
        if not in_place:
            blocks.append(block(2, None, None, step("cpy", "i0", f"o{r}")))
        gpus.append(GpuProgram(r, 0 if in_place else 1, n, 0, tuple(blocks)))
    return program("allgather", n, gpus, in_place=in_place)


def direct_allreduce(n: int, in_place: bool) -> Program:
    """Chunk k is summed at rank k: every other rank sends it into scratch there and gets the sum back."""
    out = "i" if in_place else "o"
    gpus = []
    for r in range(n):
        peers = [q for q in range(n) if q != r]
        last = 2 * len(peers)
        first = 0 if in_place else 1
        blocks = []
        for k, q in enumerate(peers):
            there = r if r < q else r - 1
            here = k
            ready = (last, first + len(peers) - 1)
            away = [step("s", f"i{q}", f"s{there}"), step("s", f"{out}{r}", f"{out}{r}", on=ready)]
            back = [step("r", f"i{r}", f"s{here}", flag=True), step("r", f"{out}{q}", f"{out}{q}")]
            blocks += [block(2 * k, q, None, *away), block(2 * k + 1, None, q, *back)]
        sums = [] if in_place else [step("cpy", f"i{r}", f"o{r}")]
        sums += [
            step("re", f"s{k}", f"{out}{r}", on=(2 * k + 1, 0), flag=k == len(peers) - 1)
            for k in range(len(peers))
        ]
        blocks.append(block(last, None, None, *sums))
        gpus.append(GpuProgram(r, n, 0 if in_place else n, n - 1, tuple(blocks)))
    return program("allreduce", n, gpus, in_place=in_place)


def direct_alltoall(n: int) -> Program:
    """One thread block per peer; the own block is copied."""
    gpus = []
    for r in range(n):
        peers = [q for q in range(n) if q != r]
        blocks = [
            block(k, q, q, step("s", f"i{q}", f"o{r}"), step("r", f"i{r}", f"o{q}")) for k, q in enumerate(peers)
        ]
        blocks.append(block(len(peers), None, None, step("cpy", f"i{r}", f"o{r}")))
        gpus.append(GpuProgram(r, n, n, 0, tuple(blocks)))
    return program("alltoall", n, gpus)


def chain_reducescatter(n: int, in_place: bool) -> Program:
    """Chunk k walks the ring to rank k and grows by one contribution at each rank (fused receives)."""
    gpus = []
    for r in range(n):
        steps = [step("s", f"i{(r - 1) % n}", f"i{(r - 1) % n}")]
        steps += [step("rrs", f"i{(r - 1 - t) % n}", f"i{(r - 1 - t) % n}") for t in range(1, n - 1)]
        steps.append(step("rrc", f"i{r}", "o0"))
        gpus.append(GpuProgram(r, n, 1, 0, (block(0, (r + 1) % n, (r - 1) % n, *steps),)))
    return program("reducescatter", n, gpus, in_place=in_place)


def chain_broadcast(n: int, root: int | None = 0) -> Program:
    gpus = []
    for r in range(n):
        if r == 0:
            blocks = [block(0, 1, None, step("s", "i0", "o0")), block(1, None, None, step("cpy", "i0", "o0"))]
        elif r < n - 1:
            blocks = [block(0, r + 1, r - 1, step("rcs", "o0", "o0"))]
        else:
            blocks = [block(0, None, r - 1, step("r", "o0", "o0"))]
        gpus.append(GpuProgram(r, 1, 1, 0, tuple(blocks)))
    return program("broadcast", 1, gpus, root=root)


def chain_reduce(n: int, root: int | None = 0) -> Program:
    """Sums walk from rank n-1 down to rank 0."""
    gpus = []
    for r in range(n):
        if r == n - 1:
            blocks = [block(0, r - 1, None, step("s", "i0", "i0"))]
        elif r > 0:
            blocks = [block(0, r - 1, r + 1, step("rrs", "i0", "i0"))]
        else:
            blocks = [block(0, None, 1, step("rrc", "i0", "o0"))]
        gpus.append(GpuProgram(r, 1, 1, 0, tuple(blocks)))
    return program("reduce", 1, gpus, root=root)


def star(collective: str, n: int) -> Program:
    """Gather to, or scatter from, rank 0."""
    gather = collective == "gather"
    blocks = [block(0, None, None, step("cpy", "i0", "o0"))]
    gpus = []
    for q in range(1, n):
        if gather:
            blocks.append(block(q, None, q, step("r", "i0", f"o{q}")))
            gpus.append(GpuProgram(q, 1, 0, 0, (block(0, 0, None, step("s", "i0", f"o{q}")),)))
        else:
            blocks.append(block(q, q, None, step("s", f"i{q}", "o0")))
            gpus.append(GpuProgram(q, 0, 1, 0, (block(0, None, 0, step("r", f"i{q}", "o0")),)))
    center = GpuProgram(0, 1 if gather else n, n if gather else 1, 0, tuple(blocks))
    return program(collective, n, [center, *gpus], root=0)


def good_programs() -> dict[str, Program]:
    """Name -> a program that is right."""
    return {
        "ring_allgather_4": ring_allgather(4, False),
        "ring_allgather_4_inplace": ring_allgather(4, True),
        "ring_allgather_2": ring_allgather(2, False),
        "allreduce_2": direct_allreduce(2, False),
        "allreduce_3_inplace": direct_allreduce(3, True),
        "allreduce_4": direct_allreduce(4, False),
        "allreduce_4_inplace": direct_allreduce(4, True),
        "alltoall_3": direct_alltoall(3),
        "reducescatter_4": chain_reducescatter(4, False),
        "reducescatter_3_inplace": chain_reducescatter(3, True),
        "broadcast_3": chain_broadcast(3),
        "reduce_3": chain_reduce(3),
        "gather_3": star("gather", 3),
        "scatter_3": star("scatter", 3),
    }


def edited(p: Program, rank: int, number: int, change: Callable[[ThreadBlock], ThreadBlock]) -> Program:
    """The program with one thread block changed."""
    gpus = list(p.gpus)
    blocks = list(gpus[rank].thread_blocks)
    blocks[number] = change(blocks[number])
    gpus[rank] = replace(gpus[rank], thread_blocks=tuple(blocks))
    return replace(p, gpus=tuple(gpus))


def with_step(p: Program, rank: int, number: int, index: int, **changes: object) -> Program:
    """The program with fields of one step changed."""

    def change(tb: ThreadBlock) -> ThreadBlock:
        steps = list(tb.instructions)
        steps[index] = replace(steps[index], **changes)  # type: ignore[arg-type]
        return replace(tb, instructions=tuple(steps))

    return edited(p, rank, number, change)


def to_xml(p: Program) -> bytes:
    """Plain MSCCL XML."""
    flags = f'inplace="{int(p.in_place)}" outofplace="{int(p.out_of_place)}"'
    root = "" if p.root is None else f' root="{p.root}"'
    lines = [
        f'<algo name="{p.name}" proto="{p.protocol}" nchannels="{p.channels}" '
        f'nchunksperloop="{p.chunks_per_loop}" ngpus="{p.ranks}" coll="{p.collective}" {flags} '
        f'minBytes="{p.min_bytes}" maxBytes="{p.max_bytes}"{root}>'
    ]
    for gpu in p.gpus:
        sizes = f'i_chunks="{gpu.input_chunks}" o_chunks="{gpu.output_chunks}" s_chunks="{gpu.scratch_chunks}"'
        lines.append(f'  <gpu id="{gpu.rank}" {sizes}>')
        for tb in gpu.thread_blocks:
            send = -1 if tb.send_peer is None else tb.send_peer
            recv = -1 if tb.recv_peer is None else tb.recv_peer
            lines.append(f'    <tb id="{tb.id}" send="{send}" recv="{recv}" chan="{tb.channel}">')
            lines += [_step_xml(s, x) for s, x in enumerate(tb.instructions)]
            lines.append("    </tb>")
        lines.append("  </gpu>")
    lines.append("</algo>")
    return ("\n".join(lines) + "\n").encode()


def _step_xml(s: int, x: Instruction) -> str:
    src = x.src or BufferSlice("i", -1)
    dst = x.dst or BufferSlice("o", -1)
    depid, deps = x.depends or (-1, -1)
    return (
        f'      <step s="{s}" type="{x.op}" srcbuf="{src.buffer}" srcoff="{src.offset}" dstbuf="{dst.buffer}" '
        f'dstoff="{dst.offset}" cnt="{x.count}" depid="{depid}" deps="{deps}" hasdep="{int(x.has_dependents)}"/>'
    )


def survives(p: Program, in_place: bool, seed: int) -> bool:
    """Whether an order of execution, thread blocks and messages picked at random, ends with the right bytes. The
    executor shares no code with the judge: whatever program it catches, the judge must reject."""
    program = replace(p, in_place=in_place, out_of_place=not in_place)
    try:
        job, parts = job_of(program, RunOptions(dtype="int32"))
    except HetesynthError:
        return False
    job = replace(job, loops=replace(job.loops, slots=2))
    return all(run.correct for run in run_in_process(job, parts, random.Random(seed).randrange))
