"""Tables carried out by JAX on virtual devices: the right bytes, all of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest
from support.tables import WRONG, table_of

from hetesynth.errors import HetesynthError
from hetesynth.execute.arithmetic import Dtype
from hetesynth.execute.job import RunOptions
from hetesynth.model.collective import COLLECTIVE_NAMES, CollectiveName
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


@pytest.mark.parametrize("mutant", WRONG)
def test_a_wrong_table_ends_with_wrong_bytes(mutant: Callable[[Table], Table]) -> None:
    (run,) = runs_here(mutant(table_of("2x2", "allreduce")), RunOptions())
    assert (run.ending, run.wrong > 0) == ("done", True)


def test_a_process_of_its_own_has_as_many_devices_as_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    table, options = table_of("2x2", "reduce"), RunOptions(reduction="max", repeat=2)
    assert [run.correct for run in run_table_on_jax(table, options)] == [True, True]
    monkeypatch.setattr("sys.executable", "/bin/false")
    (run,) = run_table_on_jax(table, options)
    assert run.ending == "fault" and run.diagnosis[0] == "the process ended with 1"


def test_without_jax_there_is_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hetesynth.runtimes.jax.run.find_spec", lambda name: None)
    with pytest.raises(HetesynthError, match="jax is not installed"):
        run_table_on_jax(table_of("2x2", "reduce"), RunOptions())
