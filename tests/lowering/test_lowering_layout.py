"""Where chunks stand: the conventions of NCCL, and memory with two names."""

from __future__ import annotations

import pytest

from hetesynth.model.collective import COLLECTIVE_NAMES, ROOTED
from hetesynth.programs.layout import Layout, in_place_supported
from hetesynth.search.collectives import collective

N, C = 4, 3


def layout(name: str, in_place: bool = False) -> Layout:
    return Layout(collective(name, N, C, 2 if name in ROOTED else None), in_place)  # type: ignore[arg-type]


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
