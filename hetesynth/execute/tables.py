"""Tables with real bytes: what every rank must begin and end with, and all ranks in one process."""

import time
from collections.abc import Sequence

from hetesynth.errors import HetesynthError
from hetesynth.execute.arithmetic import Arithmetic
from hetesynth.execute.job import Job, RunOptions, chunk_elements
from hetesynth.execute.memory import PER_RANK, Memory, Reference
from hetesynth.execute.outcome import Fault, Run, gathered
from hetesynth.execute.players import Loops
from hetesynth.model.collective import REDUCING
from hetesynth.model.program import GpuProgram
from hetesynth.model.table import Table


def table_job(table: Table, options: RunOptions) -> tuple[Job, list[GpuProgram]]:
    """The job of ``table``, out of place and in place, and the buffers of each rank; errors as of ``job_of``."""
    if options.message_bytes or options.slots:
        message = "a table sends whole chunks: there are no smaller messages"
        raise HetesynthError(message, code="HS810", help="leave out --pass-size and --slots")
    if options.root not in (None, table.root):
        raise HetesynthError(f"the table is for root {table.root}", code="HS802", help="leave out --root")
    name, ranks = table.collective, table.ranks
    block = table.chunks // (ranks if name in PER_RANK else 1)
    numbers = Arithmetic(options.reduction, options.dtype, ranks, options.seed, name in REDUCING)
    chunk = chunk_elements(block * ranks if name in PER_RANK else block, numbers, options.size)
    forms = (False, True) if table.in_place else (False,)
    runs = tuple(form for form in forms for _ in range(options.repeat))
    job = Job(
        Reference(name, ranks, table.root, block * chunk), numbers, Loops(chunk, chunk, 1), runs, options.timeout
    )
    return job, [GpuProgram(rank, *sizes, ()) for rank, sizes in enumerate(table.sizes)]


def run_table_in_process(table: Table, options: RunOptions) -> list[Run]:
    """Return the runs of all ranks in this process, message after message, up to one that does not end well."""
    job, parts = table_job(table, options)
    runs: list[Run] = []
    for in_place in job.aliasings:
        memory = [job.memory(part, in_place) for part in parts]
        started = time.perf_counter()
        try:
            _play(table, memory)
            seconds = time.perf_counter() - started
            runs.append(gathered([own.check(seconds) for own in memory]))
        except Fault as fault:
            seconds = time.perf_counter() - started
            return [*runs, Run(in_place, "fault", seconds, diagnosis=(str(fault),))]
    return runs


def _play(table: Table, memory: Sequence[Memory]) -> None:
    every = slice(None)
    for c in table.copies:
        source = memory[c.rank].view(c.source.buffer, c.source.offset, c.count, every)
        memory[c.rank].view(c.target.buffer, c.target.offset, c.count, every)[:] = source
    for messages in table.rounds:
        sent = [memory[m.src].view(m.source.buffer, m.source.offset, m.count, every).copy() for m in messages]
        for m, data in zip(messages, sent, strict=True):
            memory[m.dst].view(m.landing.buffer, m.landing.offset, m.count, every)[:] = data
        for m in messages:
            if m.added is not None:
                own = memory[m.dst]
                sums = own.view(m.added.buffer, m.added.offset, m.count, every)
                landing = own.view(m.landing.buffer, m.landing.offset, m.count, every)
                sums[:] = own.numbers.combine(sums, landing)
