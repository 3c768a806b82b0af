"""The time of the library (NCCL, RCCL) by its own formulas, and the sizes for which a file is no slower."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile

from hetesynth.library.bands import band_of
from hetesynth.library.machine import library_of, machine_of
from hetesynth.library.times import chosen
from hetesynth.model.collective import CollectiveName
from hetesynth.model.size_range import SizeRange
from hetesynth.model.topology import Topology
from hetesynth.model.words import short_time

SIZES = tuple(2**power for power in range(10, 35))
"""Bytes of the buffer, 1 KiB to 16 GiB: as nccl-tests runs them."""


@dataclass(frozen=True, slots=True)
class Rival:
    """The expected time of ``library``, by the formula of ``how``: its algorithm, channels and protocol.

    Published runs of such machines took ``low`` to ``high`` times ``seconds``. ``unchecked``: why there are no
    runs of such machines at such sizes, empty where there are."""

    library: str
    how: str
    seconds: float
    low: float
    high: float
    unchecked: str = ""

    @property
    def name(self) -> str:
        """The library and how it runs, such as ``NCCL (ring, 24 channels, Simple)``."""
        return f"{self.library} ({self.how})"

    @property
    def explanation(self) -> str:
        """A line that says what the library runs, how long that takes, and how far off published runs are."""
        runs = (
            f"published runs of others ({self.unchecked})" if self.unchecked else "published runs of such machines"
        )
        errors = f"{runs} take {self.low:.2f} to {self.high:.2f} times that"
        return f"{self.name}: {short_time(self.seconds)} by its formula; {errors}"


@lru_cache(maxsize=1024)
def library_rival(topology: Topology, name: CollectiveName, size: int, limit: float) -> Rival | str:
    """Return the library's expected time for ``size`` bytes, or in words why it is not known.

    ``limit``: seconds below which nothing without switches that reduce can be; a formula below it has not seen a
    part of the fabric, and the library is granted the limit."""
    machine = machine_of(topology)
    if machine is None:
        return (
            "mixed vendors have no library" if library_of(topology) is None else "the library is not modelled here"
        )
    time, band = chosen(machine, name, size), band_of(machine, name, size)
    seconds, unchecked = time.expected, band.unchecked
    if seconds < limit and not time.algorithm.startswith("NVLS"):
        seconds, unchecked = limit, "unchecked on this fabric"
    return Rival(machine.library, time.label, seconds, band.low, band.high, unchecked)


def useful_sizes(
    seconds: Callable[[int], float], library: Callable[[int], float], size: int, extent: SizeRange
) -> tuple[int, int] | None:
    """Return the first and last size of ``extent`` between which a file is no slower than the library; None where
    it is slower at all sizes.

    ``seconds`` is what the file takes, infinite where it cannot be used. Both are asked at ``SIZES``, at ``size``
    and at the ends of ``extent``. Of several spans the one that holds ``size``, or is nearest to it."""
    low, high = extent.low or min(SIZES[0], size), extent.high or max(SIZES[-1], size)
    sizes = sorted({low, *(n for n in (*SIZES, size) if low < n < high), high})

    def won(n: int) -> bool:
        return seconds(n) <= library(n)

    start = next((n for n in sorted(sizes, key=lambda n: max(n / size, size / n)) if won(n)), None)
    if start is None:
        return None
    above = takewhile(won, (n for n in sizes if n > start))
    below = takewhile(won, (n for n in reversed(sizes) if n < start))
    return min(below, default=start), max(above, default=start)
