"""A range of sizes, and the calls for which a runtime takes a program of it."""

import re
from dataclasses import dataclass

from hetesynth.model.collective import CollectiveName
from hetesynth.model.cost import runtime_bytes

FIRST = 1_000
"""Bytes: the least size at which a file is timed, where a range begins at none."""
LAST = 4_096_000_000
"""Bytes: the largest size at which a file is timed, where a range has no end: plans end just above it."""

UNITS = {
    name: base**power
    for power, letter in ((4, "T"), (3, "G"), (2, "M"), (1, "K"))
    for name, base in ((f"{letter}B", 1000), (f"{letter}iB", 1024))
}


@dataclass(frozen=True, slots=True)
class SizeRange:
    """A range of buffer sizes in bytes, from ``low`` to ``high`` (None: no end). ``closed``: True if ``high``
    itself is meant, False where another range begins there. ``text``: the one spelling of the range, whatever the
    manifest says (``1MB..2MB``, not ``1000KB..2MB``)."""

    low: int
    high: int | None
    text: str
    closed: bool = True

    def __post_init__(self) -> None:
        if self.low < 0 or (self.high is not None and self.high < max(1, self.low)):
            raise ValueError(f"{self.text}: a range begins at 0 or more and does not end before")

    def holds(self, size: int) -> bool:
        """Return True if ``size`` is in the range; both ends are, even a ``high`` where another range begins."""
        return self.low <= size and (self.high is None or size <= self.high)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The bytes at which files are judged: both ends, and 4, 16, ... times the first up to half the last."""
        first = self.low or min(FIRST, self.high or FIRST)
        last = max(LAST, first) if self.high is None else self.high
        listed = [first]
        while 8 * listed[-1] <= last:
            listed.append(4 * listed[-1])
        return tuple(dict.fromkeys([*listed, last]))

    @property
    def searched(self) -> tuple[int, ...]:
        """The bytes at which candidates are compared: ``sizes`` and, between them, 2, 4, ... times the first."""
        sizes = self.sizes
        doubled = range((sizes[-1] // sizes[0]).bit_length())
        return tuple(sorted({*sizes, *(sizes[0] << k for k in doubled)}))

    def calls(self, collective: CollectiveName, ranks: int) -> tuple[int, int]:
        """Return minBytes and maxBytes of the range's programs, both included, as runtimes count; 0: no limit.

        The upper one is odd: no buffer of whole elements has just that size, so readers that exclude the limit
        and readers that include it agree. Where one range begins at the end of another, every size between them
        has a program.
        """
        low, high = (runtime_bytes(collective, ranks, size) for size in (self.low, self.high or 0))
        return low + low % 2, 0 if self.high is None else high | 1 if self.closed else high + high % 2 - 1


def spelling(size: int) -> str:
    """Return ``size`` as the shortest whole number with its unit (``64MB``), decimal where both are as short."""
    texts = [f"{size}B", *(f"{size // unit}{name}" for name, unit in UNITS.items() if size % unit == 0)]
    return min(texts, key=lambda text: (len(re.sub("[^0-9]", "", text)), "i" in text, len(text)))


def spelled_range(low: int, high: int | None) -> str:
    """Return the range from ``low`` to ``high`` in text: ``1MB..64MB``, ``..1MB``, ``64MB..`` or ``64MB``."""
    first, last = spelling(low) if low else "", "" if high is None else spelling(high)
    return first if low == high else f"{first}..{last}"
