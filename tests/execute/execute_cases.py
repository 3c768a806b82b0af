"""Small programs written out by hand for the tests of the executor, and how they are run in one process."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

from verify.program_builders import block, edited, program, step
from verify.program_builders import part as at
from verify.program_builders import with_step as changed

from hetesynth.execute import job
from hetesynth.execute.inprocess import run_in_process
from hetesynth.execute.job import Job, Part, RunOptions
from hetesynth.execute.outcome import Run
from hetesynth.execute.players import Choice
from hetesynth.model.program import GpuProgram, Instruction, Program, ThreadBlock

__all__ = ["at", "block", "changed", "step"]


def gpu(rank: int, i: int, o: int, s: int, *blocks: ThreadBlock) -> GpuProgram:
    return GpuProgram(rank, i, o, s, blocks)


def whole(
    collective: str, chunks: int, *gpus: GpuProgram, root: int | None = None, in_place: bool = False
) -> Program:
    return program(collective, chunks, list(gpus), root=root, in_place=in_place)


def ring_allreduce(n: int, count: int = 1, in_place: bool = False) -> Program:
    """Reduce-scatter round the ring with fused receives, then allgather: every fused instruction is used.

    Block 0 does all; chunk group k (``count`` chunks) starts at rank k and is complete at rank k - 1.
    """
    gpus = []
    for r in range(n):

        def of(k: int, b: str = "i") -> str:
            return f"{b}{(k % n) * count}"

        steps = [step("s", of(r), of(r), count)]
        steps += [step("rrs", of(r - t), of(r - t), count) for t in range(1, n - 1)]
        steps.append(step("rrcs", of(r + 1), of(r + 1, "o"), count))
        steps += [step("rcs", of(r - t, "o"), of(r - t, "o"), count) for t in range(n - 2)]
        steps.append(step("r", of(r + 2, "o"), of(r + 2, "o"), count))
        gpus.append(gpu(r, n * count, n * count, 0, block(0, (r + 1) % n, (r - 1) % n, *steps)))
    return whole("allreduce", n * count, *gpus, in_place=in_place)


def gather_and_sum(n: int) -> Program:
    """Reduce to rank 0 by scratch, `re` and dependences across thread blocks."""
    sums = [step("cpy", "i0", "o0")]
    sums += [step("re", f"s{q - 1}", "o0", on=(q, 0)) for q in range(1, n)]
    takers = [block(q, None, q, step("r", "i0", f"s{q - 1}", flag=True)) for q in range(1, n)]
    root = gpu(0, 1, 1, n - 1, block(0, None, None, *sums), *takers)
    others = [gpu(q, 1, 0, 0, block(0, 0, None, step("s", "i0", f"s{q - 1}"))) for q in range(1, n)]
    return whole("reduce", 1, root, *others, root=0)


def exchange(slots_needed: int) -> Program:
    """Alltoall of two ranks in which both send ``slots_needed`` messages before they receive any."""
    k = slots_needed
    gpus = []
    for r in range(2):
        peer = 1 - r
        steps = [step("s", f"i{peer * k + j}", f"o{r * k + j}") for j in range(k)]
        steps += [step("r", f"i{r * k + j}", f"o{peer * k + j}") for j in range(k)]
        own = block(1, None, None, step("cpy", f"i{r * k}", f"o{r * k}", k))
        gpus.append(gpu(r, 2 * k, 2 * k, 0, block(0, peer, peer, *steps), own))
    return whole("alltoall", 2 * k, *gpus)


def job_of(p: Program, **options: Any) -> tuple[Job, list[Part]]:
    return job.job_of(p, RunOptions(**options))


def run(p: Program, choose: Choice | None = None, **options: Any) -> list[Run]:
    job, parts = job_of(p, **options)
    return list(run_in_process(job, parts, choose))


def any_order(seed: int) -> Choice:
    """A random but repeatable order of all that has no order."""
    return random.Random(seed).randrange


def with_steps(p: Program, rank: int, number: int, steps: tuple[Instruction, ...]) -> Program:
    return edited(p, rank, number, lambda tb: replace(tb, instructions=steps))
