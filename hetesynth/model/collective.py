"""What a collective asks for: chunks, who holds them, who must hold them.

The value of a chunk at a rank is the set of ranks whose input it already sums. A rank in ``pre[k]`` starts
with its own contribution; the complete value is all of ``pre[k]``. A copy is the case of one contributor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from hetesynth.model.topology import Rank

CollectiveName = Literal[
    "allgather", "reducescatter", "allreduce", "broadcast", "reduce", "gather", "scatter", "alltoall"
]
COLLECTIVE_NAMES: tuple[CollectiveName, ...] = get_args(CollectiveName)

REDUCING: frozenset[CollectiveName] = frozenset({"reducescatter", "allreduce", "reduce"})
PERSONALIZED: tuple[CollectiveName, ...] = ("alltoall", "gather", "scatter")  # every chunk is for one rank
ROOTED: frozenset[CollectiveName] = frozenset({"broadcast", "reduce", "gather", "scatter"})
MAX_GUESSED_ROOTS = 64
"""Roots that are tried for a file of a rooted collective where neither it nor the user states one."""


def collective_name(text: str) -> CollectiveName | None:
    """The collective that people write as ``text`` (``AllReduce``, ``all_gather``, ``Reduce-Scatter``)."""
    letters = text.strip().lower().replace("_", "").replace("-", "").replace(" ", "")
    return next((name for name in COLLECTIVE_NAMES if name == letters), None)


def transfers(name: CollectiveName, ranks: int, chunks: int) -> int:
    """Of a schedule with ``chunks`` per rank, about: its deliveries, times two where each goes by another rank."""
    if name in ROOTED:
        return (ranks - 1) * chunks
    return ranks * (ranks - 1) * chunks * (2 if name in ("alltoall", "allreduce") else 1)


@dataclass(frozen=True, slots=True)
class Chunk:
    """One unit of transfer. ``block`` says whose data it is, ``part`` which of that block's pieces.

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
        if self.ranks < 1 or self.chunks_per_rank < 1:
            raise ValueError("a collective needs at least one rank and one chunk")
        if not (len(self.chunks) == len(self.pre) == len(self.post)):
            raise ValueError("pre and post need one entry per chunk")
        for k, chunk in enumerate(self.chunks):
            if chunk.index != k or not self.pre[k] or not self.post[k]:
                raise ValueError(f"chunk {k} has no start, no end, or the wrong index")
        if (self.name in ROOTED) != (self.root is not None):
            raise ValueError(f"{self.name}: root {self.root} does not fit")

    @property
    def deliveries(self) -> int:
        """Ranks that want a chunk and do not start with it, over all chunks; additions are not counted."""
        return sum(len(post - pre) for pre, post in zip(self.pre, self.post, strict=True))

    @property
    def reduces(self) -> bool:
        """Whether values are summed on the way."""
        return self.name in REDUCING
