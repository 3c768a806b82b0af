"""Kernels as machine code: how they are compiled, and the one rule for when.

In: the function on arrays by which a kernel is entered. Out: the function compiled by numba together with those
that it calls, and kept on disk where that is possible. Kernels give the same results either way. A
module whose kernels make no arrays nor lists says ``MAKES_ARRAYS = False``: references need not be counted then,
which took half of the time.
"""

import os
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")
Kernel = Callable[..., Any]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Row = Any  # an array, or a list of numbers where the kernel is interpreted

_running: dict[Kernel, Kernel] = {}  # kernels that were compiled, or read from disk, in this process
_interpreted: dict[Kernel, float] = defaultdict(float)  # seconds that calls of each kernel took about


def leavable(call: Callable[[], T]) -> T:
    """Return or raise what ``call`` does. Outside the main thread, where no signals arrive, it is just called.
    Python handles signals between its own instructions only, so it runs in a thread of its own, for which the main
    thread waits until Ctrl-C. What is left goes on to its end, unheard: it must change nothing that others use."""
    if threading.current_thread() is not threading.main_thread():
        return call()
    outcome: Future[T] = Future()

    def run() -> None:
        try:
            outcome.set_result(call())
        except BaseException as error:
            outcome.set_exception(error)

    worker = threading.Thread(target=run, daemon=True)
    worker.start()
    while worker.is_alive():
        worker.join(0.1)  # a signal just before the main thread begins to wait does not wake it
    return outcome.result()


def pays(kernel: Kernel, seconds: float) -> bool:
    """Return True if machine code is quicker for a call of ``kernel`` of about ``seconds`` interpreted: as soon
    as all calls together take as long as loading it (0.3 s), or where it is not on disk 2 s: making it takes
    1 to 5, once for all runs."""
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return False
    if kernel in _running:
        return True
    _interpreted[kernel] += seconds
    if _interpreted[kernel] < 0.3 or _interpreted[kernel] > 2.0:
        return _interpreted[kernel] > 2.0
    return _on_disk(cast(FunctionType, kernel), os.environ.get("NUMBA_CACHE_DIR"))


@cache
def _on_disk(kernel: FunctionType, cache_folder: str | None) -> bool:
    """Return True if machine code of ``kernel`` seems to be on disk, without loading numba."""
    source = Path(kernel.__code__.co_filename)
    place = Path(cache_folder) if cache_folder else source.parent / "__pycache__"
    return any(place.rglob(f"{source.stem}.{kernel.__name__}_*.nbc"))


def run_kernel(kernel: Kernel, *records: Any, seconds: float) -> Any:
    """``kernel`` on ``records``: named tuples of numbers and of arrays. It may change all but the first.
    ``seconds``: about as long as it takes interpreted."""
    if pays(kernel, seconds):
        return machine_code(kernel)(*records)
    plain = [
        type(record)(*(column.tolist() if isinstance(column, np.ndarray) else column for column in record))
        for record in records
    ]
    result = kernel(*plain)
    for record, lists in zip(records[1:], plain[1:], strict=True):
        for column, values in zip(record, lists, strict=True):
            if isinstance(values, list) and values:
                column[:] = values
    return result


def rows(table: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """A table for a kernel: where each row begins, one more for the end, and the rows one after the other."""
    start = np.concatenate(([0], np.cumsum([len(row) for row in table]))).astype(np.int64)
    return start, np.array([value for row in table for value in row], dtype=np.int64)


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
    compiled_anew = cache(partial(_numba_function, kernel, cache=False))

    def run(*arguments: Any) -> Any:
        try:
            return leavable(partial(from_disk, *arguments))
        except Exception:  # the file on disk does not load; the kernels themselves raise nothing
            return leavable(partial(compiled_anew(), *arguments))

    return run


def _numba_function(kernel: FunctionType, *, cache: bool) -> Kernel:
    """``kernel`` and the functions of its module, compiled to call each other. Those that the module imports call
    none; a digest of their files is in the name under which the kernel is kept on disk."""
    import numba

    njit: Any = numba.njit
    inner = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True, "forceinline": True}  # 20 % quicker
    names, own_file = dict(kernel.__globals__), kernel.__code__.co_filename
    named = ((name, f) for name, f in names.items() if isinstance(f, FunctionType))
    functions = {n: f for n, f in named if f.__module__ == kernel.__module__ or "hetesynth" in f.__module__}
    files = sorted({f.__code__.co_filename for f in functions.values()} - {own_file})
    digest = sha256(b"".join(Path(file).read_bytes() for file in files)).hexdigest()
    for name, f in functions.items():
        own = FunctionType(f.__code__, names if f.__code__.co_filename == own_file else f.__globals__)
        own.__module__, options = f.__module__, inner
        if f is kernel:
            own.__qualname__, options = f"{name}_{digest[:16]}", {"cache": cache}
        names[name] = njit(own, nogil=True, _nrt=names.get("MAKES_ARRAYS", True), **options)
    entry: Kernel = names[kernel.__name__]
    return entry
