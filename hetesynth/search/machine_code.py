"""Kernels as machine code: how they are compiled, and the one rule for when.

In: the function on arrays by which a kernel is entered, and limits of the policy. Out: the function compiled by
numba together with those of its module that it calls, and kept on disk where that is possible; the most work for
which interpreting it is quicker. Kernels give the same results either way.
"""

from __future__ import annotations

import math
import os
import sys
import threading
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from hetesynth.policy.machine_code import WorkLimits

T = TypeVar("T")
POLL_SECONDS = 0.1  # a signal just before the main thread begins to wait does not wake it


def leavable(call: Callable[[], T]) -> T:
    """What ``call`` returns or raises. Outside the main thread, where signals do not arrive, it is just called.

    Python handles signals between its own instructions only, so the call runs in a thread of its own and the main
    thread waits for it, which Ctrl-C ends. What is left goes on to its end, unheard: it must change nothing that
    others use.
    """
    if threading.current_thread() is not threading.main_thread():
        return call()
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:
            errors.append(error)

    worker = threading.Thread(target=run, daemon=True)
    worker.start()
    while worker.is_alive():
        worker.join(POLL_SECONDS)
    if errors:
        raise errors[0]
    return results[0]


Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Row = Any  # an array, or a list of numbers where the kernel is interpreted


def run_kernel(kernel: Callable[..., Any], *records: Any, compiled: bool) -> Any:
    """``kernel`` on ``records``: named tuples of numbers and of arrays. The last is what the kernel changes."""
    if compiled:
        return machine_code(kernel)(*records)
    plain = [type(record)(*(_plain(column) for column in record)) for record in records]
    result = kernel(*plain)
    for column, values in zip(records[-1], plain[-1], strict=True):
        if len(column):
            column[:] = values
    return result


def _plain(column: Any) -> Any:
    return column.tolist() if isinstance(column, np.ndarray) else column


def rows(table: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """A table for a kernel: where each row begins, one more for the end, and the rows one after the other."""
    start = np.concatenate(([0], np.cumsum([len(row) for row in table]))).astype(np.int64)
    return start, np.array([value for row in table for value in row], dtype=np.int64)


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
    """``kernel`` compiled by numba."""
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
    """``kernel`` and the functions of its module, compiled to call each other."""
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
