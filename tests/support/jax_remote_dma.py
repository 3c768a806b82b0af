"""A table as one Pallas kernel for TPUs, for interpret mode, whose race detector judges our rounds."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import tpu as pltpu

from hetesynth.execute.arithmetic import Reduction
from hetesynth.model.table import Message
from hetesynth.programs.tables.matchings import matchings
from hetesynth.runtimes.jax.executor import COMBINE, begun, copied, own
from hetesynth.runtimes.jax.plan import Cells, Plan

TO, SOURCE, LANDING_THERE, FROM, LANDING, ADDED = range(6)
Rounds = list[list[tuple[int, int]]]
"""Of each matching its number and count, by round."""


def play_by_copies(plan: Plan, chunks: Any, axis: str, op: Reduction = "sum", interpret: Any = None) -> Any:
    """As ``executor.play``. ``interpret``: parameters of interpret mode; None: for a TPU."""
    parts = [matchings(messages) for messages in plan.table.rounds]
    numbers, rounds, count = [], [], 0
    for part in parts:
        rounds.append([(count + i, messages[0].count) for i, messages in enumerate(part)])
        numbers += [_row(messages, plan) for messages in part]
        count += len(part)
    rank = lax.axis_index(axis)
    cells = copied(plan, begun(plan, chunks, rank), rank)
    semaphores = pltpu.SemaphoreType
    call = pl.pallas_call(
        partial(_kernel, rounds, plan.table.ranks, COMBINE[op]),
        out_shape=jax.ShapeDtypeStruct(cells.shape, cells.dtype),
        in_specs=[pl.BlockSpec(memory_space=pltpu.SMEM), pl.BlockSpec(memory_space=pltpu.VMEM)],
        out_specs=pl.BlockSpec(memory_space=pltpu.VMEM),
        scratch_shapes=[semaphores.DMA((count,)), semaphores.DMA((count,)), semaphores.REGULAR((count,))],
        compiler_params=pltpu.CompilerParams(collective_id=0),
        interpret=interpret or False,
    )
    done = call(jnp.asarray(np.array(numbers, np.int32))[:, :, rank], cells)
    first, size = plan.output
    return lax.dynamic_slice_in_dim(done, own(first, rank), size)


def _row(messages: tuple[Message, ...], plan: Plan) -> list[list[int]]:
    """What each rank has to know of a matching; -1: it does not send, receive or add."""
    row, cells = [[-1] * plan.table.ranks for _ in range(6)], Cells(plan.table)
    for m in messages:
        row[TO][m.src], row[SOURCE][m.src] = m.dst, cells.at(m.src, m.source)
        row[FROM][m.dst], row[LANDING][m.dst] = m.src, cells.at(m.dst, m.landing)
        row[LANDING_THERE][m.src] = row[LANDING][m.dst]
        if m.added is not None:
            row[ADDED][m.dst] = cells.at(m.dst, m.added)
    return row


def _kernel(
    rounds: Rounds, ranks: int, combine: Any, at: Any, given: Any, cells: Any, sent: Any, came: Any, ready: Any
) -> None:
    cells[...] = given[...]
    _meet(ranks)
    for parts in rounds:
        for number, _ in parts:
            pl.when(at[number, FROM] >= 0)(partial(_say_ready, at, ready, number))
        for number, count in parts:
            copy = pltpu.make_async_remote_copy(
                src_ref=cells.at[pl.ds(at[number, SOURCE], count)],
                dst_ref=cells.at[pl.ds(at[number, LANDING_THERE], count)],
                send_sem=sent.at[number],
                recv_sem=came.at[number],
                device_id=at[number, TO],
                device_id_type=pl.DeviceIdType.LOGICAL,
            )
            pl.when(at[number, TO] >= 0)(partial(_send, copy, ready, number))
        for number, count in parts:
            size = cells.at[pl.ds(0, count)]
            pl.when(at[number, FROM] >= 0)(partial(_wait, size, came.at[number]))
            pl.when(at[number, TO] >= 0)(partial(_wait, size, sent.at[number]))
        for number, count in parts:
            pl.when(at[number, ADDED] >= 0)(partial(_add, at, cells, number, count, combine))


def _meet(ranks: int) -> None:
    """All ranks are in the kernel."""
    barrier = pltpu.get_barrier_semaphore()
    for rank in range(ranks):
        pl.semaphore_signal(barrier, 1, device_id=rank, device_id_type=pl.DeviceIdType.LOGICAL)
    pl.semaphore_wait(barrier, ranks)


def _say_ready(at: Any, ready: Any, number: int) -> None:
    sender = at[number, FROM]
    pl.semaphore_signal(ready.at[number], 1, device_id=sender, device_id_type=pl.DeviceIdType.LOGICAL)


def _send(copy: Any, ready: Any, number: int) -> None:
    pl.semaphore_wait(ready.at[number], 1)
    copy.start()


def _wait(size: Any, semaphore: Any) -> None:
    """For as many bytes as ``size`` has."""
    pltpu.make_async_copy(size, size, semaphore).wait()


def _add(at: Any, cells: Any, number: int, count: int, combine: Any) -> None:
    total, landing = pl.ds(at[number, ADDED], count), pl.ds(at[number, LANDING], count)
    cells[total, :] = combine(cells[total, :], cells[landing, :])
