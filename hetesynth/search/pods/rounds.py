"""Rounds between pods: which chunks each pod sends to which other.

In: the pods' numbers of chunks, an order of the pods. Out: rounds of moves. A move takes consecutive positions of
chunks from one pod to another; who holds them at its start is what earlier rounds brought. Knows no gates, no
rates and no times.

Positions number the chunks of all pods, those of pod q from ``first[q]`` on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple


class Move(NamedTuple):
    """``chunks`` of them from position ``first`` on, from pod ``src`` to pod ``dst``."""

    src: int
    dst: int
    first: int
    chunks: int


Round = list[Move]


@dataclass(frozen=True, slots=True)
class Blocks:
    """The positions of each pod: ``count[q]`` from ``first[q]`` on."""

    first: tuple[int, ...]
    count: tuple[int, ...]


def ring(blocks: Blocks, order: Sequence[int], at_once: int) -> list[Round]:
    """Every pod passes on to the next what it has, first its own and then in the order of arrival, ``at_once``
    chunks a round; nothing returns to the pod that it comes from."""
    pods = len(order)
    queues = [deque([(blocks.first[p], blocks.count[p], p)]) for p in order]
    rounds: list[Round] = []
    while any(queues):
        sends = [list(_popped(queue, at_once)) for queue in queues]
        for i, sent in enumerate(sends):
            behind = order[(i + 2) % pods]
            queues[(i + 1) % pods].extend(run for run in sent if run[2] != behind)
        rounds.append(
            [
                Move(order[i], order[(i + 1) % pods], first, count)
                for i, sent in enumerate(sends)
                for first, count in _joined((first, count) for first, count, _ in sent)
            ]
        )
    return rounds


def _popped(queue: deque[tuple[int, int, int]], most: int) -> Iterator[tuple[int, int, int]]:
    """The first ``most`` chunks of a queue, which loses them."""
    while queue and most:
        first, count, origin = queue.popleft()
        if count > most:
            queue.appendleft((first + most, count - most, origin))
            count = most
        most -= count
        yield first, count, origin


def _joined(runs: Iterator[tuple[int, int]]) -> list[tuple[int, int]]:
    """Runs of positions with neighbours joined."""
    joined: list[tuple[int, int]] = []
    for first, count in sorted(runs):
        if joined and sum(joined[-1]) == first:
            joined[-1] = joined[-1][0], joined[-1][1] + count
        else:
            joined.append((first, count))
    return joined


def doubling(blocks: Blocks, order: Sequence[int]) -> list[Round]:
    """In round i every pod sends the last 2^i blocks that it has to the pod 2^i places on; the last round sends
    what is missing (Bruck et al. 1997)."""
    pods = len(order)
    rounds: list[Round] = []
    distance = 1
    while distance < pods:
        some = min(distance, pods - distance)
        rounds.append(
            [
                Move(order[i], order[(i + distance) % pods], first, count)
                for i in range(pods)
                for first, count in _joined(
                    (blocks.first[q], blocks.count[q]) for q in (order[i - b] for b in range(some))
                )
            ]
        )
        distance *= 2
    return rounds
