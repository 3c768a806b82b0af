"""All ranks in one process: packets are handed over in queues. For tests, and where there is no MPI.

Nothing is parallel, so a stall is seen at once: nobody can go on and no packet is under way.
"""

import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from hetesynth.execute.job import Job, Part
from hetesynth.execute.outcome import Fault, Run, diagnosis, gathered
from hetesynth.execute.players import Choice, Packet


def run_in_process(job: Job, parts: Sequence[Part], choose: Choice | None = None) -> Iterator[Run]:
    """Yield the runs, up to one that does not end well. ``choose``: orders what has no order, for tests."""
    for in_place in job.aliasings:
        run = _run(job, parts, in_place, choose)
        yield run
        if run.ending != "done":
            return


def _run(job: Job, parts: Sequence[Part], in_place: bool, choose: Choice | None) -> Run:
    under_way: dict[tuple[int, int], deque[Packet]] = {}

    def post(source: int, packet: Packet) -> None:
        under_way.setdefault((source, packet.peer), deque()).append(replace(packet, peer=source))

    memory = [job.memory(part, in_place) for part in parts]
    players = [job.player(part, memory[r], partial(post, r), choose) for r, part in enumerate(parts)]
    started, at = time.perf_counter(), 0
    try:
        for at in range(len(players)):
            players[at].advance()
        while under_way:
            pairs = list(under_way)
            pair = pairs[choose(len(pairs)) if choose is not None else 0]
            packet = under_way[pair].popleft()
            if not under_way[pair]:
                del under_way[pair]
            at = pair[1]
            players[at].deliver(packet)
            players[at].advance()
    except Fault as fault:
        return Run(in_place, "fault", time.perf_counter() - started, diagnosis=(f"rank {at} {fault}",))
    seconds = time.perf_counter() - started
    if not all(player.settled for player in players):
        waits = {rank: player.waits() for rank, player in enumerate(players)}
        return Run(in_place, "stall", seconds, diagnosis=diagnosis(waits))
    return gathered([own.check(seconds) for own in memory])
