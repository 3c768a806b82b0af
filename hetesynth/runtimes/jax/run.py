"""A table with real bytes through JAX: every rank is a virtual device of the CPU in a process of its own."""

import os
import pickle
import subprocess
import sys
import time
from dataclasses import replace
from importlib.util import find_spec

import numpy as np

from hetesynth.errors import HetesynthError
from hetesynth.execute.arithmetic import POISON
from hetesynth.execute.job import RunOptions
from hetesynth.execute.outcome import Run, gathered
from hetesynth.execute.tables import table_job
from hetesynth.model.table import Table


def run_table_on_jax(table: Table, options: RunOptions) -> list[Run]:
    """Runs of ``table``, every byte checked. HetesynthError HS820 where there is no jax; others as of a job."""
    table_job(table, options)
    if find_spec("jax") is None:
        help_text = "pip install 'hetesynth[jax]'"
        raise HetesynthError("jax is not installed", code="HS820", help=help_text)
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={table.ranks}"
    environment = {**os.environ, "XLA_FLAGS": flags.strip(), "JAX_PLATFORMS": "cpu"}
    line = [sys.executable, "-m", __name__]
    began = time.perf_counter()
    try:
        limit = 120.0 + options.timeout  # jax is imported and the table compiled before
        data = pickle.dumps((table, options))
        ended = subprocess.run(line, input=data, capture_output=True, env=environment, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        said = f"the devices were not done after {limit:.0f} s"
        return [Run(False, "stall", time.perf_counter() - began, diagnosis=(said,))]
    if ended.returncode:
        last = tuple(ended.stderr.decode(errors="replace").strip().splitlines()[-3:])
        said = f"the process ended with {ended.returncode}"
        return [Run(False, "fault", time.perf_counter() - began, diagnosis=(said, *last))]
    runs: list[Run] = pickle.loads(ended.stdout)
    return runs


def runs_here(table: Table, options: RunOptions) -> list[Run]:
    """Return the runs of ``table`` on the devices of this process, of which there are enough."""
    import jax
    from jax.sharding import Mesh, PartitionSpec

    from hetesynth.runtimes.jax.collective import Collective

    collective = Collective([replace(table, min_bytes=0, max_bytes=0)], always=True)
    job, owners = table_job(table, options)
    mesh, ranks = Mesh(np.array(jax.devices()[: table.ranks]), ("ranks",)), PartitionSpec("ranks")
    call = jax.jit(
        jax.shard_map(
            lambda x: collective(x, "ranks", options.reduction), mesh=mesh, in_specs=ranks, out_specs=ranks
        )
    )
    runs: list[Run] = []
    for _ in range(options.repeat):
        memory = [job.memory(owner, False) for owner in owners]
        size = table.ranks * job.reference.input_elements
        given = np.full(size * job.numbers.item_bytes, POISON, np.uint8).view(job.numbers.type)
        for rank, (own, owner, part) in enumerate(
            zip(memory, owners, given.reshape(table.ranks, -1), strict=True)
        ):
            if job.reference.buffers(rank, False).input[1]:
                part[:] = own.view("i", 0, owner.input_chunks, slice(None)).reshape(-1)
        x = jax.device_put(given, jax.sharding.NamedSharding(mesh, ranks))
        compiled = call.lower(x).compile()
        if "table" not in collective.stats:
            return [Run(False, "fault", 0.0, diagnosis=tuple(collective.stats))]
        began = time.perf_counter()
        got = np.asarray(compiled(x).block_until_ready()).reshape(table.ranks, -1)
        seconds = time.perf_counter() - began
        for rank, (own, owner, part) in enumerate(zip(memory, owners, got, strict=True)):
            if job.reference.buffers(rank, False).output[1]:
                stands = own.view("o", 0, owner.output_chunks, slice(None))
                stands[:] = part.reshape(stands.shape)
        runs.append(gathered([own.check(seconds) for own in memory]))
    return runs


if __name__ == "__main__":
    sys.stdout.buffer.write(pickle.dumps(runs_here(*pickle.load(sys.stdin.buffer))))
