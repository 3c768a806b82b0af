"""Agreement on the end of a run, with a clock of our own and packets carried by hand."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hetesynth.execute.mpi import Conductor
from hetesynth.execute.players import Packet

TIMEOUT = 8.0


class Rank:
    """A player as far as a conductor sees it."""

    def __init__(self) -> None:
        self.settled = False
        self.why = ["thread block 0 waits for a message"]

    def waits(self) -> list[str]:
        return self.why


class Ranks:
    """So many conductors; ``lost``: ranks whose packets vanish and that hear nothing."""

    def __init__(self, count: int) -> None:
        self.now = 0.0
        self.lost: set[int] = set()
        self.players = [Rank() for _ in range(count)]
        self.conductors = [Conductor(r, count, TIMEOUT, self._sender(r), lambda: self.now) for r in range(count)]

    def _sender(self, source: int) -> Callable[[Packet], None]:
        def send(packet: Packet) -> None:
            if not {source, packet.peer} & self.lost:
                self.conductors[packet.peer].take(Packet(source, packet.kind, packet.channel, data=packet.data))

        return send

    def tick(self, moved: frozenset[int] = frozenset(), seconds: float = 1.0) -> None:
        self.now += seconds
        for rank, conductor in enumerate(self.conductors):
            if rank not in self.lost and not conductor.over:
                conductor.tick(self.players[rank], rank in moved)  # type: ignore[arg-type]

    def until_over(self, moved: frozenset[int] = frozenset()) -> float:
        while not all(c.over for r, c in enumerate(self.conductors) if r not in self.lost):
            self.tick(moved)
            if self.now > 100 * TIMEOUT:
                pytest.fail("it never ends")
        return self.now


def test_all_are_released_when_all_are_done_and_not_before() -> None:
    ranks = Ranks(3)
    for k in (1, 0):
        ranks.players[k].settled = True
        ranks.tick(seconds=0.1)
        assert not any(c.over for c in ranks.conductors)
    ranks.players[2].settled = True
    ranks.tick(seconds=0.1)
    ranks.tick(seconds=0.1)
    assert all(c.released and c.stopped is None for c in ranks.conductors)


def test_a_stall_of_all_ends_with_every_reason_soon_after_the_timeout() -> None:
    ranks = Ranks(3)
    ranks.players[2].why = ["thread block 7 waits for slot"]
    ended = ranks.until_over()
    assert TIMEOUT <= ended <= 2 * TIMEOUT
    for conductor in ranks.conductors:
        assert conductor.ending == "stall"
        assert conductor.stopped is not None
        assert "rank 2 thread block 7 waits for slot" in conductor.stopped
        assert len(conductor.stopped) == 3


def test_a_rank_that_does_not_answer_is_named() -> None:
    ranks = Ranks(3)
    ranks.lost = {2}
    assert ranks.until_over() <= 4 * TIMEOUT
    assert ranks.conductors[0].stopped is not None
    assert "rank 2 does not answer" in ranks.conductors[0].stopped


def test_without_rank_0_the_others_end_by_themselves() -> None:
    ranks = Ranks(3)
    ranks.lost = {0}
    ranks.players[1].settled = True
    assert ranks.until_over(frozenset({2})) <= 5 * TIMEOUT
    assert ranks.conductors[2].stopped == ("rank 0 does not answer",)


@pytest.mark.parametrize("rank", [0, 2])
def test_a_fault_anywhere_ends_all_at_once(rank: int) -> None:
    ranks = Ranks(3)
    ranks.conductors[rank].fault("thread block 1 step 0: o[9] is outside")
    assert ranks.now == 0
    for conductor in ranks.conductors:
        assert conductor.ending == "fault"
        assert conductor.stopped == (f"rank {rank} thread block 1 step 0: o[9] is outside",)
