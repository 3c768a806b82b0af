"""Where the buffers of a collective lie, and what they hold at the start and at the end: NCCL's rules by hand."""

from __future__ import annotations

import pytest

from hetesynth.judge.layout import Layout, Value
from hetesynth.model.program import Buffer


def layout(name: str, in_place: bool = False, root: int | None = None, block: int | None = 2) -> Layout:
    """Three ranks, blocks of two chunks; rank 1 is the root."""
    return Layout(name, in_place, root, [2, 3, 4], [6, 7, 8], block)


@pytest.mark.parametrize(
    ("name", "in_place", "buffer", "cell"),
    [
        ("allreduce", False, "i", 1), ("allreduce", False, "o", 4), ("allreduce", False, "s", 11),
        ("allreduce", True, "i", 1), ("allreduce", True, "o", 1), ("allreduce", True, "s", 45),
        ("allgather", True, "i", 5), ("allgather", True, "o", 1), ("gather", True, "i", 5),
        ("reducescatter", True, "i", 1), ("reducescatter", True, "o", 5), ("scatter", True, "o", 5),
    ],
)  # fmt: skip
def test_cells(name: str, in_place: bool, buffer: Buffer, cell: int) -> None:
    """Chunk 1 of rank 1's buffer as rank 2 sees it."""
    assert layout(name, in_place).cell(1, 2, buffer, 1) == cell


@pytest.mark.parametrize(
    ("name", "missing"), [("broadcast", "i"), ("scatter", "i"), ("reduce", "o"), ("gather", "o")]
)
def test_only_the_root_has_the_buffer_that_others_may_leave_out(name: str, missing: Buffer) -> None:
    buffers: tuple[Buffer, ...] = ("i", "o", "s")
    assert [b for b in buffers if layout(name, root=1).missing_buffer(0, b)] == [missing]
    assert not any(layout(name, root=1).missing_buffer(1, b) for b in buffers)
    assert not any(layout(name, True, root=1).missing_buffer(0, b) for b in buffers)
    assert not any(layout(name).missing_buffer(0, b) for b in buffers)
    assert not any(layout("allreduce").missing_buffer(0, b) for b in buffers)


@pytest.mark.parametrize(
    ("name", "root", "at_root", "elsewhere"),
    [
        ("allgather", None, (1, 4), (1, 4)), ("gather", 1, (1, 4), None),
        ("alltoall", None, (3, 4), (5, 4)), ("allreduce", None, (5, 7), (5, 7)),
        ("reduce", 1, (5, 7), None), ("reducescatter", None, (7, 7), (9, 7)),
        ("broadcast", 1, (5, 2), (5, 2)), ("scatter", 1, (7, 2), (9, 2)),
        ("broadcast", None, None, None), ("scatter", None, None, None), ("other", None, None, None),
    ],
)  # fmt: skip
def test_what_chunk_5_of_the_output_must_hold(
    name: str, root: int | None, at_root: Value | None, elsewhere: Value | None
) -> None:
    assert layout(name, root=root).expected(1, 5) == at_root
    assert layout(name, root=root).expected(2, 5) == elsewhere
    assert layout(name, root=root, block=None).expected(1, 5) is None
