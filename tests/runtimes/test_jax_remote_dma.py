"""Tables as Pallas kernels in interpret mode: right bytes, and what its race detector says of our rounds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from support.tables import table_of

from hetesynth.model.collective import CollectiveName
from hetesynth.model.table import Table

pytest.importorskip("jax", reason="jax is not installed (the extra `jax`)")

import jax
from jax.experimental.pallas import tpu as pltpu
from jax.sharding import Mesh, PartitionSpec
from support import jax_remote_dma as remote_dma

from hetesynth.runtimes.jax.executor import play
from hetesynth.runtimes.jax.plan import plan_of

RACE = "RACE DETECTED"


def equal(table: Table, mode: Any = "on_wait") -> bool:
    """Whether the kernel gives the bytes that permutes give. ``mode``: when copies are carried out."""
    plan, ranks = plan_of(table), PartitionSpec("ranks")
    mesh = Mesh(np.array(jax.devices()[: table.ranks]), ("ranks",))
    x = np.random.default_rng(1).integers(-9, 9, (table.ranks * plan.input[1], 2)).astype(np.float32)

    def made(call: Any) -> Any:
        over = jax.shard_map(call, mesh=mesh, in_specs=ranks, out_specs=ranks, check_vma=False)
        return np.asarray(jax.jit(over)(x))

    interpret = pltpu.InterpretParams(detect_races=True, dma_execution_mode=mode)
    got = made(lambda v: remote_dma.play_by_copies(plan, v, "ranks", interpret=interpret))
    return bool((got == made(lambda v: play(plan, v, "ranks"))).all())


@pytest.mark.parametrize(
    "collective", ["allgather", "alltoall", pytest.param("allreduce", marks=pytest.mark.slow)]
)
def test_eight_devices_do_not_race(collective: CollectiveName, capfd: pytest.CaptureFixture[str]) -> None:
    assert equal(table_of("2x4", collective, 1))
    assert RACE not in capfd.readouterr().out


@pytest.mark.parametrize("mode", ["eager", "on_wait"])
def test_sums_do_not_race(mode: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert equal(table_of("2x2", "allreduce", 1), mode)
    assert RACE not in capfd.readouterr().out


def test_a_copy_that_nobody_waits_for_is_a_race(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(remote_dma, "_wait", lambda size, semaphore: None)
    equal(table_of("2x2", "allreduce", 1), "eager")
    assert RACE in capfd.readouterr().out


def test_a_copy_that_nobody_was_ready_for_is_a_race(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(remote_dma, "_send", lambda copy, ready, number: copy.start())
    equal(table_of("2x2", "allreduce", 1))
    assert RACE in capfd.readouterr().out


def test_rounds_that_wait_for_each_other_race_in_one(capfd: pytest.CaptureFixture[str]) -> None:
    table = table_of("2x2", "allgather", 1)
    first, second, *others = table.rounds
    equal(replace(table, rounds=((*first, *second), *others)))
    assert RACE in capfd.readouterr().out
