"""Runs a transfer graph: when each task starts and ends.

Every resource is shared max-min fairly by the flows that use it at the moment (progressive filling: Bertsekas and
Gallager, Data Networks, 6.5.2), so the result does not depend on the order of simultaneous events. Small graphs
are interpreted, so that nothing needs to be loaded or compiled.
"""

from dataclasses import dataclass, make_dataclass
from functools import cache, partial
from typing import Any

import numpy as np

from hetesynth.machine_code import machine_code, pays
from hetesynth.model.timeline import Floats, Ints, Timeline, TransferGraph
from hetesynth.simulate import fluid_kernel
from hetesynth.simulate.fluid_kernel import State

Fields = list[tuple[str, str]]
_record_class = cache(partial(make_dataclass, "Record", slots=True))


def _fields(floats: str, integers: str) -> Fields:
    return [*((name, "f8") for name in floats.split()), *((name, "i4") for name in integers.split())]


TASK = _fields(
    "delay size after limit ready begin sent end left since speed key",
    "missing phase place first_use end_use first_follower end_follower is_waiting queue rank",
)
"""``size``: bytes. ``limit``: the rate when it is alone. ``ready`` to ``end``: results.
``left``: bytes not yet sent at ``since``. ``speed``: present rate. ``key``: when its next event is. ``missing``:
tasks still waited for. ``place``: in the heap, -1: not there. ``queue``: whose lane it needs, -1: none."""
RESOURCE = _fields("rate asked spare level", "first_flow active open tight is_touched is_member")
"""``asked``: what its flows would draw if each were alone. ``spare``: bytes per second not yet given. ``level``:
the rate of the flows that it holds back, while it is tight; infinite: it holds back none. ``first_flow``: in
``flows``. ``active``: flows. ``open``: flows without a rate yet."""
USE = _fields("", "resource task seat")
"""``seat``: in ``flows``."""
QUEUE = _fields("", "first_task waiting idle is_stirred")
"""``first_task``: in ``queued``. ``waiting``: tasks. ``idle``: lanes."""


@dataclass(frozen=True, slots=True, eq=False)
class Queues:
    """Tasks that wait for a lane besides: ``of[i]`` is the queue of task i, of ``lanes`` lanes each, ``rank`` its
    turn among those that are ready (distinct), ``limit`` the bytes per second of a lane."""

    of: Ints
    rank: Ints
    limit: Floats
    lanes: Ints


def simulate(graph: TransferGraph, *, compiled: bool | None = None, queues: Queues | None = None) -> Timeline:
    """Return when the tasks of ``graph`` run. ``compiled``: by machine code (None: where that is faster).

    Raises ValueError when tasks wait for each other in a circle.
    """
    if compiled is None:
        pairs = float(np.square(np.bincount(graph.uses), dtype=np.float64).sum())  # that use the same resource
        compiled = pays(fluid_kernel.run, 3e-5 * graph.tasks + 6e-7 * pairs)
    state = _state(graph, queues)
    results = ("ready", "begin", "sent", "end")
    if compiled:
        ended = int(machine_code(fluid_kernel.run)(state, graph.tasks))
        times = [state.tasks[name].copy() for name in results]
    else:  # plain numbers, and objects with an attribute for each field
        columns: list[list[Any]] = []
        for column in state:
            rows = column.tolist()
            record = _record_class(column.dtype.names) if column.dtype.names else None
            columns.append([record(*row) for row in rows] if record else rows)
        plain = State(*columns)
        ended = fluid_kernel.run(plain, graph.tasks)
        times = [np.asarray([getattr(t, name) for t in plain.tasks], dtype=np.float64) for name in results]
    if ended < graph.tasks:
        raise ValueError(f"{graph.tasks - ended} tasks wait for each other in a circle")
    ready, begin, sent, end = times
    return Timeline(graph, ready, begin, sent, end, float(end.max(initial=0.0)))


def _state(graph: TransferGraph, queues: Queues | None) -> State:
    n, resources, uses = graph.tasks, len(graph.rate), len(graph.uses)
    order = np.argsort(graph.waits, kind="stable")
    used = np.zeros(uses, dtype=USE)
    used["resource"] = graph.uses
    used["task"] = np.repeat(np.arange(n), np.diff(graph.uses_start))
    tasks = np.zeros(n, dtype=TASK)
    tasks["delay"], tasks["size"], tasks["after"] = graph.delay, graph.size, graph.after
    tasks["limit"] = np.inf
    np.minimum.at(tasks["limit"], used["task"], graph.rate[graph.uses])
    tasks["missing"] = np.diff(graph.waits_start)
    tasks["place"], tasks["queue"] = -1, -1
    waiting = np.zeros(0 if queues is None else len(queues.lanes), dtype=QUEUE)
    if queues is not None:
        tasks["queue"], tasks["rank"] = queues.of, queues.rank
        tasks["limit"] = np.minimum(tasks["limit"], queues.limit)
        waiting["first_task"], waiting["idle"] = _starts(queues.of, len(waiting))[:-1], queues.lanes
    tasks["first_use"], tasks["end_use"] = graph.uses_start[:-1], graph.uses_start[1:]
    followers_start = _starts(graph.waits, n)
    tasks["first_follower"], tasks["end_follower"] = followers_start[:-1], followers_start[1:]
    limits = np.zeros(resources, dtype=RESOURCE)
    limits["rate"] = graph.rate
    limits["first_flow"] = _starts(graph.uses, resources)[:-1]
    followers = np.repeat(np.arange(n), np.diff(graph.waits_start))[order]
    lags = np.zeros(len(order)) if graph.lags is None else graph.lags[order]
    lengths = (uses, n, resources, resources, n, n, n, 7, n if len(waiting) else 0, len(waiting))
    work = [np.zeros(length, dtype=np.int64) for length in lengths]
    return State(tasks, limits, used, waiting, followers, lags, *work)


def _starts(values: Ints, count: int) -> Ints:
    """Return where each of ``count`` values begins in sorted ``values``, and one more for the end."""
    return np.concatenate(([0], np.cumsum(np.bincount(values, minlength=count)))).astype(np.int64)
