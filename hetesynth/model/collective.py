"""What a collective asks for: chunks, who holds them, who must hold them.

The value of a chunk at a rank is the set of ranks whose input it already sums. A rank in ``pre[k]`` starts
with its own contribution; the complete value is all of ``pre[k]``. A copy is the case of one contributor.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from hetesynth.model.topology import Rank

CollectiveName = Literal[
    "allgather", "reducescatter", "allreduce", "broadcast", "reduce", "gather", "scatter", "alltoall"
]


@dataclass(frozen=True, slots=True)
class CollectiveKind:
    """The properties of a collective that do not depend on its size.

    ``personalized``: every chunk is for one rank. ``input_blocks``, ``output_blocks``: the buffer holds a block of
    each rank; with gather and scatter only the root's does, so these have no form in place.
    """

    reduces: bool = False
    rooted: bool = False
    personalized: bool = False
    input_blocks: bool = False
    output_blocks: bool = False

    @property
    def chain(self) -> bool:
        """Return True if all of the buffer goes from the root to every rank, or from every rank to the root."""
        return self.rooted and not self.personalized

    @property
    def composed(self) -> bool:
        """Return True if sums are formed and then spread, as by an allreduce."""
        return self.reduces and self.input_blocks and self.output_blocks

    @property
    def exchange(self) -> bool:
        """Return True if every rank has a chunk for every other rank."""
        return self.personalized and not self.rooted

    @property
    def in_place(self) -> bool:
        """Return True if the collective has a form in place."""
        return not (self.rooted and self.personalized)


COLLECTIVES: dict[CollectiveName, CollectiveKind] = {
    "allgather": CollectiveKind(output_blocks=True),
    "reducescatter": CollectiveKind(reduces=True, input_blocks=True),
    "allreduce": CollectiveKind(reduces=True, input_blocks=True, output_blocks=True),
    "broadcast": CollectiveKind(rooted=True),
    "reduce": CollectiveKind(reduces=True, rooted=True),
    "gather": CollectiveKind(rooted=True, personalized=True, output_blocks=True),
    "scatter": CollectiveKind(rooted=True, personalized=True, input_blocks=True),
    "alltoall": CollectiveKind(personalized=True, input_blocks=True, output_blocks=True),
}
COLLECTIVE_NAMES: tuple[CollectiveName, ...] = tuple(COLLECTIVES)

REDUCING = frozenset(name for name, kind in COLLECTIVES.items() if kind.reduces)
PERSONALIZED = tuple(sorted(name for name, kind in COLLECTIVES.items() if kind.personalized))
ROOTED = frozenset(name for name, kind in COLLECTIVES.items() if kind.rooted)
_PAIRS: tuple[tuple[CollectiveName, CollectiveName], ...] = (
    ("allgather", "reducescatter"), ("broadcast", "reduce"), ("gather", "scatter"),
)  # fmt: skip
BACKWARDS: dict[CollectiveName, CollectiveName] = dict(_PAIRS) | {b: a for a, b in _PAIRS}
"""What moves the same data with time and links turned around; the others are their own."""
MAX_GUESSED_ROOTS = 64
"""Roots that are tried for a file of a rooted collective where neither it nor the user states one."""


def collective_name(text: str) -> CollectiveName | None:
    """Return the collective that people write as ``text`` (``AllReduce``, ``all_gather``, ``Reduce-Scatter``)."""
    letters = text.strip().lower().replace("_", "").replace("-", "").replace(" ", "")
    return next((name for name in COLLECTIVE_NAMES if name == letters), None)


def transfers(name: CollectiveName, ranks: int, chunks: int) -> int:
    """Return about how many transfers a schedule with ``chunks`` per rank has: the deliveries, or twice as many
    for an exchange or a composed collective, where each goes by another rank."""
    kind = COLLECTIVES[name]
    if kind.rooted:
        return (ranks - 1) * chunks
    return ranks * (ranks - 1) * chunks * (2 if kind.exchange or kind.composed else 1)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A unit of transfer. ``block`` says whose data it is, ``part`` which of that block's pieces.

    allgather, gather: block = the rank it comes from. reducescatter, scatter: block = the rank it goes to.
    alltoall: block = (source, destination). allreduce: block = the rank that reduces it (HeteCCL eq. 7).
    broadcast, reduce: block = the root.
    """

    index: int
    block: tuple[Rank, ...]
    part: int


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective on ``ranks`` GPUs: ``chunks[k]`` starts at ``pre[k]`` and must be complete at ``post[k]``."""

    name: CollectiveName
    ranks: int
    chunks_per_rank: int
    root: Rank | None
    chunks: tuple[Chunk, ...]
    pre: tuple[frozenset[Rank], ...]
    post: tuple[frozenset[Rank], ...]

    def __post_init__(self) -> None:
        if self.kind.rooted != (self.root is not None):
            raise ValueError(f"{self.name}: root {self.root} does not fit")

    @property
    def kind(self) -> CollectiveKind:
        """The properties of collectives of this name."""
        return COLLECTIVES[self.name]

    @property
    def ends(self) -> Iterator[tuple[frozenset[Rank], frozenset[Rank]]]:
        """The ranks where each chunk starts and the ranks where it must end, a pair for each chunk."""
        return zip(self.pre, self.post, strict=True)

    @property
    def deliveries(self) -> int:
        """The number of ranks that want a chunk they do not start with, over all chunks, additions not counted."""
        return sum(len(post - pre) for pre, post in self.ends)

    @property
    def reduces(self) -> bool:
        """Return True if values are summed on the way."""
        return self.kind.reduces
