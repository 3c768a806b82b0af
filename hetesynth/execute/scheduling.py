"""Thread blocks of one rank as coroutines: each runs until it must wait, and goes on when it is woken.

Any order of running those that can go on is one that a GPU may take; by default it is the order of waking.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hetesynth.execute.outcome import Fault

if TYPE_CHECKING:
    from hetesynth.execute.arithmetic import Elements

Choice = Callable[[int], int]
"""Out of so many that can go on, which does."""


@dataclass(frozen=True, slots=True)
class Packet:
    """One message between ranks. ``kind`` says what ``channel`` and the numbers mean; see who sends it."""

    peer: int  # on sending: to; on receiving: from
    kind: int
    channel: int = 0
    numbers: tuple[int, int, int, int] = (0, 0, 0, 0)
    data: Elements | None = None  # of bytes when it arrives


Send = Callable[[Packet], None]


@dataclass(frozen=True, slots=True)
class Position:
    """Where a thread block is: its id, the step or operation, its name, the loop over a large buffer."""

    block: int
    step: int
    op: str
    loop: int = 0

    def __str__(self) -> str:
        loop = f", loop {self.loop}" if self.loop else ""
        return f"thread block {self.block} step {self.step} (`{self.op}`{loop})"


@dataclass(frozen=True, slots=True)
class Wait:
    """A thread block cannot go on. ``key``: what wakes it."""

    key: Hashable
    position: Position
    reason: str

    def __str__(self) -> str:
        return f"{self.position} waits for {self.reason}"


Coroutine = Generator[Wait, None, None]


class Scheduler:
    """Runs coroutines. ``choose``: the order, for tests that try many."""

    def __init__(self, coroutines: list[Coroutine], choose: Choice | None = None) -> None:
        self._ready = deque(coroutines)
        self._waiting: dict[Hashable, list[tuple[Coroutine, Wait]]] = {}
        self._choose = choose
        self.live = len(coroutines)

    def wake(self, key: Hashable) -> None:
        """Those that wait for ``key`` look again."""
        if key in self._waiting:
            self._ready.extend(coroutine for coroutine, _ in self._waiting.pop(key))

    def advance(self) -> bool:
        """Runs until all wait; whether any could go on. Fault: the program is broken."""
        moved = False
        while self._ready:
            moved = True
            if self._choose is not None:
                self._ready.rotate(-self._choose(len(self._ready)))
            coroutine = self._ready.popleft()
            try:
                wait = next(coroutine)
            except StopIteration:
                self.live -= 1
                continue
            self._waiting.setdefault(wait.key, []).append((coroutine, wait))
        return moved

    def waits(self) -> list[str]:
        """Who waits for what, by thread block."""
        pending = [wait for entries in self._waiting.values() for _, wait in entries]
        return [str(wait) for wait in sorted(pending, key=lambda w: (w.position.block, w.position.step))]


class Player:
    """One rank executing its part of a program: coroutines, and packets from other ranks.

    Subclasses give ``_coroutines``, ``deliver`` and ``_unsettled``.
    """

    def __init__(self, send: Send, choose: Choice | None = None) -> None:
        self.send = send
        self._scheduler = Scheduler(self._coroutines(), choose)

    def _coroutines(self) -> list[Coroutine]:
        raise NotImplementedError

    def deliver(self, packet: Packet) -> None:
        """Takes a packet from another rank. Packets of one rank come in the order they were sent."""
        raise NotImplementedError

    def _unsettled(self) -> list[str]:
        """What other ranks still have to take or answer."""
        raise NotImplementedError

    def advance(self) -> bool:
        """Goes on as far as possible; whether anything was done. Fault: the program is broken."""
        return self._scheduler.advance()

    def wake(self, key: Hashable) -> None:
        """Those that wait for ``key`` look again."""
        self._scheduler.wake(key)

    @property
    def blocks_done(self) -> bool:
        """Whether all thread blocks came to their end."""
        return not self._scheduler.live

    @property
    def settled(self) -> bool:
        """Whether, besides, all that it sent was taken."""
        return self.blocks_done and not self._unsettled()

    def waits(self) -> list[str]:
        """What keeps this rank from ending."""
        return self._scheduler.waits() or self._unsettled()


def refuse(kind: int) -> Fault:
    """A packet that nobody sends."""
    return Fault(f"a packet of unknown kind {kind}")
