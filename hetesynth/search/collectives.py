"""The eight collectives as chunks with a start and an end; reductions and allreduce as copies.

``chunks_per_rank`` (c) is the number of pieces of one rank's block: allgather, reducescatter, gather, scatter and
allreduce move n*c chunks, broadcast and reduce c chunks, alltoall n*n*c (own blocks included: they are delivered
from the start).

Reduce is broadcast reversed, reduce-scatter is allgather reversed: ``invert`` gives the copying problem on the
reversed graph, in which each rank receives a chunk once; reversed, each rank sends its partial sum once, so every
contribution is added exactly once (SCCL 3.4; HeteCCL appendix I). ``split`` makes of an allreduce a
reduce-scatter, chunk k being reduced at rank k mod n (eq. 7), and an allgather.
"""

from collections.abc import Callable
from dataclasses import replace

from hetesynth.errors import HetesynthError, did_you_mean
from hetesynth.model.collective import COLLECTIVE_NAMES, ROOTED, Chunk, Collective, CollectiveName, collective_name
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.topology import Rank

Join = Callable[[Schedule, Schedule], Schedule]


def split(problem: Problem) -> tuple[Problem, Problem, Join]:
    """The reduce-scatter phase, the allgather phase, and the function that joins their schedules."""
    whole = problem.collective
    roots = tuple(frozenset(chunk.block) for chunk in whole.chunks)
    scatter = Collective("reducescatter", whole.ranks, whole.chunks_per_rank, None, whole.chunks, whole.pre, roots)
    gather = Collective("allgather", whole.ranks, whole.chunks_per_rank, None, whole.chunks, roots, whole.post)
    few = problem.max_peers
    if few is not None and few < whole.ranks - 1:
        few = max(1, few // 2)  # the phases share the connections
    first = replace(problem, collective=scatter, max_peers=few)
    second = replace(problem, collective=gather, exclusive_reduction=False, max_peers=few)

    def join(before: Schedule, after: Schedule) -> Schedule:
        offset = before.makespan
        later = (replace(t, start=t.start + offset, end=t.end + offset) for t in after.transfers)
        rounds = tuple(r for s in (before, after) for r in s.rounds or (1,) * s.makespan)
        either = rounds if before.rounds or after.rounds else ()
        return Schedule.of([*before.transfers, *later], offset + after.makespan, either)

    return first, second, join


DUAL: dict[CollectiveName, CollectiveName] = {"reducescatter": "allgather", "reduce": "broadcast"}

Recover = Callable[[Schedule], Schedule]


def invert(problem: Problem) -> tuple[Problem, Recover]:
    """The dual copying problem of a reduction to one rank per chunk, and the function that recovers a schedule."""
    collective = problem.collective
    turned = problem.reversed()
    dual = replace(turned.collective, name=DUAL[collective.name])
    return replace(turned, collective=dual), reverse_schedule


def reverse_schedule(schedule: Schedule) -> Schedule:
    """Return the schedule with every transfer backwards in time, adding where it copied."""
    last = schedule.makespan
    turned = (Transfer(last - t.end, last - t.start, t.chunk, t.link, reduce=True) for t in schedule.transfers)
    return Schedule.of(turned, last, schedule.rounds[::-1])


MAX_CHUNKS = 4_000_000
ENDS: dict[str, tuple[str, str]] = {
    "allgather": ("owner", "all"),
    "reducescatter": ("all", "owner"),
    "broadcast": ("root", "all"),
    "reduce": ("all", "root"),
    "gather": ("owner", "root"),
    "scatter": ("root", "owner"),
}
"""The ranks where chunks start, and those where they end."""


def named_collective(text: str) -> CollectiveName:
    """Return the collective that people write as ``text``. HetesynthError HS301 where there is none."""
    name = collective_name(text) if isinstance(text, str) else None
    if name is None:
        help_ = did_you_mean(str(text), COLLECTIVE_NAMES)
        raise HetesynthError(f"there is no collective {text!r}"[:200], code="HS301", help=help_)
    return name


def collective(name: CollectiveName, ranks: int, chunks_per_rank: int = 1, root: Rank | None = None) -> Collective:
    """Return collective ``name``, its root by default 0. HetesynthError: it does not fit, or too many chunks."""
    name = named_collective(name)
    if chunks_per_rank < 1:
        raise HetesynthError(f"{chunks_per_rank} chunks per rank", code="HS302", help="use at least 1")
    if root is not None and name not in ROOTED:
        raise HetesynthError(f"{name} has no root", code="HS303", help="leave --root out")
    if root is not None and not 0 <= root < ranks:
        raise HetesynthError(
            f"root {root} is not a rank of this cluster", code="HS303", help=f"use 0 to {ranks - 1}"
        )
    total = chunks_per_rank * (ranks * ranks if name == "alltoall" else ranks)
    if total > MAX_CHUNKS:
        raise HetesynthError(
            f"{name} with {chunks_per_rank} chunks per rank moves {total} chunks, more than {MAX_CHUNKS}",
            code="HS304",
            help="use fewer chunks per rank",
        )
    parts, home = range(chunks_per_rank), root or 0
    everyone = frozenset(range(ranks))
    alone = [frozenset({rank}) for rank in range(ranks)]  # shared by all chunks of a rank: they may be millions
    # the block of each chunk, a part of it, where it starts and where it ends
    pieces: list[tuple[tuple[Rank, ...], int, frozenset[Rank], frozenset[Rank]]]
    if name == "alltoall":
        pairs = [(src, dst) for src in range(ranks) for dst in range(ranks)]
        pieces = [(pair, part, alone[pair[0]], alone[pair[1]]) for pair in pairs for part in parts]
    elif name == "allreduce":  # chunk k is reduced at rank k mod n (HeteCCL eq. 7)
        pieces = [((k % ranks,), k // ranks, everyone, everyone) for k in range(total)]
    else:
        owners = [home] if name in ("broadcast", "reduce") else range(ranks)
        places = {"owner": alone, "root": [alone[home]] * ranks, "all": [everyone] * ranks}
        start, end = (places[place] for place in ENDS[name])
        pieces = [((rank,), part, start[rank], end[rank]) for rank in owners for part in parts]
    return Collective(
        name=name,
        ranks=ranks,
        chunks_per_rank=chunks_per_rank,
        root=(root or 0) if name in ROOTED else None,
        chunks=tuple(Chunk(k, block, part) for k, (block, part, _, _) in enumerate(pieces)),
        pre=tuple(pre for _, _, pre, _ in pieces),
        post=tuple(post for _, _, _, post in pieces),
    )
