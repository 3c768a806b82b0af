"""``python torch_ranks.py FOLDER``: what ranks in processes of their own do, one scenario after the other.

FOLDER has tables of 4 ranks in ``a``, the same cut otherwise in ``b``. Prints a JSON object a scenario: of each
rank its exit code, what it said, and seconds.
"""

from __future__ import annotations

import gc
import json
import os
import resource
import signal
import sys
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

import hetesynth.torch
from hetesynth.errors import HetesynthError

FOLDER = Path(sys.argv[1])
TIMEOUT = 60.0
ROOT = 3
TYPES = (torch.float16, torch.bfloat16, torch.float32, torch.int32)
SUM, MAX, MIN, AVG = dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.MIN, dist.ReduceOp.AVG


def loaded(name: str = "a", **options: bool) -> hetesynth.torch.Collective:
    return hetesynth.torch.load(FOLDER / name, **options)


def data(ranks: int, count: int, dtype: Any) -> list[Any]:
    """The inputs of all ranks: small integers, whose sums are exact."""
    draw = torch.Generator().manual_seed(count)
    return [torch.randint(-8, 8, (count,), generator=draw).to(dtype) for _ in range(ranks)]


def equal(a: Any, b: Any) -> None:
    assert torch.equal(a.contiguous().view(torch.uint8), b.contiguous().view(torch.uint8)), (a, b)


def all_eight(collective: Any, dtype: Any, count: int, group: Any = None, later: bool = False) -> None:
    """Each collective once, the result compared by bytes. ``count``: elements of each rank, times ranks too."""
    ranks, rank = dist.get_world_size(group), dist.get_rank(group)
    root = ROOT if group is None else dist.get_global_rank(group, ROOT)
    every = data(ranks, count, dtype)
    whole, total = torch.cat(every), torch.stack(every).sum(0, dtype=dtype)
    open_calls: list[tuple[Any, Any, Any]] = []

    def call(function: Callable[..., Any], result: Any, due: Any, *arguments: Any, **more: Any) -> None:
        handle = function(*arguments, group=group, async_op=later, **more)
        assert later == (handle is not None)
        open_calls.append((handle, result, due))

    for op, due in ((SUM, total), (MAX, torch.stack(every).amax(0)), (MIN, torch.stack(every).amin(0))):
        own = every[rank].clone()
        call(collective.all_reduce, own, due, own, op)
    own = every[rank].clone()
    call(collective.broadcast, own, every[ROOT], own, root)
    own = every[rank].clone()
    call(collective.reduce, own if rank == ROOT else None, total, own, root)
    out = torch.empty(count * ranks, dtype=dtype)
    call(collective.all_gather_into_tensor, out, whole, out, every[rank])
    share = count // ranks
    cut = [one[: share * ranks] for one in every]
    out = torch.empty(share, dtype=dtype)
    call(collective.reduce_scatter_tensor, out, total[rank * share : (rank + 1) * share], out, cut[rank].clone())
    out = torch.empty(share * ranks, dtype=dtype)
    due = torch.cat([one[rank * share : (rank + 1) * share] for one in cut])
    call(collective.all_to_all_single, out, due, out, cut[rank].clone())
    stacked = torch.empty(ranks, count, dtype=dtype)
    parts = [*stacked] if rank == ROOT else None
    call(collective.gather, stacked if rank == ROOT else None, whole, every[rank], parts, root)
    out = torch.empty(count, dtype=dtype)
    call(collective.scatter, out, every[rank], out, every if rank == ROOT else None, root)
    for handle, result, due in open_calls:
        if later:
            handle.wait()
            assert handle.is_completed()
        if result is not None:
            equal(result.reshape(-1), due)


def right(rank: int) -> str:
    collective = loaded()
    for dtype in TYPES:
        all_eight(collective, dtype, 4 * 4 * 30)
    for dtype in (torch.float16, torch.float32):
        own = torch.full((96,), float(rank), dtype=dtype)
        collective.all_reduce(own, AVG)
        equal(own, torch.full((96,), 1.5, dtype=dtype))
    own = torch.arange(4 * 96.0)[rank * 96 :][:96]
    whole = torch.zeros(4 * 96)
    whole[rank * 96 :][:96] = own
    collective.all_gather_into_tensor(whole, whole[rank * 96 :][:96])
    equal(whole, torch.arange(4 * 96.0))
    assert set(collective.stats) == {"table"}, collective.stats
    return "right"


def asynchronous(rank: int) -> str:
    """Several under way at once, some started before others end, and one that is waited for between them."""
    collective = loaded()
    all_eight(collective, torch.float32, 4 * 4 * 30, later=True)
    several = [torch.full((240_000,), float(rank + i)) for i in range(5)]
    handles = [collective.all_reduce(one, async_op=True) for one in several]
    last = torch.full((96,), float(rank))
    collective.all_reduce(last)
    assert all(handle.is_completed() for handle in handles)
    future = handles[0].get_future()
    equal(future.wait()[0], torch.full((240_000,), 6.0))
    for i, one in enumerate(several):
        equal(one, torch.full((240_000,), 6.0 + 4 * i))
    equal(last, torch.full((96,), 6.0))
    return "right"


