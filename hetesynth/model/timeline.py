"""Tasks that share resources, and when each of them ran.

In a ``TransferGraph`` a task waits for others, then for a delay, then sends bytes over resources, then computes. A
``Timeline`` says when, a ``Dispatch`` when the messages of a schedule are sent. Arrays, one entry a task: n tasks,
R resources. Seconds, bytes, bytes per second. Knows nothing of links and thread blocks: what makes a graph keeps
what its tasks stand for.
"""

from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class TransferGraph:
    """The tasks to be simulated and the resources that they share.

    ``names``, ``rate`` (R): the resources. ``waits[waits_start[i] : waits_start[i + 1]]``: the tasks that must end
    before task i is ready, each ``lags`` before it at least (None: 0). ``uses``, indexed in the same way by
    ``uses_start``: the resources task i draws from, all at one rate. ``delay``: from ready to the first byte.
    ``size``: bytes to send. ``after``: from the last byte to the end.
    """

    names: tuple[str, ...]
    rate: Floats
    waits: Ints
    waits_start: Ints
    uses: Ints
    uses_start: Ints
    delay: Floats
    size: Floats
    after: Floats
    lags: Floats | None = None

    @property
    def tasks(self) -> int:
        """The number of tasks, n."""
        return len(self.delay)


@dataclass(frozen=True, slots=True)
class ResourceUse:
    """The use of a resource. ``share``: ``size`` over what it could carry by the end; ``busy``: seconds in use."""

    name: str
    rate: float
    size: float
    busy: float
    share: float


@dataclass(frozen=True, slots=True, eq=False)
class Timeline:
    """The seconds from the start at which tasks were ready, sent their first and last byte, and ended: n of each.

    ``makespan`` is the last end, including long runs of equal loops that were not simulated but extrapolated.
    """

    graph: TransferGraph
    ready: Floats
    begin: Floats
    sent: Floats
    end: Floats
    makespan: float

    def uses(self) -> tuple[ResourceUse, ...]:
        """Return the use of every resource, in the order of the graph."""
        graph = self.graph
        task = np.repeat(np.arange(graph.tasks), np.diff(graph.uses_start))
        carried = np.bincount(graph.uses, weights=graph.size[task], minlength=len(graph.names))
        span = float(self.end.max(initial=0.0))
        begin, sent = self.begin[task], self.sent[task]
        order = np.lexsort((begin, graph.uses))
        intervals = zip(graph.uses[order].tolist(), begin[order].tolist(), sent[order].tolist(), strict=True)
        busy = [0.0] * len(graph.names)  # seconds in which at least one of the intervals is under way
        until, current = 0.0, -1
        for resource, first, last in intervals:
            if resource != current:
                current, until = resource, 0.0
            busy[resource] += max(0.0, last - max(first, until))
            until = max(until, last)
        return tuple(
            ResourceUse(name, rate, size, used, size / (rate * span) if span > 0 else 0.0)
            for name, rate, size, used in zip(
                graph.names, graph.rate.tolist(), carried.tolist(), busy, strict=True
            )
        )

    def bottleneck(self) -> ResourceUse | None:
        """Return the use of the resource with the largest share, the first of equals; None: no resources."""
        return max(self.uses(), key=lambda use: use.share, default=None)


@dataclass(frozen=True, eq=False)
class Lanes:
    """Thread blocks that each send one message at a time. ``of[t]``: the group of lanes that send transfer t; a
    group has one link. ``number[g]``: the number of lanes of group g."""

    of: Ints
    number: Ints


@dataclass(frozen=True, eq=False)
class Dispatch:
    """The seconds at which a lane begins each message and has sent its last byte: piece p of transfer t is message
    p x transfers + t. ``makespan``: counts the start of the kernel. ``period``: seconds from one loop to the next
    once the pipeline is full; infinite: there is one loop. ``span``: seconds within which a thread block has to
    send all its messages of a loop."""

    pieces: int
    lanes: Lanes
    start: Floats
    sent: Floats
    makespan: float
    period: float = inf
    span: float = inf
