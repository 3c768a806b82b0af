"""Sizes of buffers as users write them: ``64MB``, ``1KB,1MB``, ``1KB..4GB``."""

from __future__ import annotations

from hetesynth.engine.predictors import sizes_between
from hetesynth.errors import HetesynthError
from hetesynth.topology.language.quantity import parse_quantity

MAX_SIZES = 256
MAX_SIZE = 2**50


def buffer_size(text: str, option: str) -> int:
    """Bytes of a collective's buffer or of a chunk. HetesynthError HS307 where ``text`` states none."""
    size = int(parse_quantity(text, "size", option))
    if not 1 <= size <= MAX_SIZE:
        raise HetesynthError(
            f"{option}: {text!r} is not a size from 1 byte to 1 PiB", code="HS307", help="for example 16MB"
        )
    return size


def buffer_sizes(text: str, option: str, factor: int = 4) -> tuple[int, ...]:
    """A size, several with commas, or a range such as ``1KB..4GB`` in steps of ``factor``."""
    sizes: list[int] = []
    for part in text.split(",")[: MAX_SIZES + 1]:
        low, dots, high = part.partition("..")
        first = buffer_size(low, option)
        last = buffer_size(high, option) if dots else first
        if last < first:
            raise HetesynthError(
                f"{option}: {part.strip()!r} ends before it begins",
                code="HS307",
                help="write the smaller size first",
            )
        sizes.extend(sizes_between(first, last, factor) if dots else (first,))
    if len(sizes) > MAX_SIZES:
        raise HetesynthError(f"{option}: more than {MAX_SIZES} sizes", code="HS307", help="larger steps, or fewer")
    return tuple(sorted(set(sizes)))
