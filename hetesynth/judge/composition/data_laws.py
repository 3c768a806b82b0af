"""What moves where: every chunk reaches every GPU once, or every addend is added once; nothing moves too early.

In: the transfers of a phase in the order of time. Out: violations. All ranks and positions are followed, each in a
cell of a table.

Of a sum the law is that for each position the transfers are a tree into its owner: every other rank sends it once,
the owner never, and none sends before all that is added to it has arrived, nor receives after it has sent. Such a
tree adds each input exactly once.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from hetesynth.judge.composition.document import Ints
from hetesynth.judge.composition.expansion import Event, Expansion
from hetesynth.model.verdict import Violation, ViolationKind

NEVER = np.iinfo(np.int64).max


def transfers(expansion: Expansion, event: Event) -> tuple[Ints, Ints, Ints]:
    """Position, sender and receiver of every transfer of ``event``."""
    if event.kind < 0:
        crossing = expansion.crossing(event)
        ranks = expansion.gate_rank
        return crossing.position, ranks[crossing.leaves], ranks[crossing.enters]
    local = expansion.local(event)
    return (local.position, *expansion.ranks(event, local))


def copy_violations(expansion: Expansion, events: list[Event]) -> Iterator[Violation]:
    """Of a phase that copies: who sends has the chunk, who receives has not, and in the end all have all."""
    document = expansion.document
    since = np.full((document.ranks, document.positions), NEVER, np.int64)
    since[expansion.owner, np.arange(document.positions)] = 0
    for event in events:
        position, src, dst = transfers(expansion, event)
        yield from _first(
            since[src, position] > event.start, "not-held", event, position, src, "sends what it does not have yet"
        )
        yield from _first(since[dst, position] != NEVER, "already-held", event, position, dst, "has it already")
        yield from _first(_repeated(dst, position), "received-twice", event, position, dst, "receives it twice")
        since[dst, position] = event.end
    rank, position = np.nonzero(since == NEVER)
    yield from _missing(rank, position, "never gets it")


def sum_violations(expansion: Expansion, events: list[Event]) -> Iterator[Violation]:
    """Of a phase that adds: the transfers of each position are a tree into its owner, leaves first."""
    document = expansion.document
    sent = np.zeros((document.ranks, document.positions), np.bool_)
    ready = np.zeros((document.ranks, document.positions), np.int64)
    for event in events:
        position, src, dst = transfers(expansion, event)
        yield from _first(
            ready[src, position] > event.start, "not-held", event, position, src,
            "sends a sum to which something is being added",
        )  # fmt: skip
        again = sent[src, position] | _repeated(src, position)
        yield from _first(again, "contribution-twice", event, position, src, "sends it a second time")
        owner = expansion.owner[position] == src
        yield from _first(owner, "contribution-twice", event, position, src, "sends the sum that it is to keep")
        sent[src, position] = True
        yield from _first(
            sent[dst, position], "not-delivered", event, position, dst, "is sent an addend after it sent its sum"
        )
        ready[dst, position] = np.maximum(ready[dst, position], event.end)
    sent[expansion.owner, np.arange(document.positions)] = True
    rank, position = np.nonzero(~sent)
    yield from _missing(rank, position, "never gives its part")


def _repeated(rank: Ints, position: Ints) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Which pairs stand there a second time."""
    if not len(rank):
        return np.zeros(0, np.bool_)
    key = rank * (int(position.max()) + 1) + position
    order = np.argsort(key, kind="stable")
    again = np.zeros(len(key), np.bool_)
    again[order[1:]] = np.diff(key[order]) == 0
    return again


def _first(
    wrong: np.ndarray[tuple[int, ...], np.dtype[np.bool_]], kind: ViolationKind, event: Event, position: Ints,
    rank: Ints, what: str,
) -> Iterator[Violation]:  # fmt: skip
    """One violation for all that is wrong in this way in one event."""
    if not wrong.any():
        return
    i, count = int(np.argmax(wrong)), int(wrong.sum())
    k, r = int(position[i]), int(rank[i])
    where = (
        f"round {event.round}"
        if event.kind < 0
        else f"batch {event.round + 1} of kind {event.kind}, step {event.step}"
    )
    more = f" (and {count - 1} more there)" if count > 1 else ""
    yield Violation(kind, f"{where}: rank {r} {what}: position {k}{more}", step=event.round, chunk=k, rank=r)


def _missing(rank: Ints, position: Ints, what: str) -> Iterator[Violation]:
    if len(rank):
        r, k = int(rank[0]), int(position[0])
        more = f" (and {len(rank) - 1} more)" if len(rank) > 1 else ""
        yield Violation("not-delivered", f"rank {r} {what}: position {k}{more}", chunk=k, rank=r)
