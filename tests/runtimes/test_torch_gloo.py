"""Tables carried out over gloo by threads of one process, and by numpy: the same bytes, all of them right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, get_args

import pytest
from support.tables import WRONG, table_of

from hetesynth.errors import HetesynthError
from hetesynth.execute.arithmetic import Dtype
from hetesynth.execute.job import RunOptions
from hetesynth.execute.tables import run_table_in_process, table_job
from hetesynth.model.collective import COLLECTIVE_NAMES, CollectiveName
from hetesynth.model.program import BufferSlice
from hetesynth.model.table import Table

pytest.importorskip("torch", reason="torch is not installed (the extra `torch`)")

from hetesynth.runtimes.torch.run import gloo_groups, run_parts, run_table_on_gloo
from hetesynth.runtimes.torch.steps import part_of

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
QUICK, LONG = ("v100_4p8", "mi250_x1"), ("h20_4p8", "h20_16", "h20_4x2p8", "h20_8x2p4")
CLUSTERS = [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in LONG)]


@lru_cache(maxsize=1)
def groups_of(ranks: int) -> list[Any]:
    return gloo_groups(ranks, 60.0)


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("collective", COLLECTIVE_NAMES)
def test_every_byte_is_right(cluster: str, collective: CollectiveName) -> None:
    table = table_of(EXAMPLES / cluster / "topo.dsl", collective)
    assert table.ranks >= 12
    for dtype in get_args(Dtype):
        options = RunOptions(dtype=dtype, seed=5)
        runs = run_table_on_gloo(table, options, groups_of(table.ranks))
        told = [(run.in_place, run.ending, run.wrong, run.checked) for run in runs]
        assert all(run.correct and run.checked for run in runs), told
        assert told == [(r.in_place, r.ending, r.wrong, r.checked) for r in run_table_in_process(table, options)]


@pytest.mark.parametrize("mutant", WRONG)
def test_a_wrong_table_ends_with_wrong_bytes(mutant: Callable[[Table], Table]) -> None:
    table = mutant(table_of("2x2", "allreduce"))
    for run in (run_table_in_process(table, RunOptions()), run_table_on_gloo(table, RunOptions())):
        assert (run[0].ending, run[0].wrong > 0) == ("done", True)


def test_a_message_past_a_buffer_is_a_fault() -> None:
    table = table_of("2x2", "allgather")
    first, *others = table.rounds[0]
    past = replace(first, source=BufferSlice("i", 5))
    table = replace(table, rounds=((past, *others), *table.rounds[1:]))
    (run,) = run_table_in_process(table, RunOptions())
    assert run.ending == "fault" and "i[5] is outside the buffer" in run.diagnosis[0]
    (run,) = run_table_on_gloo(table, RunOptions(timeout=1.0))
    assert not run.correct and run.diagnosis[0].startswith(f"rank {first.src}")


def test_a_peer_that_sends_nothing_is_a_stall() -> None:
    table = table_of("2x2", "allgather")
    job, owners = table_job(table, RunOptions(timeout=1.0))
    parts = [part_of(table, rank) for rank in range(table.ranks)]
    (run,) = run_parts(job, owners, [replace(parts[0], steps=()), *parts[1:]])
    assert run.ending == "stall" and run.seconds < 60
    assert any("from rank 0" in text and "round 0" in text for text in run.diagnosis)


def test_what_a_table_has_not_is_refused() -> None:
    table = table_of("2x2", "broadcast")
    with pytest.raises(HetesynthError, match="for root 3"):
        table_job(table, RunOptions(root=1))
    with pytest.raises(HetesynthError, match="no smaller messages"):
        table_job(table, RunOptions(slots=2))
