"""Tables carried out by JAX on virtual devices: the right bytes, all of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from support.tables import table_of

from hetesynth.execute.arithmetic import Dtype
from hetesynth.execute.job import RunOptions
from hetesynth.model.collective import COLLECTIVE_NAMES, CollectiveName
from hetesynth.model.program import BufferSlice
from hetesynth.model.table import Table

pytest.importorskip("jax", reason="jax is not installed (the extra `jax`)")

from hetesynth.runtimes.jax.run import run_table_on_jax, runs_here

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
QUICK, LONG = ("v100_4p8",), ("h20_4p8", "h20_16", "h20_4x3", "h20_8x2p4", "mi250_x1")
CLUSTERS = [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in LONG)]


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("collective", COLLECTIVE_NAMES)
def test_every_byte_is_right(cluster: str, collective: CollectiveName) -> None:
    table = table_of(EXAMPLES / cluster / "topo.dsl", collective)
    assert table.ranks >= 12
    for dtype in get_args(Dtype):
        (run,) = runs_here(table, RunOptions(dtype=dtype, seed=5))
        assert run.correct and run.checked, (dtype, run)


