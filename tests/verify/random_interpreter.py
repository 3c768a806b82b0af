"""A second, deliberately plain way to run a program: real numbers, thread blocks picked at random.

It finds no races; it only shows whether some order of execution stops or ends with wrong numbers. Whatever
program it catches, the judge must reject.
"""

from __future__ import annotations

import random
from dataclasses import replace

from hetesynth.model.program import BufferSlice, GpuProgram, Program, ThreadBlock

SENDS = ("s", "rcs", "rrs", "rrcs")
RECEIVES = ("r", "rcs", "rrs", "rrc", "rrcs")


class Crash(Exception):
    """What a runtime would not survive: a dead wait, a bad address, an undefined operand."""


def _name(p: Program, gpu: GpuProgram, at: BufferSlice, k: int, in_place: bool) -> tuple[str, int]:
    offset = at.offset + k
    limit = {"i": gpu.input_chunks, "o": gpu.output_chunks, "s": gpu.scratch_chunks}[at.buffer]
    if not 0 <= offset < limit:
        raise Crash("out of range")
    if not in_place or at.buffer == "s":
        return at.buffer, offset
    block = p.chunks_per_loop // p.ranks
    if p.collective == "allgather" and at.buffer == "i":
        return "m", gpu.rank * block + offset
    if p.collective == "reducescatter" and at.buffer == "o":
        return "m", gpu.rank * block + offset
    return "m", offset


def _input(p: Program, rank: int, chunk: int) -> float:
    return float(7 ** (rank % 5) * 1000 + 31 * rank + chunk)


def run(p: Program, in_place: bool, seed: int, slots: int = 2) -> dict[tuple[int, int], float | None]:
    """(rank, output chunk) -> final number."""
    pick = random.Random(seed)
    memory: dict[int, dict[tuple[str, int], float]] = {}
    for gpu in p.gpus:
        count = {"allgather": p.chunks_per_loop // p.ranks, "gather": p.chunks_per_loop // p.ranks}
        size = count.get(p.collective, p.chunks_per_loop)
        holds = p.collective not in ("broadcast", "scatter") or gpu.rank == p.root
        wide = GpuProgram(gpu.rank, 10**6, 10**6, 0, ())
        memory[gpu.rank] = {
            _name(p, wide, BufferSlice("i", 0), k, in_place): _input(p, gpu.rank, k) for k in range(size) if holds
        }
    state = _State(p, in_place, slots, memory)
    live = [(g, t) for g, gpu in enumerate(p.gpus) for t, tb in enumerate(gpu.thread_blocks) if tb.instructions]
    while live:
        able = [x for x in live if state.able(*x)]
        if not able:
            raise Crash("deadlock")
        chosen = pick.choice(able)
        state.do(*chosen)
        if state.done[chosen] == len(p.gpus[chosen[0]].thread_blocks[chosen[1]].instructions):
            live.remove(chosen)
    wide = {gpu.rank: GpuProgram(gpu.rank, 10**6, 10**6, 0, ()) for gpu in p.gpus}
    return {
        (r, k): memory[r].get(_name(p, wide[r], BufferSlice("o", 0), k, in_place))
        for r in sorted(memory)
        for k in range(p.chunks_per_loop)
    }


class _State:
    def __init__(
        self, p: Program, in_place: bool, slots: int, memory: dict[int, dict[tuple[str, int], float]]
    ) -> None:
        self.p, self.in_place, self.slots, self.memory = p, in_place, slots, memory
        self.done: dict[tuple[int, int], int] = {
            (g, t): 0 for g, gpu in enumerate(p.gpus) for t in range(len(gpu.thread_blocks))
        }
        self.flag: dict[tuple[int, int], int] = {}
        self.fifo: dict[tuple[int | None, int | None, int], list[list[float]]] = {}

    def able(self, g: int, t: int) -> bool:
        gpu = self.p.gpus[g]
        tb = gpu.thread_blocks[t]
        x = tb.instructions[self.done[g, t]]
        if x.depends is not None and self.flag.get((gpu.rank, x.depends[0]), -1) < x.depends[1]:
            return False
        if x.op in RECEIVES and not self.fifo.get((tb.recv_peer, gpu.rank, tb.channel)):
            return False
        return not (x.op in SENDS and len(self.fifo.get((gpu.rank, tb.send_peer, tb.channel), [])) >= self.slots)

    def do(self, g: int, t: int) -> None:
        gpu = self.p.gpus[g]
        tb: ThreadBlock = gpu.thread_blocks[t]
        x = tb.instructions[self.done[g, t]]
        cells = self.memory[gpu.rank]
        data: list[float] = []
        if x.op in RECEIVES:
            data = self.fifo[tb.recv_peer, gpu.rank, tb.channel].pop(0)
            if len(data) != x.count:
                raise Crash("count")
        for k in range(x.count if x.op != "nop" else 0):
            if x.op in ("s", "cpy", "re", "rrs", "rrc", "rrcs") and x.src is not None:
                value = cells.get(_name(self.p, gpu, x.src, k, self.in_place))
                if value is None:
                    raise Crash("undefined")
                if x.op in RECEIVES:
                    data[k] += value
                else:
                    data.append(value)
            if x.op in ("r", "cpy", "re", "rcs", "rrc", "rrcs") and x.dst is not None:
                name = _name(self.p, gpu, x.dst, k, self.in_place)
                if x.op == "re" and name not in cells:
                    raise Crash("undefined")
                cells[name] = data[k] + cells[name] if x.op == "re" else data[k]
        if x.op in SENDS:
            self.fifo.setdefault((gpu.rank, tb.send_peer, tb.channel), []).append(data)
        self.done[g, t] += 1
        if x.has_dependents:
            self.flag[gpu.rank, tb.id] = self.done[g, t] - 1


def goal(p: Program) -> dict[tuple[int, int], float]:
    """What must be there at the end; (rank, output chunk) not named may hold anything."""
    n, c = p.ranks, p.chunks_per_loop
    b = c // n if n else c
    wanted: dict[tuple[int, int], float] = {}
    for r in range(n):
        for k in range(c):
            if p.collective == "allgather" or (p.collective == "gather" and r == p.root):
                wanted[r, k] = _input(p, k // b, k % b)
            elif p.collective == "alltoall":
                wanted[r, k] = _input(p, k // b, r * b + k % b)
            elif p.collective == "allreduce" or (p.collective == "reduce" and r == p.root):
                wanted[r, k] = sum(_input(p, q, k) for q in range(n))
            elif p.collective == "reducescatter" and k < b:
                wanted[r, k] = sum(_input(p, q, r * b + k) for q in range(n))
            elif p.collective == "broadcast":
                wanted[r, k] = _input(p, p.root or 0, k)
            elif p.collective == "scatter" and k < b:
                wanted[r, k] = _input(p, p.root or 0, r * b + k)
    return wanted


def _counted_in_all(p: Program) -> Program:
    """Gather and scatter whose nchunksperloop counts one rank's block, with that of the root's buffer instead."""
    own = [g.input_chunks if p.collective == "gather" else g.output_chunks for g in p.gpus]
    if p.collective not in ("gather", "scatter") or max(own, default=0) != p.chunks_per_loop:
        return p
    return replace(p, chunks_per_loop=p.chunks_per_loop * p.ranks)


def survives(p: Program, in_place: bool, seed: int) -> bool:
    """Whether this order of execution ends with the right numbers."""
    p = _counted_in_all(p)
    try:
        final = run(p, in_place, seed)
    except (Crash, KeyError, IndexError):
        return False
    return all(final.get(key) == value for key, value in goal(p).items())
