"""Programs on the interpreter's CPU build, with real bytes: every thread block of every rank is a thread."""

import ctypes
import time
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from hetesynth.errors import HetesynthError
from hetesynth.execute.arithmetic import Dtype, Reduction
from hetesynth.execute.job import Job, Part
from hetesynth.execute.memory import Memory
from hetesynth.execute.outcome import Run, diagnosis, gathered
from hetesynth.model.program import GpuProgram
from hetesynth.runtimes.nccl_device.build import library, threads_command
from hetesynth.runtimes.nccl_device.pack import first_fault, pack

DTYPES: tuple[Dtype, ...] = ("float16", "bfloat16", "float32", "int32")
REDUCTIONS: tuple[Reduction, ...] = ("sum", "max", "min")
DONE, STALLED, NO_THREADS = range(3)
A_MESSAGE, A_SLOT, A_STEP, UNTAKEN = range(1, 5)


class Waiting(NamedTuple):
    """A thread block that did not end. ``what``: ``A_MESSAGE`` and so on; of UNTAKEN ``loop`` counts messages."""

    rank: int
    block: int
    what: int
    loop: int
    step: int


class CpuKernel:
    """A program on all of its ranks. ``slots``: messages that a connection holds; ``slot_bytes``: bytes of one.
    ``server``: how many ranks in turn reach each other by stores, others by a stand-in for a network; 0: all."""

    def __init__(self, parts: Sequence[GpuProgram], slots: int, slot_bytes: int, server: int = 0) -> None:
        self._library = library("threads.cpp", threads_command())
        self._library.hetesynth_threads_create.restype = ctypes.c_void_p
        tables = pack(parts, 1, None)
        pointers = (ctypes.c_char_p * len(tables))(*tables)
        self._handle = ctypes.c_void_p(
            self._library.hetesynth_threads_create(
                pointers, len(tables), slots, ctypes.c_int64(slot_bytes), server
            )
        )
        if not self._handle:
            message = f"there is no memory for {slots} messages of {slot_bytes} bytes a connection"
            raise HetesynthError(message, code="HS893", help="use a smaller --pass-size or --slots")
        self._parts = tuple(parts)

    def run(
        self, memory: Sequence[Memory], chunk: int, dtype: Dtype, reduction: Reduction, timeout: float
    ) -> list[Waiting]:
        """Return thread blocks that a call left waiting; after any there is no other call. HS893: no threads."""
        addresses = [m.chunks[name].ctypes.data for m in memory for name in ("i", "o", "s")]
        blocks = [(gpu.rank, k) for gpu in self._parts for k in range(len(gpu.thread_blocks))]
        waits = (ctypes.c_int32 * (3 * len(blocks)))()
        ending = self._library.hetesynth_threads_run(
            self._handle,
            (ctypes.c_void_p * len(addresses))(*addresses),
            ctypes.c_int64(chunk),
            DTYPES.index(dtype),
            REDUCTIONS.index(reduction),
            ctypes.c_double(timeout),
            waits,
        )
        if ending == NO_THREADS:
            message = f"this machine does not give a process {len(blocks)} threads"
            raise HetesynthError(message, code="HS893", help="use --backend inprocess")
        all_waits = (Waiting(rank, block, *waits[3 * k : 3 * k + 3]) for k, (rank, block) in enumerate(blocks))
        return [wait for wait in all_waits if wait.what] if ending == STALLED else []

    def close(self) -> None:
        """Free the program."""
        self._library.hetesynth_threads_destroy(self._handle)

    def text(self, wait: Waiting, slots: int) -> str:
        """Return in words the event that a thread block waits for."""
        block = self._parts[wait.rank].thread_blocks[wait.block]
        if wait.what == UNTAKEN:
            messages = f"{wait.loop} message{'s' if wait.loop > 1 else ''}"
            return f"sent {messages} on channel {block.channel} that rank {block.send_peer} never took"
        x = block.instructions[wait.step]
        name = f"`{x.op}`, loop {wait.loop}" if wait.loop else f"`{x.op}`"
        reason = f"a message from rank {block.recv_peer} on channel {block.channel}"
        if wait.what == A_SLOT:
            reason = f"rank {block.send_peer} to take one of {slots} messages on channel {block.channel}"
        elif wait.what == A_STEP and x.depends:
            reason = f"step {x.depends[1]} of thread block {x.depends[0]}"
        return f"thread block {block.id} step {wait.step} ({name}) waits for {reason}"


def run_on_threads(job: Job, parts: Sequence[Part], server: int = 0) -> Iterator[Run]:
    """Yield the runs of ``job``, all on one handle of ``CpuKernel``. Ends after a run that did not end well."""
    gpus = [part for part in parts if isinstance(part, GpuProgram)]
    numbers, loops = job.numbers, job.loops
    steps = (x for gpu in gpus for block in gpu.thread_blocks for x in block.instructions)
    largest = loops.chunk * max((x.count for x in steps), default=1)  # of messages: slots need be no larger
    kernel: CpuKernel | None = None
    try:
        for in_place in job.aliasings:
            memory = [job.memory(part, in_place) for part in gpus]
            fault = next(filter(None, map(_fault, gpus, memory)), None)
            if fault is None and kernel is None:
                try:
                    kernel = CpuKernel(gpus, loops.slots, min(loops.message, largest) * numbers.item_bytes, server)
                except HetesynthError as error:
                    if error.code != "HS892":
                        raise
                    fault = error.message
            if fault is not None or kernel is None:
                yield Run(in_place, "fault", 0.0, diagnosis=(fault or "",))
                return
            started = time.perf_counter()
            waits = kernel.run(memory, loops.chunk, numbers.dtype, numbers.reduction, job.timeout)
            seconds = time.perf_counter() - started
            if waits:
                texts: dict[int, list[str]] = {}
                for wait in waits:
                    texts.setdefault(wait.rank, []).append(kernel.text(wait, loops.slots))
                yield Run(in_place, "stall", seconds, diagnosis=diagnosis(texts))
                return
            yield gathered([own.check(seconds) for own in memory])
    finally:
        if kernel is not None:
            kernel.close()


def _fault(gpu: GpuProgram, memory: Memory) -> str | None:
    fault = first_fault(gpu, [len(memory.chunks[name]) for name in ("i", "o", "s")])
    return fault and f"rank {gpu.rank} {fault}"
