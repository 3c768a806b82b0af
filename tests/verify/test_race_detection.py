"""Cells remember the last write and the reads since; whoever does not know one of them races with it."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import ClassVar, cast

import pytest

from hetesynth.judge.layout import Layout, Value
from hetesynth.judge.race_detection import MANY, Cell, Conflict, Kind, Memory, Part

VALUES: list[Value] = [(0, 1)]
Read = tuple[int, int, Part]  # actor, stamp, part


@pytest.mark.parametrize(
    ("reads", "kept"),
    [
        ([], []),
        ([(0, 0, (3, 0))], [(0, 0, (3, 0))]),
        ([(0, 5, (3, 0)), (0, 5, (3, 0))], [(0, 5, (3, 0))]),
        ([(0, 5, (3, 0)), (0, 5, (3, 1))], [(0, 5, (3, -1))]),
        ([(0, 5, (3, 0)), (0, 5, (4, 3))], [(0, 5, MANY)]),
        ([(0, 5, (3, 0)), (0, 6, (3, 1))], [(0, 6, (3, 1))]),
        ([(0, 5, (3, 0)), (1, 5, (4, 1))], [(0, 5, (3, 0)), (1, 5, (4, 1))]),
        ([(0, 1, MANY), (1, 5, (3, 0)), (1, 5, (3, 0))], [(0, 1, MANY), (1, 5, (3, 0))]),
        ([(0, 1, MANY), (1, 5, (3, 0)), (1, 5, (3, 1))], [(0, 1, MANY), (1, 5, (3, -1))]),
        ([(0, 1, MANY), (1, 5, (3, 0)), (1, 5, (4, 3))], [(0, 1, MANY), (1, 5, MANY)]),
        ([(0, 1, MANY), (1, 5, (3, 0)), (1, 6, (3, 1))], [(0, 1, MANY), (1, 6, (3, 1))]),
        ([(0, 1, MANY), (1, 5, (3, 0)), (2, 5, (3, 1))], [(0, 1, MANY), (1, 5, (3, 0)), (2, 5, (3, 1))]),
    ],
)
def test_of_the_reads_of_an_actor_the_last_is_kept(reads: list[Read], kept: list[Read]) -> None:
    cell = Cell()
    for actor, stamp, part in reads:
        cell.add_read(actor, stamp, part)
    assert list(cell.reads()) == kept


@dataclass(frozen=True)
class By:
    """An access of an actor that knows what ``known`` have done."""

    actor: int
    stamp: int
    known: frozenset[int] = frozenset()
    operation: int = 7

    def knows(self, actor: int, stamp: int, part: Part, position: int) -> bool:
        return actor == self.actor or actor in self.known


class Cells(Memory[By, str]):
    """Keeps what is reported."""

    BY_POSITION: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__(cast(Layout, SimpleNamespace(initial=lambda rank, cell: None)), 0)
        self.said: list[tuple[int, Kind, int, Kind, Part]] = []

    def _undefined(self, access: By, where: str, position: int) -> None:
        pass

    def _report_race(self, access: By, kind: Kind, other: Conflict, where: str, position: int) -> None:
        self.said.append((access.actor, kind, other.actor, other.kind, other.part))


class Positions(Cells):
    """With parts."""

    BY_POSITION: ClassVar[bool] = True


def test_a_write_races_with_the_reads_since_the_last_one() -> None:
    memory = Cells()
    memory.read(By(0, 1), 0, 1, "")
    memory.write(By(0, 2), 0, VALUES, "")
    memory.read(By(1, 1, frozenset({0})), 0, 1, "")
    memory.write(By(2, 1, frozenset({0})), 0, VALUES, "")
    assert memory.said == [(2, "write", 1, "read", MANY)]


def test_each_pair_of_actors_is_told_once() -> None:
    memory = Cells()
    memory.write(By(0, 1), 0, VALUES, "")
    for _ in range(2):
        memory.read(By(1, 1), 0, 1, "")
        memory.read(By(2, 1), 0, 1, "")
    assert memory.said == [(1, "read", 0, "write", MANY), (2, "read", 0, "write", MANY)]


def test_pairs_are_told_apart_by_either_actor() -> None:
    memory = Cells()
    for actor in range(2):
        memory.write(By(actor, 1), actor, VALUES, "")
    memory.read(By(2, 1), 0, 2, "")
    assert [said[2] for said in memory.said] == [0, 1]


def test_parts_are_kept_where_threads_share_slices_by_position() -> None:
    memory = Positions()
    memory.write(By(0, 1), 4, VALUES * 3, "")
    memory.read(By(1, 1), 6, 1, "")
    memory.write(By(2, 1, frozenset({0})), 6, VALUES, "")
    assert memory.said == [(1, "read", 0, "write", (7, 2)), (2, "write", 1, "read", (7, 0))]


def test_a_write_races_with_a_write_and_with_a_read() -> None:
    memory = Cells()
    memory.write(By(0, 1), 0, VALUES, "")
    memory.write(By(1, 1), 0, VALUES, "")
    memory.read(By(0, 2, frozenset({1})), 0, 1, "")
    memory.write(By(2, 1, frozenset({1})), 0, VALUES, "")
    assert memory.said == [(1, "write", 0, "write", MANY), (2, "write", 0, "read", MANY)]
