"""Records of arrays for kernels, and how a kernel is run on them: compiled on the arrays, interpreted on lists."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hetesynth.search.machine_code import machine_code

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
    """Lists are read several times as fast as arrays, an entry at a time."""
    return column.tolist() if isinstance(column, np.ndarray) else column


def rows(table: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """A table for a kernel: where each row begins, one more for the end, and the rows one after the other."""
    start = np.concatenate(([0], np.cumsum([len(row) for row in table]))).astype(np.int64)
    return start, np.array([value for row in table for value in row], dtype=np.int64)
