"""A schedule JSON on the cluster that it is for, replayed with the capacities and chunks that it was made with."""

import sys
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

from hetesynth.engine.formats import contents
from hetesynth.errors import HetesynthError
from hetesynth.files.schedule_json import MAX_BYTES, ScheduleDocument, read_schedule_json
from hetesynth.model.collective import Collective
from hetesynth.model.problem import Arc
from hetesynth.model.topology import Link, Topology
from hetesynth.model.verdict import Violation
from hetesynth.search.chunking import ROUNDINGS, ChunkingOptions, Rounding, chunk
from hetesynth.search.collectives import collective

MAX_CHUNKS_OF_ONE_RANK = 65536
MAX_TICKS = 4_000_000


def asked_collective(document: ScheduleDocument, filename: str) -> Collective:
    """The collective; HetesynthError HS520 when so few transfers cannot deliver it, or there are too many
    ticks."""
    ranks, parts = document.ranks, document.chunks_per_rank
    blocks = {
        "broadcast": 1,
        "reduce": 1,
        "gather": ranks - 1,
        "scatter": ranks - 1,
        "alltoall": ranks * (ranks - 1),
    }
    moving = parts * blocks.get(document.collective, ranks) if ranks > 1 else 0
    if len(document.schedule.transfers) < moving or (ranks == 1 and parts > MAX_CHUNKS_OF_ONE_RANK):
        message = f"{filename}: {len(document.schedule.transfers)} transfers cannot deliver {moving} chunks"
        way_out = "give a schedule JSON that `hetesynth synth` or `hetesynth import` wrote"
        raise HetesynthError(message, code="HS520", help=way_out)
    ticks = max(document.schedule.makespan, sum(t.end - t.start for t in document.schedule.transfers))
    if ticks > MAX_TICKS:
        message = f"{filename}: {ticks} ticks are more than the {MAX_TICKS} that are replayed"
        raise HetesynthError(message, code="HS520", help="count time in steps, one for each transfer")
    return collective(document.collective, ranks, parts, document.root)


def read_schedule(
    path: Path, way_out: str = "give a schedule JSON that `hetesynth synth` wrote"
) -> ScheduleDocument:
    """The document at ``path``. HetesynthError HS540, HS520: it cannot be read, or is none."""
    return read_schedule_json(contents(path, MAX_BYTES, way_out), str(path))


def foreign_link(document: ScheduleDocument, links: Sequence[Link | Arc]) -> tuple[int, str] | None:
    """The first link of ``document`` that is not one of ``links`` under its number, and that in words."""
    for index, src, dst in document.links:
        if index >= len(links) or (links[index].src, links[index].dst) != (src, dst):
            there = "there is none" if index >= len(links) else f"here {links[index].src} and {links[index].dst}"
            return index, f"link {index} joins ranks {src} and {dst}, {there}"
    return None


def replayed(path: Path, document: ScheduleDocument, topology: Topology) -> list[Violation]:
    """What is wrong with the schedule of ``path`` on ``topology``."""
    from hetesynth.judge.schedule.judge import schedule_violations

    other = foreign_link(document, topology.links)
    if other is not None:
        return [Violation("no-such-link", f"{other[1]}, on {topology.name}", link=other[0])]
    goal = asked_collective(document, str(path))
    problem = chunk(topology, chunking_of(document, topology)).problem(goal)
    return schedule_violations(problem, document.schedule)


def chunking_of(document: ScheduleDocument, topology: Topology) -> ChunkingOptions:
    """Chunks and steps as the schedule has them on ``topology``, for which it was made."""
    size, rounding, step = (document.header.get(name) for name in ("chunk_bytes", "rounding", "tau_ref_us"))
    chunk_bytes = size if isinstance(size, int) and not isinstance(size, bool) and size > 0 else None
    rule: Rounding = next((r for r in ROUNDINGS if r == rounding), "ceil")
    latencies = document.header.get("latencies") is not False
    tau_ref = chunk(topology, ChunkingOptions(chunk_bytes, "slowest", rule, latencies)).tau_ref
    if isinstance(step, (int, float)) and not isinstance(step, bool) and 0 < step <= sys.float_info.max:
        stated = Fraction(str(step)) / 1_000_000
        tau_ref = stated if abs(stated / tau_ref - 1) >= Fraction(1, 10**9) else tau_ref
    return ChunkingOptions(chunk_bytes or chunk(topology).chunk_bytes, tau_ref, rule, latencies)
