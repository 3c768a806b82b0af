"""Runs a transfer graph: when does each task start and end?

In: a ``TransferGraph``. Out: its ``Timeline``. Every resource is shared max-min fairly by the flows that use it at
the moment (progressive filling: Bertsekas and Gallager, Data Networks, 6.5.2), so the result does not depend on
the order of simultaneous events. Small graphs are interpreted, so that nothing needs to be loaded or compiled.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

import numpy as np

from hetesynth.model.timeline import Floats, Ints, Timeline, TransferGraph
from hetesynth.simulate import fluid_kernel
from hetesynth.simulate.fluid_kernel import State

INTERPRETED_TASKS = 4000  # more are compiled; loading compiled code takes as long as interpreting about so many


def simulate(graph: TransferGraph, *, compiled: bool | None = None) -> Timeline:
    """When the tasks of ``graph`` run. ``compiled``: the kernel as machine code (None: where it is faster).

    Raises ValueError when tasks wait for each other in a circle.
    """
    if compiled is None:
        compiled = graph.tasks > INTERPRETED_TASKS or _is_loaded()
    state = _state(graph)
    if compiled:
        ended = _kernel()(state, graph.tasks)
    else:
        state = State(*(column.tolist() for column in state))
        ended = fluid_kernel.run(state, graph.tasks)
    if ended < graph.tasks:
        raise ValueError(f"{graph.tasks - ended} tasks wait for each other in a circle")
    ready, begin, sent, end = (
        np.asarray(column, dtype=np.float64) for column in (state.ready, state.begin, state.sent, state.end)
    )
    return Timeline(graph, ready, begin, sent, end, float(end.max(initial=0.0)))


def _state(graph: TransferGraph) -> State:
    n, resources, uses = graph.tasks, len(graph.rate), len(graph.uses)
    user = np.repeat(np.arange(n), np.diff(graph.uses_start))
    waiter = np.repeat(np.arange(n), np.diff(graph.waits_start))
    order = np.argsort(graph.waits, kind="stable")
    limit = np.full(n, np.inf)
    np.minimum.at(limit, user, graph.rate[graph.uses])

    def floats(length: int) -> Floats:
        return np.zeros(length, dtype=np.float64)

    def integers(length: int) -> Ints:
        return np.zeros(length, dtype=np.int64)

    def flags(length: int) -> np.ndarray[Any, np.dtype[np.bool_]]:
        return np.zeros(length, dtype=np.bool_)

    return State(
        rate=graph.rate, uses=graph.uses, uses_start=graph.uses_start, user=user,
        followers=waiter[order], followers_start=_starts(graph.waits, n),
        delay=graph.delay, size=graph.size + graph.held, after=graph.after, limit=limit,
        missing=np.diff(graph.waits_start), phase=integers(n),
        ready=floats(n), begin=floats(n), sent=floats(n), end=floats(n),
        left=floats(n), since=floats(n), speed=floats(n), key=floats(n),
        heap=integers(n), place=np.full(n, -1, dtype=np.int64),
        flows_start=_starts(graph.uses, resources), flows=integers(uses), active=integers(resources),
        seat=integers(uses), asked=floats(resources), tight=flags(resources),
        touched=integers(resources), is_touched=flags(resources),
        members=integers(resources), is_member=flags(resources), spare=floats(resources), open=integers(resources),
        waiting=integers(n), is_waiting=flags(n), fresh=integers(n), ended=integers(n), counts=integers(6),
    )  # fmt: skip


def _starts(values: Ints, count: int) -> Ints:
    """Where each of ``count`` values begins when ``values`` are sorted; one more for the end."""
    return np.concatenate(([0], np.cumsum(np.bincount(values, minlength=count)))).astype(np.int64)


def _is_loaded() -> bool:
    return _kernel.cache_info().currsize > 0


@cache
def _kernel() -> Callable[[State, int], int]:
    """``fluid_kernel.run`` as machine code; compiled on first use and kept on disk where that is possible.

    A place that cannot be written, or a damaged file there, costs the compilation and nothing else.
    """
    try:
        kept = _compiled(cache_on_disk=True)
    except RuntimeError:  # no place for the cache
        return _compiled(cache_on_disk=False)

    def run(state: State, tasks: int) -> int:
        try:
            return int(kept(state, tasks))
        except Exception:  # the file on disk does not load; the kernel itself raises nothing
            return int(_compiled(cache_on_disk=False)(state, tasks))

    return run


def _compiled(*, cache_on_disk: bool) -> Callable[[State, int], int]:
    """The functions of the kernel, compiled to call each other."""
    import numba

    names = dict(vars(fluid_kernel))
    sources = [f for f in names.values() if isinstance(f, FunctionType) and f.__module__ == fluid_kernel.__name__]
    for source in sources:
        own = FunctionType(source.__code__, names, source.__name__)
        own.__module__ = source.__module__
        names[source.__name__] = numba.njit(own, cache=cache_on_disk)
    entry: Callable[[State, int], int] = names["run"]
    return entry
