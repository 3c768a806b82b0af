"""A schedule JSON on the cluster that it is for, replayed with the capacities and chunks that it was made with."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from hetesynth.engine.formats import contents
from hetesynth.engine.recipe import topology_hash
from hetesynth.errors import HetesynthError
from hetesynth.files.schedule_json import MAX_BYTES, ScheduleDocument, read_schedule_json
from hetesynth.model.collective import Collective
from hetesynth.model.problem import Arc, Problem
from hetesynth.model.topology import Link, Topology
from hetesynth.model.verdict import Violation
from hetesynth.search.bounds.lower import quick_bound
from hetesynth.search.chunking import Chunking, ChunkingOptions, chunk
from hetesynth.search.collectives import collective
from hetesynth.search.solve import bounds_of

MAX_CHUNKS_OF_ONE_RANK = 65536
MAX_TICKS = 4_000_000


def asked_collective(document: ScheduleDocument, filename: str) -> Collective:
    """Return the collective of ``document``. HetesynthError HS520: its transfers are too few to deliver it, or
    there are too many ticks."""
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
    """Return the document at ``path``. HetesynthError HS540: it cannot be read, HS520: it is no schedule."""
    return read_schedule_json(contents(path, MAX_BYTES, way_out), str(path))


def foreign_link(document: ScheduleDocument, links: Sequence[Link | Arc]) -> tuple[int, str] | None:
    """Return the first link of ``document`` that is not in ``links`` by its number, and that in words; or None."""
    for index, src, dst in document.links:
        if index >= len(links) or (links[index].src, links[index].dst) != (src, dst):
            there = "there is none" if index >= len(links) else f"here {links[index].src} and {links[index].dst}"
            return index, f"link {index} joins ranks {src} and {dst}, {there}"
    return None


def problem_of(document: ScheduleDocument, chunking: Chunking, filename: str) -> Problem:
    """Return the problem that ``document`` says it solves. HetesynthError HS520: it cannot solve it."""
    goal = asked_collective(document, filename)
    return chunking.problem(goal, exclusive_reduction=document.exclusive_reduction)


def replayed(path: Path, document: ScheduleDocument, topology: Topology) -> tuple[list[Violation], list[str]]:
    """Return the violations of the schedule of ``path`` on ``topology`` or of its header's claims, and notes."""
    from hetesynth.judge.bounds.judge import recheck
    from hetesynth.judge.schedule.judge import bound_violations, claim_violations, schedule_violations

    other = foreign_link(document, topology.links)
    if other is not None:
        return [Violation("no-such-link", f"{other[1]}, on {topology.name}", link=other[0])], []
    options, header, schedule = chunking_of(document, topology), document.header, document.schedule
    problem = problem_of(document, chunk(topology, options), str(path))
    wrong = schedule_violations(problem, schedule) or claim_violations(header, schedule.makespan)
    if wrong:
        return wrong, []
    notes = []
    at_once = schedule_violations(replace(problem, exclusive_reduction=problem.collective.reduces), schedule)
    if at_once:
        notes.append(f"the program has to order additions, as the header says: {at_once[0].message}")
    slowest = chunk(topology, replace(options, reference="slowest")).tau_ref
    if options.reference != slowest:
        said = f"its steps last {float(options.reference) * 1e6:g} us"
        notes.append(f"{said}; the slowest link takes {float(slowest) * 1e6:g} us for a chunk")
    stated = header.get("lower_bound", 0)
    proved = quick_bound(problem).steps if stated else 0
    if isinstance(stated, int) and stated > proved:
        proved = max(b.steps for b in bounds_of(problem) if not recheck(problem, b).violations)
    told = "links_left_out" not in header and header.get("topology_sha256") == topology_hash(topology)
    wrong, note = bound_violations(header, proved, same_links=told)
    notes += [note] if note else []
    return wrong, notes


def chunking_of(document: ScheduleDocument, topology: Topology) -> ChunkingOptions:
    """Return the chunking options that the schedule was made with on ``topology``, by its header."""
    header: Mapping[str, Any] = document.header  # whose values the reader checked
    rounding, latencies = header.get("rounding", "ceil"), header.get("latencies", True)
    size = header.get("chunk_bytes") or chunk(topology).chunk_bytes
    tau_ref = chunk(topology, ChunkingOptions(size, "slowest", rounding, latencies)).tau_ref
    if "tau_ref_us" in header:
        stated = Fraction(str(header["tau_ref_us"])) / 1_000_000
        tau_ref = stated if abs(stated / tau_ref - 1) >= Fraction(1, 10**9) else tau_ref
    return ChunkingOptions(size, tau_ref, rounding, latencies)
