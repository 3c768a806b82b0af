"""Elements: their type, the reduction, and the data that every rank starts with.

Input is a function of (seed, rank, position), so that any rank can compute what any other holds. Where data is
only moved it is random bits; where it is added, it is small integers, so that sums are exact in floating point
whatever the order and every bit can be checked.
"""

from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from hetesynth.errors import HetesynthError

Elements = NDArray[Any]

Reduction = Literal["sum", "max", "min"]
Dtype = Literal["float32", "int32", "bfloat16", "float16"]
ITEM_BYTES: dict[Dtype, int] = {"float32": 4, "int32": 4, "bfloat16": 2, "float16": 2}
_EXACT_BITS: dict[Dtype, int] = {"float32": 24, "bfloat16": 8, "float16": 11}  # integers up to 2**bits are exact
POISON = 0xDB


@dataclass(frozen=True)
class Arithmetic:
    """Elements of ``dtype`` on ``ranks`` ranks. ``reduction``: how they are reduced; ``reduces``: whether they
    are.

    Raises HetesynthError where the type is too narrow for an exact sum (HS805) or not installed (HS812).
    """

    reduction: Reduction
    dtype: Dtype
    ranks: int
    seed: int
    reduces: bool

    def __post_init__(self) -> None:
        if self.reduces and self._range() < 2:
            message = f"a sum over {self.ranks} ranks is not exact in {self.dtype}"
            raise HetesynthError(message, code="HS805", help="use --dtype float32 or int32, or --op max")

    @cached_property
    def type(self) -> np.dtype[Any]:
        """The numpy type of one element."""
        if self.dtype != "bfloat16":
            return np.dtype(self.dtype)
        try:
            ml_dtypes = import_module("ml_dtypes")
        except ImportError:
            help_text = "pip install ml_dtypes, or use --dtype float32"
            raise HetesynthError("numpy alone has no bfloat16", code="HS812", help=help_text) from None
        dtype: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return dtype

    @property
    def item_bytes(self) -> int:
        """Bytes of one element."""
        return ITEM_BYTES[self.dtype]

    def combine(self, a: Elements, b: Elements) -> Elements:
        """Return ``a`` and ``b`` reduced, element by element; sums of int32 wrap, as on a GPU."""
        function = {"sum": np.add, "max": np.maximum, "min": np.minimum}[self.reduction]
        with np.errstate(all="ignore"):  # a wrong program may add anything; what comes out is compared by bits
            combined: Elements = function(a, b)
        return combined

    def contribution(self, rank: int, first: int, count: int) -> Elements:
        """Elements ``first`` to ``first + count`` of what ``rank`` contributes."""
        generator = np.random.PCG64([self.seed & 0xFFFFFFFF, rank]).advance(first // 2)  # two positions a step
        draw = np.random.Generator(generator).integers(0, 1 << 32, count + first % 2, dtype=np.uint32)
        bits: Elements = draw[first % 2 :]
        if self.dtype == "int32":
            return bits.view(np.int32)
        if not self.reduces:
            return bits.view(np.float32) if self.dtype == "float32" else bits.astype(np.uint16).view(self.type)
        wide = (bits % np.uint32(self._range())).astype(np.int32)
        if self.reduction != "sum":
            wide -= np.int32(self._range() // 2)
        return wide.astype(np.float32).astype(self.type)

    def _range(self) -> int:
        """Return how many different values an element of a contribution may have."""
        if self.dtype == "int32":
            return 1 << 32
        exact = 1 << _EXACT_BITS[self.dtype]
        return exact // self.ranks + 1 if self.reduction == "sum" else exact
