"""AllReduce by a table on gloo, beside gloo's own and a ring by hand over isend and irecv."""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.machine import load, machine
from benchmarks.tables import csv_text, markdown, wrapped
from hetesynth import api

RANKS, BYTES, TIMES = 12, 64_000_000 // 96 * 96, 5
ONE_SWITCH = """\
node box {
  gpus 12
  switch s { ports gpu[0-11]; bandwidth 10 GB/s; latency 20 us }
}
cluster box { instance a = box }
"""
HEAD = ["all_reduce", "median_ms", "fastest_ms"]
_TEXT = """\
# AllReduce on gloo

{ranks} processes on one machine, {megabytes} MB of float32, {times} calls each in turn;
`PYTHONPATH=tests python -m benchmarks torch` measures again. All data goes through one memory, so this tells what
the executor costs, not what a schedule gains on a network.
"""


def measured(examples: Path) -> tuple[str, str]:
    """The page and its table."""
    before = load()
    with tempfile.TemporaryDirectory() as folder:
        box = Path(folder, "box.dsl")
        box.write_text(ONE_SWITCH)
        tables = {
            "table of h20_4p8": _table(examples / "h20_4p8" / "topo.dsl", Path(folder, "h20")),
            "table of 12 GPUs on a switch": _table(box, Path(folder, "box")),
        }
        children = [_forked(rank, tables, Path(folder)) for rank in range(RANKS)]
        ended = [os.waitpid(child, 0)[1] for child in children]
        if any(ended):
            raise RuntimeError(f"ranks ended with {ended}")
        rows = [line.split(";") for line in Path(folder, "rows").read_text().splitlines()]
    text = _TEXT.format(ranks=RANKS, megabytes=round(BYTES / 1e6), times=TIMES)
    facts = ", ".join(f"{name} {value}" for name, value in machine().items())
    told = wrapped(f"Measured on {date.today()}, load {before} and {load()}: {facts}.")
    return "\n".join([text, markdown(HEAD, rows), "", told, ""]), csv_text(HEAD, rows)


def _table(topology: Path, stem: Path) -> Path:
    made = api.synthesize(topology, "allreduce", size=BYTES, target="torch")
    return next(path for path in api.write(made, stem) if path.name.endswith(".torch.json"))


def _forked(rank: int, tables: dict[str, Path], folder: Path) -> int:
    import torch  # noqa: F401 (once, before all forks)

    child = os.fork()
    if child:
        return child
    try:
        rows = _rank(rank, tables, folder)
        if rank == 0:
            (folder / "rows").write_text("\n".join(rows))
        os._exit(0)
    finally:
        os._exit(1)


def _rank(rank: int, tables: dict[str, Path], folder: Path) -> list[str]:
    import torch
    import torch.distributed as dist

    import hetesynth.torch

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS)
    calls: dict[str, Callable[[Any], object]] = {"gloo's own": dist.all_reduce, "a ring by hand": _ring}
    for name, path in tables.items():
        calls[name] = hetesynth.torch.load(path, always=True).all_reduce
    tensor = torch.ones(BYTES // 4)
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(TIMES + 1):  # the first of each is not counted
        for name, call in calls.items():
            tensor.fill_(rank)
            dist.barrier()
            began = time.perf_counter()
            call(tensor)
            dist.barrier()
            taken[name].append(time.perf_counter() - began)
            assert bool((tensor == RANKS * (RANKS - 1) // 2).all()), name
    return [
        f"{name};{statistics.median(seconds[1:]) * 1e3:.0f};{min(seconds[1:]) * 1e3:.0f}"
        for name, seconds in taken.items()
    ]


def _ring(tensor: Any) -> None:
    """Reduce-scatter and all-gather around a ring, a share of the tensor a step."""
    import torch
    import torch.distributed as dist

    rank, parts = dist.get_rank(), tensor.chunk(RANKS)
    landing = torch.empty_like(parts[0])
    for step in range(2 * (RANKS - 1)):
        sent, got = (rank - step) % RANKS, (rank - step - 1) % RANKS
        into = landing if step < RANKS - 1 else parts[got]
        works = [dist.isend(parts[sent], (rank + 1) % RANKS), dist.irecv(into, (rank - 1) % RANKS)]
        for work in works:
            work.wait()
        if step < RANKS - 1:
            parts[got].add_(landing)
