"""How many links data crosses one after another."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from hetesynth.model.schedule import Schedule, Transfer, hops


@dataclass(frozen=True)
class Ends:
    """A link as far as hops need it: its two GPUs."""

    src: int
    dst: int


RING = tuple(Ends(r, (r + 1) % 4) for r in range(4))
STAR = tuple(Ends(0, r) for r in range(1, 4))


@pytest.mark.parametrize(
    ("links", "transfers", "most"),
    [
        (RING, [], 0),
        (STAR, [Transfer(0, 1, 0, k) for k in range(3)], 1),
        (RING, [Transfer(k, k + 1, 0, k) for k in range(3)], 3),
        (RING, [Transfer(k, k + 1, k, k) for k in range(3)], 1),  # of three chunks, each its own
        (RING, [Transfer(0, 3, 0, 0), Transfer(2, 3, 0, 1)], 1),  # what leaves before the other arrives
        (RING, [Transfer(0, 2, 0, 0, True), Transfer(2, 3, 0, 1, True), Transfer(3, 4, 0, 2, True)], 3),
    ],
)
def test_hops(links: tuple[Ends, ...], transfers: list[Transfer], most: int) -> None:
    assert hops(Schedule.of(transfers), links) == most
