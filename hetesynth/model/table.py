"""A table: a collective in rounds of messages, which executors over point-to-point calls carry out.

In a round every message is sent at once, from what its sender held before the round; what is to be added is added
after it. A rank skips the rounds in which it has no message. Places and counts are in chunks.
"""

from dataclasses import dataclass

from hetesynth.model.collective import COLLECTIVES, CollectiveName
from hetesynth.model.program import BufferSlice
from hetesynth.model.topology import Rank

TABLE_VERSION = 1
MAX_OPERATIONS = 256
"""Sends and receives of one rank in a round: past that the plans of two NCCL ranks may differ (pytorch 174288)."""


@dataclass(frozen=True, slots=True)
class Message:
    """A message of ``count`` chunks from ``source`` of rank ``src`` to ``landing`` of rank ``dst``. ``added``: the
    place they are added to after the round; None: they stay where they land."""

    src: Rank
    dst: Rank
    source: BufferSlice
    landing: BufferSlice
    count: int
    added: BufferSlice | None = None


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of ``count`` chunks that ``rank`` makes before the first round."""

    rank: Rank
    source: BufferSlice
    target: BufferSlice
    count: int


@dataclass(frozen=True, slots=True)
class Table:
    """A collective on ranks 0 to ``len(sizes)`` - 1.

    ``sizes``: chunks of the input, the output and the scratch buffer of each rank. ``min_bytes``, ``max_bytes``:
    of calls as NCCL counts them (0: no limit).
    """

    name: str
    collective: CollectiveName
    root: Rank | None
    sizes: tuple[tuple[int, int, int], ...]
    copies: tuple[Copy, ...]
    rounds: tuple[tuple[Message, ...], ...]
    min_bytes: int = 0
    max_bytes: int = 0

    @property
    def ranks(self) -> int:
        """The number of ranks that take part."""
        return len(self.sizes)

    @property
    def chunks(self) -> int:
        """The chunks of the largest input or output buffer of a rank."""
        return max(max(sizes[:2]) for sizes in self.sizes)

    @property
    def chunks_per_rank(self) -> int:
        """The ``chunks_per_rank`` of the collective that the table carries out, as in ``Collective``."""
        return self.chunks // (1 if COLLECTIVES[self.collective].chain else self.ranks)

    @property
    def in_place(self) -> bool:
        """Return True if the buffers may be those of a call in place."""
        kind = COLLECTIVES[self.collective]
        return kind.in_place and not kind.exchange
