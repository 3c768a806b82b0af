"""Values of chunks in words, and sums of them."""

from __future__ import annotations

from hetesynth.judge.layout import BROKEN, SHOWN_RANKS, added, named


def test_values_in_words() -> None:
    assert named(None) == "nothing" and named(BROKEN) == "spoilt data"
    assert named((3, 0b1)) == "input chunk 3 of rank 0"
    assert named((3, 0b101)) == "input chunk 3 of ranks 0,2"
    most = ",".join(map(str, range(SHOWN_RANKS)))
    assert named((0, (1 << SHOWN_RANKS) - 1)) == f"input chunk 0 of ranks {most}"
    assert named((0, (1 << SHOWN_RANKS + 1) - 1)) == f"input chunk 0 of ranks {most},..."


def test_sums_and_what_is_wrong_with_them() -> None:
    said: list[tuple[str, str]] = []
    left = [(0, 0b001), BROKEN, (1, 0b1), (1, 0b1), (2, 0b011)]
    right = [(0, 0b110), (0, 0b1), BROKEN, (2, 0b10), (2, 0b110)]
    assert added(left, right, lambda *one: said.append(one)) == [(0, 0b111), BROKEN, BROKEN, BROKEN, BROKEN]
    assert said == [
        ("different chunks", "adds input chunk 1 of rank 0 to input chunk 2 of rank 1: different chunks"),
        ("added twice", "contribution added twice: both sides already hold input chunk 2 of rank 1"),
    ]
