"""The judge of MSCCL++ plans: checks a plan against the runtime's limits and executes it.

In: a ``Plan`` that anybody made. Out: Violations. It derives buffers, aliasing and the expected data itself and
shares no code with what makes plans. Reading order: ``reader``, ``checks``, ``sizes``, ``buffer_sizes``,
``../layout``, ``../race_detection``, ``memory``, ``thread_order``, ``execution``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from hetesynth.errors import HetesynthError
from hetesynth.judge.layout import COLLECTIVES, ROOTED
from hetesynth.judge.msccl.findings import MAX_FINDINGS
from hetesynth.judge.mscclpp.buffer_sizes import plan_layout
from hetesynth.judge.mscclpp.checks import plan_structure
from hetesynth.judge.mscclpp.execution import PlanExecution
from hetesynth.judge.mscclpp.findings import PlanFindings
from hetesynth.judge.mscclpp.operation_checks import SHAPES
from hetesynth.judge.mscclpp.sizes import size_violations, states_sizes
from hetesynth.model.collective import MAX_GUESSED_ROOTS
from hetesynth.model.plan import Plan, RemoteSlice
from hetesynth.model.topology import Rank
from hetesynth.model.verdict import Violation

MAX_CELLS = 16_000_000  # chunks of memory of all GPUs
MAX_MOVED = 16_000_000  # chunks read and written by all operations
MAX_KNOWLEDGE = 1 << 28  # entries of all vector clocks together
MAX_GUESSED_WORK = 2_000_000


def plan_violations(
    plan: Plan,
    *,
    root: Rank | None = None,
    links: Collection[tuple[int, int]] | None = None,
    servers: Sequence[str] | None = None,
    sms: int | None = None,
    max_findings: int = MAX_FINDINGS,
) -> list[Violation]:
    """What is wrong with ``plan``, at most ``max_findings``; empty means correct.

    ``root``: of a rooted collective, which plans do not state; without it the one for which the data is right.
    ``links``: (source, destination) pairs that exist. ``servers``: of each rank, to check that memory channels
    stay inside one. ``sms``: multiprocessors of a GPU, which must hold all its thread blocks at once; None: not
    known. Raises HetesynthError HS531, exit code 3, for a collective nobody knows the result of, HS532
    for a plan too large to execute.
    """
    if plan.collective not in COLLECTIVES:
        raise HetesynthError(
            f"the plan carries out {plan.collective[:40]!r}, whose result is not known here",
            code="HS531",
            exit_code=3,
            help=f"use one of {', '.join(sorted(COLLECTIVES))}",
        )
    findings = PlanFindings(max_findings)
    plan_structure(plan, findings, links, servers, sms)
    if not findings.violations:
        _bounded(plan)
        _run(plan, root, findings)
    if states_sizes(plan):
        size_violations(plan, findings)
    return findings.violations


def _run(plan: Plan, root: Rank | None, findings: PlanFindings) -> None:
    if plan.collective not in ROOTED:
        _execute(plan, None, findings)
    elif root is None:
        _guess(plan, findings)
    elif not 0 <= root < plan.ranks:
        findings.add("plan-bad-root", f"root {root} is no rank: there are {plan.ranks}")
    else:
        _execute(plan, root, findings)


def open_range_violations(plan: Plan) -> list[Violation]:
    """What goes wrong at sizes that a plan lets in because it states no range at all."""
    findings = PlanFindings()
    if not states_sizes(plan):
        size_violations(plan, findings)
    return findings.violations


def _execute(plan: Plan, root: Rank | None, findings: PlanFindings) -> None:
    layout = plan_layout(plan, root)
    if isinstance(layout, str):
        findings.add("plan-sizes", layout)
    else:
        PlanExecution(plan, layout, findings).run()


def _guess(plan: Plan, findings: PlanFindings) -> None:
    """No root is stated: the plan is right if it is for one; else the findings are those of the likeliest."""
    work = 1 + sum(len(block.operations) for gpu in plan.gpus for block in gpu.blocks)
    candidates = _likely_roots(plan)[: max(1, min(MAX_GUESSED_ROOTS, MAX_GUESSED_WORK // work))]
    for root in candidates:
        trial = PlanFindings(1)
        _execute(plan, root, trial)
        if not trial.violations:
            return
    text = f"no root is stated and the plan is right for none tried; taken: {candidates[0]}"
    findings.add("plan-no-right-root", text)
    _execute(plan, candidates[0], findings)


def _likely_roots(plan: Plan) -> list[Rank]:
    """Ranks by how much they put: most first for broadcast and scatter, least first for reduce and gather."""
    moved = [
        sum(
            part.size
            for block in gpu.blocks
            for operation in block.operations
            for part in operation.dst
            if isinstance(part, RemoteSlice)
        )
        for gpu in plan.gpus
    ]
    outward = plan.collective in ("broadcast", "scatter")
    return sorted(range(plan.ranks), key=lambda rank: (-moved[rank] if outward else moved[rank], rank))


def _bounded(plan: Plan) -> None:
    """A plan that would take all memory or never end is not executed."""
    cells = sum(gpu.input_chunks + gpu.output_chunks + gpu.scratch_chunks for gpu in plan.gpus)
    blocks = sum(len(gpu.blocks) for gpu in plan.gpus)
    entries = blocks + sum(len(gpu.port_peers) for gpu in plan.gpus) + plan.ranks
    moved = learned = 0
    for gpu in plan.gpus:
        for block in gpu.blocks:
            for operation in block.operations:
                if operation.op in ("wait", "rlxwait", "barrier", "sem_acquire", "flush", "pwsf"):
                    learned += 1
                if operation.op in SHAPES:
                    moved += sum(p.size for p in (*operation.src, *operation.dst))
    if cells > MAX_CELLS or moved > MAX_MOVED or entries * (learned + blocks) > MAX_KNOWLEDGE:
        raise HetesynthError(
            f"the plan is too large to execute: {cells} chunks of memory, {moved} moved, {blocks} thread blocks",
            code="HS532",
            exit_code=3,
            help="judge a plan with fewer chunks or thread blocks",
        )
