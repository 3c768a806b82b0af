"""A plan on the devices of a named axis, inside ``jax.shard_map``."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from hetesynth.execute.arithmetic import Reduction
from hetesynth.runtimes.jax.plan import Plan

COMBINE: dict[Reduction, Any] = {"sum": jnp.add, "max": jnp.maximum, "min": jnp.minimum}


def play(plan: Plan, chunks: Any, axis: str, op: Reduction = "sum") -> Any:
    """Return the output of this device for the input ``chunks``; both have a chunk a row.

    The permutes of a round do not depend on each other, so that the compiler may overlap them.
    """
    rank = lax.axis_index(axis)
    cells = copied(plan, begun(plan, chunks, rank), rank)
    for permutations in plan.rounds:
        sent = [lax.dynamic_slice_in_dim(cells, own(p.source, rank), p.count) for p in permutations]
        came = [lax.ppermute(part, axis, p.pairs) for p, part in zip(permutations, sent, strict=True)]
        for p, part in zip(permutations, came, strict=True):
            if p.landing:
                cells = lax.dynamic_update_slice_in_dim(cells, part, own(p.landing, rank), 0)
        for p, part in zip(permutations, came, strict=True):
            if p.added:
                at = own(p.added, rank)
                total = COMBINE[op](lax.dynamic_slice_in_dim(cells, at, p.count), part)
                cells = lax.dynamic_update_slice_in_dim(cells, total, at, 0)
    first, count = plan.output
    return lax.dynamic_slice_in_dim(cells, own(first, rank), count)


def moved(plan: Plan, chunks: Any, axis: str) -> Any:
    """Return ``play`` with nothing added, as bits, since XLA on CPUs changes NaNs of bfloat16 that it moves."""
    if not jnp.issubdtype(chunks.dtype, jnp.floating):
        return play(plan, chunks, axis)
    bits = np.dtype(f"uint{8 * chunks.dtype.itemsize}")

    def as_bits(x: Any) -> Any:
        y = play(plan, lax.bitcast_convert_type(x, bits), axis)
        return lax.bitcast_convert_type(y, x.dtype)

    call = jax.custom_jvp(as_bits)  # bits have no derivative
    call.defjvp(lambda xs, tangents: (as_bits(xs[0]), play(plan, tangents[0], axis)))
    return call(chunks)


def begun(plan: Plan, chunks: Any, rank: Any) -> Any:
    """Return all cells of this device when a call begins."""
    first, count = plan.input
    if not any(first):
        return jnp.concatenate([chunks, jnp.zeros((plan.cells - count, chunks.shape[1]), chunks.dtype)])
    cells = jnp.zeros((plan.cells, chunks.shape[1]), chunks.dtype)
    return lax.dynamic_update_slice_in_dim(cells, chunks, own(first, rank), 0)


def copied(plan: Plan, cells: Any, rank: Any) -> Any:
    """Return ``cells`` after the copies before the first round."""
    for p in plan.copies:
        part = lax.dynamic_slice_in_dim(cells, own(p.source, rank), p.count)
        cells = lax.dynamic_update_slice_in_dim(cells, part, own(p.landing, rank), 0)
    return cells


def own(numbers: tuple[int, ...], rank: Any) -> Any:
    """Return the number in ``numbers`` that is for this device."""
    return numbers[0] if len(set(numbers)) == 1 else jnp.asarray(np.array(numbers, np.int32))[rank]
