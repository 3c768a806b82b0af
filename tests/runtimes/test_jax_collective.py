"""hetesynth.jax beside JAX's own collectives: values, gradients, what goes by JAX, and meshes of two axes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.tables import ROOT, table_of, write_tables

from hetesynth.errors import HetesynthError
from hetesynth.model.collective import COLLECTIVE_NAMES, CollectiveName

pytest.importorskip("jax", reason="jax is not installed (the extra `jax`)")

import jax
from jax.sharding import Mesh, PartitionSpec

import hetesynth.jax
from hetesynth.jax import Collective
from hetesynth.runtimes.jax.executor import play
from hetesynth.runtimes.jax.plan import plan_of

CALLS = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "alltoall": "all_to_all",
}
ROOTED = {"root": ROOT}


def over(call: Any, ranks: int, axis: str = "ranks", other: int = 1) -> Any:
    """``call`` on ``other`` groups of ``ranks`` devices; each has its part of the first dimension."""
    mesh = Mesh(np.array(jax.devices()[: ranks * other]).reshape(other, ranks), ("other", axis))
    spec = PartitionSpec(("other", axis))
    return jax.jit(jax.shard_map(call, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False))


def call_of(collective: Collective, name: CollectiveName) -> Any:
    """The method, for rank 3 where there is a root."""
    method = getattr(collective, CALLS.get(name, name))
    return partial(method, **(ROOTED if name in ("broadcast", "reduce", "gather", "scatter") else {}))


def numbers(*shape: int) -> Any:
    return np.random.default_rng(7).integers(-9, 9, shape).astype(np.float32)


@pytest.mark.parametrize("name", COLLECTIVE_NAMES)
def test_values_and_gradients_are_those_of_jax(name: CollectiveName) -> None:
    """Without tables everything goes by JAX."""
    ours, theirs = Collective([table_of("2x2", name)]), Collective([])
    x = numbers(4 * 8, 3)
    made = [over(lambda v, c=c: call_of(c, name)(v, "ranks"), 4) for c in (ours, theirs)]
    values = [np.asarray(call(x)) for call in made]
    assert values[0].shape == values[1].shape and (values[0] == values[1]).all()
    weights = numbers(*values[0].shape)
    slopes = [np.asarray(jax.grad(lambda v, call=call: (call(v) ** 2 * weights).sum())(x)) for call in made]
    assert (slopes[0] == slopes[1]).all() and slopes[0].any()
    assert set(ours.stats) == {"table"} and "table" not in theirs.stats


@pytest.mark.parametrize("op", ["max", "min"])
@pytest.mark.parametrize("name", ["allreduce", "reduce", "reducescatter"])
def test_largest_and_smallest(name: CollectiveName, op: str) -> None:
    ours, theirs, x = Collective([table_of("2x2", name)]), Collective([]), numbers(4 * 8)
    made = [np.asarray(over(lambda v, c=c: call_of(c, name)(v, "ranks", op=op), 4)(x)) for c in (ours, theirs)]
    assert (made[0] == made[1]).all() and set(ours.stats) == {"table"}


def test_what_is_not_cut_into_chunks_is_padded_or_goes_by_jax() -> None:
    ours = Collective([table_of("2x2", name) for name in COLLECTIVE_NAMES])
    x = numbers(4 * 13)
    assert (over(lambda v: ours.all_reduce(v, "ranks"), 4)(x) == np.tile(x.reshape(4, 13).sum(0), 4)).all()
    assert ours.stats == {"table": 1}
    assert (over(lambda v: ours.all_gather(v, "ranks"), 4)(x) == np.tile(x, 4)).all()
    assert ours.stats == {"table": 1, "not cut into 2 chunks": 1}
    over(lambda v: ours.all_reduce(v, "ranks"), 4)(x[:8])
    assert ours.stats["not cut into 8 chunks"] == 1
    with pytest.raises(ValueError, match="not cut into 4 blocks"):
        over(lambda v: ours.all_to_all(v, "ranks"), 4)(x)


def test_groups_are_an_axis_of_the_mesh() -> None:
    ours, x = Collective([table_of("2x4", "allreduce")]), numbers(16 * 16)
    got = np.asarray(over(lambda v: ours(v, "ranks"), 8, other=2)(x)).reshape(2, 8, 16)
    assert (got == x.reshape(2, 8, 16).sum(1, keepdims=True)).all() and ours.stats == {"table": 1}


def test_the_table_is_that_of_the_size() -> None:
    table = table_of("2x2", "allreduce")
    small = replace(table, max_bytes=100)
    large = replace(table, min_bytes=101, max_bytes=1024)
    ours, always = Collective([small, large]), Collective([small, large], always=True)
    for elements in (16, 64, 1024):
        for c in (ours, always):
            over(lambda v, c=c: c.all_reduce(v, "ranks"), 4)(numbers(4 * elements))
    assert ours.stats == {"table": 2, "no table of this size": 1}
    assert always.stats == {"table": 3}  # of the nearest size


def test_a_folder_is_loaded(tmp_path: Path) -> None:
    folder = write_tables(tmp_path / "tables", "2x2")
    ours, x = hetesynth.jax.load(folder), numbers(4 * 8)
    assert (over(lambda v: ours.broadcast(v, "ranks", ROOT), 4)(x) == np.tile(x[24:], 4)).all()
    wrong = (folder / "allgather.torch.json").read_text().replace('"allgather"', '"alltoall"')
    (folder / "own.jax.json").write_text(wrong)
    with pytest.raises(HetesynthError, match=r"own\.jax\.json"):
        hetesynth.jax.load(folder)
    (tmp_path / "empty").mkdir()
    with pytest.raises(HetesynthError, match="no table"):
        hetesynth.jax.load(tmp_path / "empty")


def test_as_many_permutes_follow_each_other_as_there_are_rounds() -> None:
    plan, spec = plan_of(table_of("2x4", "allreduce")), PartitionSpec("ranks")
    mesh = Mesh(np.array(jax.devices()[:8]), ("ranks",))
    made = jax.shard_map(lambda v: play(plan, v, "ranks"), mesh=mesh, in_specs=spec, out_specs=spec)
    (outer,) = jax.make_jaxpr(made)(numbers(8 * plan.input[1], 1)).eqns
    chain: dict[Any, int] = {}  # the permutes in a row before each value
    permutes = 0
    for equation in outer.params["jaxpr"].eqns:
        permute = equation.primitive.name == "ppermute"
        permutes += permute
        known = [chain.get(v, 0) for v in equation.invars if not hasattr(v, "val")]
        chain |= dict.fromkeys(equation.outvars, max(known, default=0) + permute)
    assert (permutes, max(chain.values())) == (plan.permutes, len(plan.rounds))
