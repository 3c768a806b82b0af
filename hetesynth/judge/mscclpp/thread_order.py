"""What single threads of a thread block push to a channel, and in which order that arrives there.

In: a thread block's operations. Out: for each channel and each stretch of operations between two meetings of the
block's threads, an ``Order``. Knows no memory and no vector clocks.

How the runtime's kernel shares out an operation over threads: thread i of the block handles entry i. It signals
and waits on ``channel_ids[i]``, flushes ``channel_ids[i]`` if there is a ``dst_buff[i]``, and over port channels
puts ``src_buff[i]`` to ``dst_buff[i]`` on ``channel_ids[i]``. What one thread pushes to a port channel stays in
order. What two threads push without a ``nop`` or a ``barrier`` between them arrives in either order: a signal or
flush may then overtake the put of another thread, and the receiver may take either of two signals for the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from hetesynth.model.plan import ChannelType, PlanBlock, PlanOperation

PUTS = frozenset({"put", "pws", "pwsf"})
Push = Literal["put", "signal", "relaxed"]
Where = tuple[int, ChannelType, int]
"""(segment from 1, type of channel, index into the GPU's channels of that type)."""


@dataclass(frozen=True, slots=True)
class Order:
    """What is sure of the pushes to one channel in one segment.

    ``covers``: for each put, in the order of the operations, the number of signals of this segment that must have
    arrived before the put surely has; beyond their number when only a later segment's signal says so.
    ``relaxed``: how many signals may arrive before the first that is not relaxed.
    """

    covers: tuple[int, ...]
    relaxed: int


def orders(block: PlanBlock) -> dict[Where, Order]:
    """Every channel of ``block`` in every segment in which something is pushed to it."""
    pushed: dict[Where, list[tuple[int, Push]]] = {}
    segment = 1
    for operation in block.operations:
        if operation.op in ("nop", "barrier"):
            segment += 1
        kind = operation.channel_type or "memory"
        channels = block.channels(kind)
        for thread, channel in enumerate(operation.channels):
            for push in _pushes(operation, kind):
                pushed.setdefault((segment, kind, channels[channel]), []).append((thread, push))
    return {where: _order(pushes) for where, pushes in pushed.items()}


def _pushes(operation: PlanOperation, kind: ChannelType) -> Iterator[Push]:
    if operation.op in PUTS and kind == "port":
        yield "put"
    if operation.op in ("signal", "pws", "pwsf"):
        yield "signal"
    if operation.op == "rlxsignal":  # the kernel has no relaxed form for ports: it signals
        yield "signal" if kind == "port" else "relaxed"


def _order(pushed: list[tuple[int, Push]]) -> Order:
    """Any order may arise in which each thread's own pushes stay in theirs.

    So a put comes after at most all signals but those its own thread gives behind it.
    """
    signals = sum(push != "put" for _, push in pushed)
    covers = []
    for i, (thread, push) in enumerate(pushed):
        if push == "put":
            behind = sum(t == thread and p != "put" for t, p in pushed[i:])
            covers.append(signals - behind + 1)
    relaxed = 0
    for thread in {t for t, _ in pushed}:
        own = [p for t, p in pushed if t == thread and p != "put"]
        relaxed += own.index("signal") if "signal" in own else len(own)
    return Order(tuple(covers), relaxed)
