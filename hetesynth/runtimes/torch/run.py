"""A table with real bytes over gloo: every rank is a thread of this process with a process group of its own."""

import threading
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import numpy as np
import torch
from torch.distributed import HashStore, ProcessGroupGloo

from hetesynth.errors import HetesynthError
from hetesynth.execute.job import Job, RunOptions
from hetesynth.execute.memory import Memory
from hetesynth.execute.outcome import Ending, Run, gathered
from hetesynth.execute.tables import table_job
from hetesynth.model.program import Buffer, GpuProgram
from hetesynth.model.table import Table
from hetesynth.runtimes.torch.executor import ADDS, play
from hetesynth.runtimes.torch.steps import Part, part_of

Result = TypeVar("Result")
_BUFFERS: tuple[Buffer, ...] = ("i", "o", "s")


def gloo_groups(ranks: int, timeout: float) -> list[Any]:
    """Return process groups of ``ranks`` ranks in this process. ``timeout``: seconds of each wait."""
    store = HashStore()

    def made(rank: int) -> Any:
        options = ProcessGroupGloo._Options()
        options._devices = [ProcessGroupGloo.create_device(hostname="127.0.0.1")]
        options._timeout = timedelta(seconds=timeout)
        return ProcessGroupGloo(store, rank, ranks, options)

    return on_threads(made, range(ranks))


def on_threads(call: Callable[[Any], Result], arguments: Sequence[Any]) -> list[Result]:
    """Return the results of ``call`` for each argument, each on a thread; raise the first error."""
    results: dict[int, Result] = {}
    errors: dict[int, BaseException] = {}

    def one(number: int) -> None:
        try:
            results[number] = call(arguments[number])
        except BaseException as error:
            errors[number] = error

    threads = [threading.Thread(target=one, args=(number,)) for number in range(len(arguments))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in sorted(errors):
        raise errors[number]
    return [results[number] for number in range(len(arguments))]


def run_table_on_gloo(table: Table, options: RunOptions, groups: Sequence[Any] = ()) -> list[Run]:
    """Return runs of ``table``, out of place and in place, every byte checked; ends with one that did not end
    well. ``groups``: made before; each of their waits takes at most ``options.timeout``."""
    job, owners = table_job(table, options)
    return run_parts(job, owners, [part_of(table, rank) for rank in range(table.ranks)], groups)


def run_parts(
    job: Job, owners: Sequence[GpuProgram], parts: Sequence[Part], groups: Sequence[Any] = ()
) -> list[Run]:
    """Return the runs of ``run_table_on_gloo`` for ``parts`` that need not be of one table."""
    groups = groups or gloo_groups(len(parts), job.timeout)
    runs: list[Run] = []
    add = ADDS[getattr(torch.distributed.ReduceOp, job.numbers.reduction.upper())]
    for in_place in job.aliasings:
        memory = [job.memory(owner, in_place) for owner in owners]
        tensors = [_tensors(job, own, owner, in_place) for own, owner in zip(memory, owners, strict=True)]

        def one(rank: int, memory: list[Memory] = memory, tensors: list[list[Any]] = tensors) -> Run | str:
            began = time.perf_counter()
            try:
                play(parts[rank], groups[rank], tensors[rank], job.loops.chunk, add)
            except (HetesynthError, IndexError, RuntimeError) as error:
                return f"rank {rank} {' '.join(str(error).split())}"
            return memory[rank].check(time.perf_counter() - began)

        started = time.perf_counter()
        ends = on_threads(one, range(len(parts)))
        broken = [end for end in ends if isinstance(end, str)]
        if broken:
            ending: Ending = "stall" if any("imed out" in text or "imeout" in text for text in broken) else "fault"
            seconds = time.perf_counter() - started
            return [*runs, Run(in_place, ending, seconds, diagnosis=tuple(broken[:16]))]
        runs.append(gathered([end for end in ends if isinstance(end, Run)]))
    return runs


def _tensors(job: Job, memory: Memory, owner: GpuProgram, in_place: bool) -> list[Any]:
    """Return input, output and scratch as flat tensors over the same bytes."""
    stands, chunk, numbers = job.reference.buffers(owner.rank, in_place), job.loops.chunk, job.numbers
    sizes = (stands.input[1] // chunk, stands.output[1] // chunk, owner.scratch_chunks)
    views = [
        memory.view(name, 0, chunks, slice(None)) if chunks else np.empty(0, numbers.type)
        for name, chunks in zip(_BUFFERS, sizes, strict=True)
    ]
    return [torch.from_numpy(v.reshape(-1).view(np.uint8)).view(getattr(torch, numbers.dtype)) for v in views]