def falls_back(rank: int) -> str:
    """Sizes that do not divide, types that are not added, a missing root: by gloo, with the same result."""
    collective = loaded()
    all_eight(collective, torch.float32, 4 * 4 * 30 + 3)
    all_eight(collective, torch.int32, 4)
    assert collective.stats["table"] > 5, collective.stats
    own = torch.full((96,), rank, dtype=torch.int32)
    collective.broadcast(own, 1)
    equal(own, torch.full((96,), 1, dtype=torch.int32))
    flags = torch.tensor([rank == 2] * 96)
    collective.broadcast(flags, ROOT)
    collective.all_reduce(torch.ones(96, dtype=torch.complex64))
    own = torch.full((3,), float(rank))
    handle = collective.all_reduce(own, AVG, async_op=True)
    handle.wait()
    equal(own, torch.full((3,), 1.5))
    return " | ".join(sorted(collective.stats))


def chosen(rank: int) -> str:
    """By the ranges of the tables in ``c``, and by what they say of the library."""
    words: list[str] = []
    for collective in (loaded("c"), loaded("c", always=True)):
        for count in (96, 192, 960):  # to 400 bytes, to 1,000 bytes, none
            collective.all_reduce(torch.ones(count))
            words.append(next(key for key, calls in collective.stats.items() if calls))
            collective.stats.clear()
    return " | ".join(words)


def sub_group(rank: int) -> str:
    """Ranks 1, 2, 4, 5 of six, while 0 and 3 do something else."""
    members = [1, 2, 4, 5]
    group, others = dist.new_group(members), dist.new_group([0, 3])
    collective = loaded()
    if rank in members:
        all_eight(collective, torch.bfloat16, 4 * 4 * 30, group)
        all_eight(collective, torch.float32, 4 * 4 * 30, group, later=True)
        return "right"
    try:
        collective.all_reduce(torch.ones(96), group=others)
    except HetesynthError as error:
        return f"{error.code} {error.message}"
    return "not refused"


def grows(rank: int) -> str:
    """1,000 calls after the first 100: kilobytes of the interpreter and of the process."""
    collective = loaded()
    tensors = [torch.ones(4800), torch.ones(4800, dtype=torch.bfloat16)]
    out = torch.empty(4 * 4800)

    def calls(times: int) -> None:
        for i in range(times):
            if i % 2:
                collective.all_reduce(tensors[i // 2 % 2].fill_(1))
            else:
                collective.all_gather_into_tensor(out, tensors[0], async_op=True).wait()

    calls(100)
    gc.collect()
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tracemalloc.start()
    calls(20)
    before = tracemalloc.get_traced_memory()[0]
    calls(1000)
    gc.collect()
    return json.dumps(
        [
            (tracemalloc.get_traced_memory()[0] - before) / 1024,
            resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - resident,
        ]
    )


def other_tables(rank: int) -> str:
    return refusal(lambda: loaded("b" if rank == 2 else "a").all_reduce(torch.ones(96)))


def other_sizes(rank: int) -> str:
    """The second call too, as the sizes are new."""
    collective = loaded()
    collective.all_reduce(torch.ones(96))
    return refusal(lambda: collective.all_reduce(torch.ones(192 if rank == 1 else 288)))


def other_calls(rank: int) -> str:
    """Calls of known sizes in another order: seen where every call is checked."""
    collective = loaded(check=True)
    calls = [collective.all_reduce, lambda tensor: collective.broadcast(tensor, ROOT)]
    for call in calls:
        call(torch.ones(96))
    return refusal(lambda: calls[rank == 0](torch.ones(96)))


def killed(rank: int) -> str:
    """Rank 2 is killed between two calls."""
    collective = loaded()
    collective.all_reduce(torch.ones(96))
    if rank == 2:
        os.kill(os.getpid(), signal.SIGKILL)

    def calls() -> None:
        for _ in range(3):
            collective.all_reduce(torch.ones(96), async_op=True).wait()

    return refusal(calls)


def refusal(call: Callable[[], object]) -> str:
    try:
        call()
    except HetesynthError as error:
        return f"{error.code} {error.message}"
    return "not refused"


SCENARIOS: dict[Callable[[int], str], int] = {
    right: 4, asynchronous: 4, falls_back: 4, chosen: 4, sub_group: 6, grows: 4, other_tables: 4, other_sizes: 4,
    other_calls: 4, killed: 4,
}  # fmt: skip


def ranks(scenario: Callable[[int], str], world: int) -> Iterator[tuple[int, str, float]]:
    """Exit code, word and seconds of each."""
    files = [FOLDER / f"{scenario.__name__}.{rank}" for rank in range(world)]
    began = time.monotonic()
    children: list[int] = []
    for rank in range(world):
        child = os.fork()
        if not child:
            try:
                store = f"file://{FOLDER}/{scenario.__name__}.store"
                limit = timedelta(seconds=TIMEOUT)
                dist.init_process_group("gloo", init_method=store, rank=rank, world_size=world, timeout=limit)
                files[rank].write_text(scenario(rank))
                os._exit(0)
            except BaseException as error:
                files[rank].write_text(f"{type(error).__name__}: {error}")
            finally:
                os._exit(1)
        children.append(child)
    for child, file in zip(children, files, strict=True):
        code = os.waitpid(child, 0)[1]
        yield code, file.read_text() if file.exists() else "", time.monotonic() - began


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    for one, size in SCENARIOS.items():
        print(json.dumps({one.__name__: [*ranks(one, size)]}), flush=True)
