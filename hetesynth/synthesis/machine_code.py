"""A function on arrays as machine code, compiled on first use and kept on disk where that is possible."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any


@cache
def machine_code(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` compiled by numba.

    A place that cannot be written, or a damaged file there, costs the compilation and nothing else.
    """
    import numba

    fresh: Callable[..., Any] = numba.njit(nogil=True)(function)
    try:
        kept: Callable[..., Any] = numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # no place for the cache
        return fresh

    def run(*arguments: Any) -> Any:
        try:
            return kept(*arguments)
        except Exception:  # the file on disk does not load; the kernels themselves raise nothing
            return fresh(*arguments)

    return run
