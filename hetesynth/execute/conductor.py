"""Agreement on how a run ends, where nobody sees all ranks: done, stalled or broken.

In: what this rank does and the packets of other conductors. Out: ``released`` (everyone is done), or ``stopped``
with a diagnosis. Rank 0 decides. Ranks tell it when they are done and, now and then, whether they have been idle
for ``timeout`` seconds and why; when all that are not done are idle or silent, nothing can happen any more. It
calls back, so that ranks notice when it is gone. Every wait has a limit. Knows nothing of MPI; the clock is passed
in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from hetesynth.execute.outcome import Ending
from hetesynth.execute.scheduling import Packet, Player, Send
from hetesynth.execute.stalls import diagnosis

if TYPE_CHECKING:
    from hetesynth.execute.arithmetic import Elements

CONTROL = 100
"""Packets of this kind and above are between conductors."""
STATUS, DONE, FAULT, RELEASE, STOP, ALIVE = range(CONTROL, CONTROL + 6)
MAX_TEXT = 2000
SILENT = "does not answer"


class Conductor:
    """One rank's view of one run."""

    def __init__(self, rank: int, ranks: int, timeout: float, send: Send, clock: Callable[[], float]) -> None:
        now = clock()
        self.rank, self._ranks, self._timeout, self._send, self._clock = rank, ranks, timeout, send, clock
        self.released = False
        self.stopped: tuple[str, ...] | None = None
        self.ending: Ending = "done"
        self.broken = False
        self._reported_done = False
        self._moved = self._spoke = now
        self._heard = dict.fromkeys(range(ranks), now)  # rank 0 listens to all, others to rank 0
        self._status: dict[int, str] = {}
        self._done: set[int] = set()

    @property
    def over(self) -> bool:
        """Whether this rank may leave the run."""
        return self.released or self.stopped is not None

    def fault(self, text: str) -> None:
        """End all ranks, since this one cannot go on."""
        self.broken = True
        text = f"rank {self.rank} {text}"
        if self.rank == 0:
            self._stop("fault", (text,))
        else:
            self._send(Packet(0, FAULT, data=_encoded(text)))

    def take(self, packet: Packet) -> None:
        """A packet of another conductor."""
        self._heard[packet.peer] = self._clock()
        text = "" if packet.data is None else bytes(packet.data).decode(errors="replace")
        if packet.kind == STATUS:
            self._status[packet.peer] = text
        elif packet.kind == DONE:
            self._done.add(packet.peer)
        elif packet.kind == FAULT:
            self._stop("fault", (text,))
        elif packet.kind == RELEASE:
            self.released = True
        elif packet.kind == STOP:
            self.ending = "fault" if packet.channel else "stall"
            self.stopped = tuple(text.splitlines())

    def tick(self, player: Player, moved: bool) -> None:
        """To be called again and again; ``moved``: whether anything was done since the last time."""
        now = self._clock()
        if moved:
            self._moved = now
        if player.settled and not self._reported_done:
            self._reported_done = True
            self._done.add(self.rank)
            if self.rank:
                self._send(Packet(0, DONE))
        if self.rank == 0 and len(self._done) == self._ranks:
            self._everyone(RELEASE)
            self.released = True
        elif now - self._spoke >= self._timeout / 4:
            self._spoke = now
            self._speak(player, now)

    def _speak(self, player: Player, now: float) -> None:
        """Reports the state to rank 0. Rank 0 decides; others notice when it no longer answers."""
        idle = not player.settled and now - self._moved >= self._timeout
        status = "\n".join(player.waits())[:MAX_TEXT] if idle else ""
        if self.rank:
            self._send(Packet(0, STATUS, data=_encoded(status)))
            if now - self._heard[0] > 3 * self._timeout:
                self.ending, self.stopped = "stall", (f"rank 0 {SILENT}",)
            return
        self._heard[0], self._status[0] = now, status
        self._everyone(ALIVE)
        reasons = {rank: self._stuck(rank, now) for rank in range(self._ranks) if rank not in self._done}
        if all(reasons.values()):
            self._stop("stall", diagnosis({rank: text.splitlines() for rank, text in reasons.items()}))

    def _stuck(self, rank: int, now: float) -> str:
        """Why a rank will not go on; empty when it may."""
        return SILENT if now - self._heard[rank] > 2 * self._timeout else self._status.get(rank, "")

    def _stop(self, ending: Ending, lines: tuple[str, ...]) -> None:
        if self.stopped is None:
            self.ending, self.stopped = ending, lines
            self._everyone(STOP, "\n".join(lines), int(ending == "fault"))

    def _everyone(self, kind: int, text: str = "", channel: int = 0) -> None:
        for rank in range(1, self._ranks):
            self._send(Packet(rank, kind, channel, data=_encoded(text) if text else None))


def _encoded(text: str) -> Elements:
    import numpy as np

    return np.frombuffer(text.encode(), dtype=np.uint8)
