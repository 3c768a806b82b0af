"""Where chunks stand: the conventions of NCCL, and memory with two names."""

from __future__ import annotations

import pytest

from hetesynth.model.collective import COLLECTIVE_NAMES, ROOTED
from hetesynth.model.program import BufferSlice
from hetesynth.programs.layout import Layout, in_place_supported
from hetesynth.search.collectives import collective

N, C = 4, 3


def layout(name: str, in_place: bool = False) -> Layout:
    return Layout(collective(name, N, C, 2 if name in ROOTED else None), in_place)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "loop", "root", "other"),
    [
        ("allgather", N * C, (C, N * C), (C, N * C)),
        ("reducescatter", N * C, (N * C, C), (N * C, C)),
        ("allreduce", N * C, (N * C, N * C), (N * C, N * C)),
        ("alltoall", N * C, (N * C, N * C), (N * C, N * C)),
        ("broadcast", C, (C, C), (C, C)),
        ("reduce", C, (C, C), (C, C)),
        ("gather", C, (C, N * C), (C, 0)),
        ("scatter", C, (N * C, C), (0, C)),
    ],
)
def test_sizes(name: str, loop: int, root: tuple[int, int], other: tuple[int, int]) -> None:
    assert (layout(name).chunks_per_loop, layout(name).sizes(2), layout(name).sizes(0)) == (loop, root, other)


@pytest.mark.parametrize("name", COLLECTIVE_NAMES)
@pytest.mark.parametrize("in_place", [False, True])
def test_every_rank_fills_its_buffers_once(name: str, in_place: bool) -> None:
    """Sources are the input, targets the output, each cell once, and none outside."""
    if in_place and not in_place_supported(name):  # type: ignore[arg-type]
        return
    where = layout(name, in_place)
    for rank in range(N):
        inputs, outputs = where.sizes(rank)
        chunks = range(len(where.collective.chunks))
        sources = [s for k in chunks if (s := where.source(rank, k))]
        targets = [t.offset for k in chunks if (t := where.target(rank, k))]
        assert len({where.cell(rank, s) for s in sources}) == len(sources)
        if not in_place:
            assert {s.buffer for s in sources} <= {"i"}
            assert all(s.offset < inputs for s in sources)
        if rank == where.collective.root or name not in ("reduce", "gather"):
            assert sorted(targets) == list(range(outputs))
        else:
            assert targets == []


def test_two_names_of_one_chunk_in_place() -> None:
    i, o, s = (BufferSlice(buffer, 1) for buffer in ("i", "o", "s"))  # type: ignore[arg-type]
    assert layout("allgather", True).cell(2, i) == layout("allgather", True).cell(2, BufferSlice("o", 2 * C + 1))
    scatter = layout("reducescatter", True)
    assert scatter.cell(2, o) == scatter.cell(2, BufferSlice("i", 2 * C + 1))
    assert layout("allreduce", True).cell(0, i) == layout("allreduce", True).cell(0, o)
    assert layout("allreduce", True).cell(0, s) == ("s", 1)
    assert layout("allreduce").cell(0, i) != layout("allreduce").cell(0, o)
