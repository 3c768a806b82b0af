"""Kernels as machine code: how they are compiled, and the one rule for when.

In: the function on arrays by which a kernel is entered, and limits of the policy. Out: the function compiled by
numba together with those of its module that it calls, and kept on disk where that is possible; the most work for
which interpreting it is quicker. Kernels give the same results either way.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any, cast

from hetesynth.policy.machine_code import WorkLimits
from hetesynth.search.foreign_code import leavable

Kernel = Callable[..., Any]

_running: dict[Kernel, Kernel] = {}  # kernels that were compiled, or read from disk, in this process


def most_interpreted(kernel: Kernel, limits: WorkLimits) -> float:
    """The most work of ``kernel`` for which interpreting it is quicker, at this moment."""
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return math.inf
    if limits.running is not None and kernel in _running:
        return limits.running
    absent, on_disk = limits.load_and_compile, limits.load
    if "numba" in sys.modules:
        absent, on_disk = limits.compile, limits.ready
    return on_disk if absent == on_disk or is_on_disk(kernel) else absent


def machine_code(kernel: Kernel) -> Kernel:
    """``kernel`` compiled by numba.

    A place that cannot be written, or a damaged file there, costs the compilation and nothing else.
    """
    if kernel not in _running:
        _running[kernel] = leavable(partial(_compiled, cast(FunctionType, kernel)))  # numba must not load in part
    return _running[kernel]


def _compiled(kernel: FunctionType) -> Kernel:
    try:
        from_disk = _numba_function(kernel, cache=True)
    except RuntimeError:  # no place for the cache
        return _numba_function(kernel, cache=False)
    compiled_anew: list[Kernel] = []

    def run(*arguments: Any) -> Any:
        try:
            return leavable(partial(from_disk, *arguments))
        except Exception:  # the file on disk does not load; the kernels themselves raise nothing
            if not compiled_anew:
                compiled_anew.append(_numba_function(kernel, cache=False))
            return leavable(partial(compiled_anew[0], *arguments))

    return run


def _numba_function(kernel: FunctionType, *, cache: bool) -> Kernel:
    """``kernel`` and the functions of its module, compiled to call each other. Each is compiled when it is first
    called; only ``kernel`` is kept on disk, with all that it calls."""
    import numba

    njit: Any = numba.njit
    inner = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    names = dict(kernel.__globals__)
    functions = [f for f in names.values() if isinstance(f, FunctionType) and f.__module__ == kernel.__module__]
    for function in functions:
        own = FunctionType(function.__code__, names, function.__name__)
        own.__module__ = function.__module__
        options = {"cache": cache} if function is kernel else inner
        names[function.__name__] = njit(own, nogil=True, **options)
    entry: Kernel = names[kernel.__name__]
    return entry


def is_on_disk(kernel: Kernel) -> bool:
    """Whether machine code of ``kernel`` seems to be on disk, said without loading numba: only speed depends on
    it."""
    source = Path(cast(FunctionType, kernel).__code__.co_filename)
    cache_folder = os.environ.get("NUMBA_CACHE_DIR")
    places = [Path(cache_folder)] if cache_folder else [source.parent / "__pycache__"]
    pattern = f"{source.stem}.{cast(FunctionType, kernel).__name__}-*.nbc"
    return any(next(place.rglob(pattern), None) is not None for place in places)
