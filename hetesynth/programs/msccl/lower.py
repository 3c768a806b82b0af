"""Lowering: a schedule becomes what every thread block of every GPU executes (HeteCCL 5.3 and appendix J).

In: a problem, a schedule that verifies, and options. Out: a ``Program`` within the limits of the target.
Reading order: channels (who shares a connection, in which order, what travels together), placement (buffers),
assembly (pairing of connections, fusion, scratch, thread blocks, dependences), then the fit to the target's limits
and the choice of which connections share thread blocks (``fitting``). Knows no synthesizer, judge or file format.

Ranks of a gather or a scatter other than the root have no output or no input buffer: NCCL lets them pass null
pointers. (The research runtime refuses both collectives; the others read such files.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache

from hetesynth.errors import HetesynthError, InternalError
from hetesynth.model.problem import Problem
from hetesynth.model.program import GpuProgram, Program, Protocol
from hetesynth.model.schedule import Schedule
from hetesynth.model.target import PORTABLE, Target
from hetesynth.policy import DEFAULT
from hetesynth.policy.lowering import LoweringPolicy
from hetesynth.programs.layout import Layout, in_place_supported
from hetesynth.programs.msccl.assembly import OPTIMIZED, STRAIGHTFORWARD, Assembled, Optimizations, Ordered, Saving
from hetesynth.programs.msccl.channels import ChannelPlan, Pair
from hetesynth.programs.msccl.fitting import (
    Draft,
    Fit,
    Job,
    channels_of_instances,
    refined,
    too_many_blocks,
    with_throttling,
)
from hetesynth.programs.msccl.throttling import Throttling

BOUNDLESS = 10**9


@dataclass(frozen=True, slots=True)
class LoweringOptions:
    """What to make of a schedule. Exactly one of ``in_place`` and ``out_of_place`` holds.

    ``min_bytes`` and ``max_bytes`` (0: no limit) are the sizes of the whole buffer the file is meant for.
    ``servers``: of each rank, for targets whose channels differ inside and between servers; empty: all in one.
    ``throttling``: when sends ought to flow, for targets in MSCCL XML; None: whenever they can.
    ``policy``: the thresholds by which the lowering decides.
    ``min_channels``: over how many channels what a pair of ranks carries is spread where the limits of the target
    allow, for targets in MSCCL XML: a thread block may be slower than its link.
    ``chunk_seconds``: how long a chunk takes from one rank to another, by which links share thread blocks where
    there are fewer than links; empty: not known, 1 / C(u, v) counts. ``instances``: into how many parts every
    chunk is cut, so that a pair of ``min_channels`` carries one chunk over several channels at once.
    """

    name: str
    in_place: bool = False
    out_of_place: bool = True
    target: Target = PORTABLE
    protocol: Protocol = "Simple"
    min_bytes: int = 0
    max_bytes: int = 0
    optimizations: Optimizations = OPTIMIZED
    servers: tuple[str, ...] = ()
    throttling: Throttling | None = None
    policy: LoweringPolicy = DEFAULT.lowering
    min_channels: Mapping[Pair, int] = field(default_factory=dict)
    chunk_seconds: Mapping[Pair, float] = field(default_factory=dict)
    instances: int = 1

    @property
    def unnamed(self) -> LoweringOptions:
        """What of them decides about instructions: without the name and the sizes of the file."""
        return replace(self, name="", min_bytes=0, max_bytes=0)


@dataclass(frozen=True, slots=True)
class Lowered:
    """A program; in words what had to be done so that it fits its target (nothing: an empty tuple); what each
    optimization saved; and the critical path in chunk times."""

    program: Program
    notes: tuple[str, ...]
    savings: tuple[Saving, ...] = ()
    critical_path: int = 0


def lower(problem: Problem, schedule: Schedule, options: LoweringOptions) -> Program:
    """The program that carries out ``schedule``.

    Raises HetesynthError: HS500-HS504 a limit of the target, HS505 the collective has no such form, HS507 the
    schedule sends what a rank does not hold.
    """
    return lower_with_notes(problem, schedule, options).program


def lower_with_notes(problem: Problem, schedule: Schedule, options: LoweringOptions) -> Lowered:
    """As ``lower``, with what was done to meet the limits."""
    check_options(problem, options)
    _check_peers(problem, schedule, options.target)
    job = Job(
        problem, schedule, options.in_place, options.target, options.protocol, options.optimizations,
        options.policy, options.min_channels, options.chunk_seconds, options.instances,
    )  # fmt: skip
    try:
        settled = _settled_or_kept(job)
    except HetesynthError:
        if not job.min_channels:
            raise
        settled = _settled_or_kept(replace(job, min_channels={}, instances=1))
    ordered = settled.ordered
    if options.throttling is not None:
        throttling = options.throttling.cut(settled.job.instances)
        ordered = with_throttling(settled.draft, ordered, throttling, options.target)
    assembled = settled.draft.assembly.assembled(ordered)
    program = written_program(settled.job.layout, assembled, options)
    return Lowered(program, settled.fit.notes, assembled.savings, assembled.critical_path)


@dataclass(frozen=True)
class _Settled:
    """What was lowered, decisions with which its program fits, and what was made with them."""

    job: Job
    fit: Fit
    draft: Draft
    ordered: Ordered


class _Key:
    """A job, equal to others with the same problem and schedule for a target with the same limits."""

    def __init__(self, job: Job) -> None:
        self.job, t = job, job.target
        limits = (
            t.ops,
            t.max_steps,
            t.thread_blocks,
            t.channels,
            t.max_peers_per_channel,
            t.max_count,
            t.max_nodes,
        )
        of = (
            id(job.problem), id(job.schedule), job.in_place, job.optimizations, job.slots, job.policy,
            job.instances,
        )  # fmt: skip
        self._facts = (*of, *limits, *(tuple(sorted(m.items())) for m in (job.min_channels, job.chunk_seconds)))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and self._facts == other._facts

    def __hash__(self) -> int:
        return hash(self._facts)


def _settled_or_kept(job: Job) -> _Settled:
    return _settled(job) if len(job.schedule.transfers) > job.policy.max_kept_transfers else _kept(_Key(job))


@lru_cache(maxsize=2)
def _kept(key: _Key) -> _Settled:
    """Several targets have the same limits, and one program may be throttled in several ways: in and out of
    place."""
    return _settled(key.job)


def _settled(job: Job) -> _Settled:
    attempts = job.policy.max_attempts
    large = len(job.schedule.transfers) * job.instances > job.policy.adjacent_chunks_from
    plan = ChannelPlan(merge=job.optimizations.merge, adjacent_only=large, min_channels=job.min_channels)
    fit = Fit(replace(plan, max_channels=channels_of_instances(job) if job.instances > 1 else {}))
    job = job.cut()
    for _ in range(attempts):
        draft = Draft.of(job, fit)
        better = refined(job, draft, fit)
        if better is None:
            if draft.ordered is None:
                raise InternalError("a draft without dependences does not fit")
            return _Settled(job, fit, draft, draft.ordered)
        fit = better
        del draft  # a large program takes much memory, and the next one as much
    raise InternalError(f"the lowering did not settle in {attempts} attempts")


def _check_peers(problem: Problem, schedule: Schedule, target: Target) -> None:
    """A thread block has one peer to send to and one to receive from: said before anything else is done."""
    pairs = {(problem.arcs[a].src, problem.arcs[a].dst) for a in {t.link for t in schedule.transfers}}
    for ranks in (Counter(src for src, _ in pairs), Counter(dst for _, dst in pairs)):
        rank, number = min(ranks.items(), key=lambda ranked: (-ranked[1], ranked[0]), default=(0, 0))
        if number > target.thread_blocks:
            raise too_many_blocks(rank, number, target)


def check_options(problem: Problem, options: LoweringOptions) -> None:
    """HetesynthError HS505 where the collective has no such form."""
    name = problem.collective.name
    if options.in_place == options.out_of_place:
        raise HetesynthError(
            "a program is either in place or out of place", code="HS505", help="write one file for each"
        )
    if options.in_place and not in_place_supported(name):
        raise HetesynthError(f"{name} has no in-place form", code="HS505", help="use the out-of-place form")
    if options.min_bytes < 0 or options.max_bytes < 0:
        raise HetesynthError("a size is negative", code="HS505", help="use 0 for no limit")
    if options.max_bytes and options.min_bytes > options.max_bytes:
        raise HetesynthError(
            f"the smallest size, {options.min_bytes} bytes, is above the largest, {options.max_bytes}",
            code="HS505",
            help="swap them, or use 0 as the largest for no limit",
        )


def straightforward(problem: Problem, schedule: Schedule, options: LoweringOptions) -> Lowered:
    """The plain lowering, to compare with: one message a chunk, one thread block a connection, plain instructions,
    all dependences, and no limits: a real target may refuse it."""
    boundless = replace(
        options.target, max_steps=BOUNDLESS, max_thread_blocks=BOUNDLESS, resident_thread_blocks=BOUNDLESS,
        max_nodes=BOUNDLESS,
    )  # fmt: skip
    return lower_with_notes(problem, schedule, replace(options, target=boundless, optimizations=STRAIGHTFORWARD))


def written_program(layout: Layout, draft: Assembled, options: LoweringOptions) -> Program:
    """The program of ``draft`` with the attributes that ``options`` ask for."""
    collective = layout.collective
    gpus = []
    for rank, blocks in enumerate(draft.thread_blocks):
        inputs, outputs = layout.sizes(rank)
        gpus.append(GpuProgram(rank, inputs, outputs, draft.scratch[rank], blocks))
    channels = max((tb.channel + 1 for gpu in gpus for tb in gpu.thread_blocks), default=1)
    return Program(
        name=options.name,
        collective=collective.name,
        ranks=collective.ranks,
        protocol=options.protocol,
        channels=channels,
        chunks_per_loop=layout.chunks_per_loop,
        in_place=options.in_place,
        out_of_place=options.out_of_place,
        min_bytes=options.min_bytes,
        max_bytes=stated_max_bytes(options),
        root=collective.root,
        gpus=tuple(gpus),
    )


def stated_max_bytes(options: LoweringOptions) -> int:
    """As the target states it: its word for no limit, and one more where the limit itself is excluded."""
    if not options.max_bytes:
        return options.target.open_max_bytes
    return options.max_bytes + (not options.target.max_bytes_inclusive)
