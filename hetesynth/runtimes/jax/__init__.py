"""Tables over ``lax.ppermute``: the only package that imports jax."""
