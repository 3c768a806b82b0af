"""Collectives of JAX by synthesized tables: ``hetesynth.jax.load(folder).all_reduce(x, "axis")`` in a shard_map.

Needs jax (``pip install 'hetesynth[jax]'``). docs/runtimes.md says for whom this is.
"""

from hetesynth.runtimes.jax.collective import Collective, load

__all__ = ["Collective", "load"]
