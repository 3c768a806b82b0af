"""Collectives by tables inside ``jax.shard_map``; what no table is for goes by JAX's own.

Shapes are known when a function is traced, so the table of a call is chosen then and costs nothing later.
"""

from collections import Counter
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import jax.numpy as jnp
from jax import lax

from hetesynth.execute.arithmetic import Reduction
from hetesynth.execute.memory import PER_RANK
from hetesynth.model.collective import COLLECTIVES, CollectiveName
from hetesynth.model.table import Table
from hetesynth.model.topology import Rank
from hetesynth.runtimes.folder import load_tables, table_for
from hetesynth.runtimes.jax.executor import moved, play
from hetesynth.runtimes.jax.plan import Plan, plan_of

_OWN: dict[Reduction, Any] = {"sum": lax.psum, "max": lax.pmax, "min": lax.pmin}


def load(path: str | Path, *, always: bool = False, judge: bool = True) -> "Collective":
    """Return collectives by the judged tables in a file or below a folder. ``always``: for all sizes of calls.

    HetesynthError: HS533 and HS540 (a file), HS809 (a wrong table), HS816 (no table).
    """
    return Collective(load_tables(Path(path), "jax", judge=judge), always=always)


class Collective:
    """Collectives by ``tables`` over a named axis, whose device i is rank i of the topology. ``stats``: calls
    traced by table (``"table"``) and by JAX, by the reason."""

    def __init__(self, tables: Sequence[Table], *, always: bool = False) -> None:
        self._tables = sorted(tables, key=lambda table: (table.min_bytes, table.max_bytes, table.name))
        self._always = always
        self.stats: Counter[str] = Counter()

    def __call__(self, x: Any, axis_name: str, op: Reduction = "sum") -> Any:
        """Return the result of the one collective, with the one root, that all tables are of."""
        ((name, root),) = {(table.collective, table.root) for table in self._tables}
        return self._call(name, x, axis_name, op, root)

    def all_reduce(self, x: Any, axis_name: str, op: Reduction = "sum") -> Any:
        """Return the result of lax.psum, lax.pmax or lax.pmin of an array."""
        return self._call("allreduce", x, axis_name, op)

    def all_gather(self, x: Any, axis_name: str) -> Any:
        """Return the result of lax.all_gather with tiled=True, along the first dimension."""
        return self._call("allgather", x, axis_name)

    def reduce_scatter(self, x: Any, axis_name: str, op: Reduction = "sum") -> Any:
        """Return the result of lax.psum_scatter with tiled=True, along the first dimension."""
        return self._call("reducescatter", x, axis_name, op)

    def all_to_all(self, x: Any, axis_name: str) -> Any:
        """Return the result of lax.all_to_all with tiled=True, along the first dimension."""
        return self._call("alltoall", x, axis_name)

    def broadcast(self, x: Any, axis_name: str, root: Rank = 0) -> Any:
        """Return the array that the root passes; others pass anything of that shape."""
        return self._call("broadcast", x, axis_name, root=root)

    def reduce(self, x: Any, axis_name: str, root: Rank = 0, op: Reduction = "sum") -> Any:
        """Return the sum (or other ``op``) at the root, zeros elsewhere."""
        return self._call("reduce", x, axis_name, op, root)

    def gather(self, x: Any, axis_name: str, root: Rank = 0) -> Any:
        """Return the result of ``all_gather`` at the root, zeros elsewhere."""
        return self._call("gather", x, axis_name, root=root)

    def scatter(self, x: Any, axis_name: str, root: Rank = 0) -> Any:
        """Return the own block, along the first dimension, of the root's array; others pass any array like it."""
        return self._call("scatter", x, axis_name, root=root)

    def _call(
        self, name: CollectiveName, x: Any, axis: str, op: Reduction = "sum", root: Rank | None = None
    ) -> Any:
        x, ranks, kind = jnp.asarray(x), lax.psum(1, axis), COLLECTIVES[name]
        cut = kind.input_blocks and name in PER_RANK
        grown = kind.output_blocks and name in PER_RANK
        shape = [*x.shape]
        if (cut or grown) and (not shape or (cut and shape[0] % ranks)):
            raise ValueError(f"{name}: the first dimension of {x.shape} is not cut into {ranks} blocks")
        if cut != grown:
            shape[0] = shape[0] // ranks if cut else shape[0] * ranks
        plan = self._plan(name, root, ranks, x, x.size // ranks if cut else x.size)
        if isinstance(plan, str):
            self.stats[plan] += 1
            y = _own(name, x, axis, op, root)
        else:
            self.stats["table"] += 1
            chunks = plan.input[1]
            flat = jnp.pad(x.reshape(-1), (0, -x.size % chunks)).reshape(
                chunks, -1
            )  # no padding where there are blocks
            y = (play(plan, flat, axis, op) if kind.reduces else moved(plan, flat, axis)).reshape(-1)
            y = (y[: x.size] if name not in PER_RANK else y).reshape(shape)
        if name == "reduce" or (name == "gather" and isinstance(plan, str)):
            return jnp.where(lax.axis_index(axis) == root, y, jnp.zeros_like(y))
        return y

    def _plan(self, name: CollectiveName, root: Rank | None, ranks: int, x: Any, block: int) -> Plan | str:
        """Return the plan of a call, or why there is none. ``block``: elements of one rank's share."""
        blocks = ranks if name in PER_RANK else 1
        size = block * blocks * x.dtype.itemsize
        table = table_for(self._tables, name, root, ranks, size, always=self._always)
        if isinstance(table, str):
            return table
        chunks = table.chunks // blocks
        if block < chunks or (block % chunks and blocks > 1):
            return f"not cut into {chunks} chunks"
        return _plan_of(table)


_plan_of = lru_cache(maxsize=64)(plan_of)


def _own(name: CollectiveName, x: Any, axis: str, op: Reduction, root: Rank | None) -> Any:
    """Return the result of JAX's own collective."""
    if name in ("allreduce", "reduce"):
        return _OWN[op](x, axis)
    if name in ("allgather", "gather"):
        return lax.all_gather(x, axis, tiled=True)
    if name == "reducescatter" and op == "sum":
        return lax.psum_scatter(x, axis, tiled=True)
    if name == "broadcast":  # -0 becomes 0
        return lax.psum(jnp.where(lax.axis_index(axis) == root, x, jnp.zeros_like(x)), axis)
    if name == "reducescatter":
        whole = _OWN[op](x, axis)
        block = x.shape[0] // lax.psum(1, axis)
        return lax.dynamic_slice_in_dim(whole, lax.axis_index(axis) * block, block)
    blocks = lax.all_to_all(x, axis, 0, 0, tiled=True)
    if name == "alltoall":
        return blocks
    block = x.shape[0] // lax.psum(1, axis)
    return lax.slice_in_dim(blocks, root * block, (root + 1) * block) if root is not None else blocks
