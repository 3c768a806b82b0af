"""All ranks in one process: packets are handed over in queues. For tests, and where there is no MPI.

Nothing is parallel, so a stall is seen at once: nobody can go on and no packet is under way.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from hetesynth.execute.job import Job, Part
from hetesynth.execute.outcome import Fault, Run, diagnosis, gathered
from hetesynth.execute.players import Choice, Packet, Player


def run_in_process(job: Job, parts: Sequence[Part], choose: Choice | None = None) -> Iterator[Run]:
    """``choose``: the order of everything that has no order, for tests. Ends after a run that did not end well."""
    for in_place in job.aliasings:
        for _ in range(job.repeat):
            run = _World(job, parts, in_place, choose).run()
            yield run
            if run.ending != "done":
                return


class _World:
    def __init__(self, job: Job, parts: Sequence[Part], in_place: bool, choose: Choice | None) -> None:
        self._in_place = in_place
        self._choose = choose or (lambda _: 0)
        self._under_way: dict[tuple[int, int], deque[Packet]] = {}
        self._memory = [job.memory(part, in_place) for part in parts]
        self._players: list[Player] = []
        for rank, part in enumerate(parts):
            self._players.append(job.player(part, self._memory[rank], partial(self._post, rank), choose))

    def run(self) -> Run:
        started = time.perf_counter()
        try:
            for rank in range(len(self._players)):
                self._advance(rank)
            while self._under_way:
                pairs = list(self._under_way)
                pair = pairs[self._choose(len(pairs))]
                queue = self._under_way[pair]
                packet = queue.popleft()
                if not queue:
                    del self._under_way[pair]
                self._players[pair[1]].deliver(packet)
                self._advance(pair[1])
        except Fault as fault:
            return Run(self._in_place, "fault", time.perf_counter() - started, diagnosis=(str(fault),))
        seconds = time.perf_counter() - started
        if not all(player.settled for player in self._players):
            waits = {rank: player.waits() for rank, player in enumerate(self._players)}
            return Run(self._in_place, "stall", seconds, diagnosis=diagnosis(waits))
        return gathered([memory.check(seconds) for memory in self._memory], self._in_place)

    def _post(self, source: int, packet: Packet) -> None:
        self._under_way.setdefault((source, packet.peer), deque()).append(replace(packet, peer=source))

    def _advance(self, rank: int) -> None:
        try:
            self._players[rank].advance()
        except Fault as fault:
            raise Fault(f"rank {rank} {fault}") from None
