"""The judge of MSCCL++ plans: checks a plan that anybody made against the runtime's limits and executes it.

It derives buffers, aliasing and the expected data itself and shares no code with what makes plans. Reading order:
``reader``, ``checks``, this, ``../layout``, ``../race_detection``, ``state``, ``execution``.
"""

from collections.abc import Collection, Iterator, Sequence

from hetesynth.errors import HetesynthError
from hetesynth.judge.layout import COLLECTIVES, ROOTED, Layout, buffer_sizes
from hetesynth.judge.mscclpp.checks import SHAPES, plan_structure
from hetesynth.judge.mscclpp.execution import PlanExecution
from hetesynth.judge.rules import MAX_FINDINGS, Findings, Place, violation
from hetesynth.model.collective import MAX_GUESSED_ROOTS
from hetesynth.model.plan import MAX_BUFFER_BYTES, OPEN_MAX_BYTES, GpuPlan, Plan, RemoteSlice
from hetesynth.model.topology import Rank
from hetesynth.model.verdict import Violation

MAX_CELLS = 16_000_000  # chunks of memory of all GPUs
SHARED_SCRATCH = 1 << 26  # bytes of scratch where resources are reused, whatever the plan
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
    """Return what is wrong with ``plan``, at most ``max_findings``; empty means correct.

    ``root``: that of a rooted collective, which plans do not state; without it the one for which the data is
    right. ``links``: (source, destination) pairs that exist. ``servers``: that of each rank, to check that memory
    channels stay inside one. ``sms``: multiprocessors of a GPU, which must hold all its thread blocks at once;
    None: not known. Raises HetesynthError HS531, exit code 3, for a collective nobody knows the result of, HS532
    for a plan too large to execute.
    """
    if plan.collective not in COLLECTIVES:
        raise HetesynthError(
            f"the plan carries out {plan.collective[:40]!r}, whose result is not known here",
            code="HS531",
            exit_code=3,
            help=f"use one of {', '.join(sorted(COLLECTIVES))}",
        )
    findings = Findings(max_findings)
    plan_structure(plan, findings, links, servers, sms)
    if not findings.violations:
        _demand_bounded(plan)
        if plan.collective not in ROOTED:
            _execute(plan, None, findings)
        elif root is None:
            _guess(plan, findings)
        elif not 0 <= root < plan.ranks:
            findings.add("plan-bad-root", f"root {root} is no rank: there are {plan.ranks}")
        else:
            _execute(plan, root, findings)
    if states_sizes(plan):
        size_violations(plan, findings)
    return findings.violations


def open_range_violations(plan: Plan) -> list[Violation]:
    """Return what goes wrong at sizes that a plan lets in because it states no range at all."""
    findings = Findings()
    if not states_sizes(plan):
        size_violations(plan, findings)
    return findings.violations


def _execute(plan: Plan, root: Rank | None, findings: Findings) -> None:
    layout = plan_layout(plan, root)
    if isinstance(layout, str):
        findings.add("plan-sizes", layout)
    else:
        PlanExecution(plan, layout, findings).run()


def _guess(plan: Plan, findings: Findings) -> None:
    """Execute a plan for a root that is not stated: it is right if it is for one; else the findings are those of
    the likeliest, the rank that puts most for broadcast and scatter, least for reduce and gather."""
    work, moved = 1, [0] * plan.ranks
    for g, gpu in enumerate(plan.gpus):
        for operation in (operation for block in gpu.blocks for operation in block.operations):
            work += 1
            moved[g] += sum(part.size for part in operation.dst if isinstance(part, RemoteSlice))
    sign = -1 if plan.collective in ("broadcast", "scatter") else 1
    candidates = sorted(range(plan.ranks), key=lambda rank: (sign * moved[rank], rank))
    candidates = candidates[: max(1, min(MAX_GUESSED_ROOTS, MAX_GUESSED_WORK // work))]
    for root in candidates:
        trial = Findings(1)
        _execute(plan, root, trial)
        if not trial.violations:
            return
    text = f"no root is stated and the plan is right for none tried; taken: {candidates[0]}"
    findings.add("plan-no-right-root", text)
    _execute(plan, candidates[0], findings)


def _demand_bounded(plan: Plan) -> None:
    """Raise HetesynthError HS532 for a plan that would take all memory or never end."""
    cells = sum(gpu.input_chunks + gpu.output_chunks + gpu.scratch_chunks for gpu in plan.gpus)
    blocks = sum(len(gpu.blocks) for gpu in plan.gpus)
    entries = blocks + sum(len(gpu.port_peers) for gpu in plan.gpus) + plan.ranks
    operations = [x for gpu in plan.gpus for block in gpu.blocks for x in block.operations]
    learned = sum(x.op in ("wait", "rlxwait", "barrier", "sem_acquire", "flush", "pwsf") for x in operations)
    moved = sum(part.size for x in operations if x.op in SHAPES for part in (*x.src, *x.dst))
    if cells > MAX_CELLS or moved > MAX_MOVED or entries * (learned + blocks) > MAX_KNOWLEDGE:
        raise HetesynthError(
            f"the plan is too large to execute: {cells} chunks of memory, {moved} moved, {blocks} thread blocks",
            code="HS532",
            exit_code=3,
            help="judge a plan with fewer chunks or thread blocks",
        )


def plan_layout(plan: Plan, root: Rank | None) -> Layout | str:
    """The buffers of ``plan``, or what is wrong with their sizes."""
    name, ranks = plan.collective, plan.ranks
    inputs, outputs = [gpu.input_chunks for gpu in plan.gpus], [gpu.output_chunks for gpu in plan.gpus]
    i, o = inputs[0], outputs[0]
    block = i // ranks if name == "alltoall" else o if name in ("reducescatter", "scatter") else i
    expected = buffer_sizes(name, ranks, block)
    for rank, own in enumerate(zip(inputs, outputs, strict=True)):
        alone = rank != (root or 0)  # of gather and scatter only the root's large buffer is real
        sizes = (
            own[0] if alone and name == "scatter" else expected[0],
            own[1] if alone and name == "gather" else expected[1],
        )
        if own != sizes:
            text = f"gpu {rank} has {own[0]} input and {own[1]} output chunks"
            return f"{text}: {name} on {ranks} ranks with blocks of {block} has {sizes[0]} and {sizes[1]}"
    return Layout(name, plan.in_place, root, inputs, outputs, block)


# The runtime lets a call in when its message, the output of an allgather, else the input, is within
# ``min_message_size`` and ``max_message_size``, on each rank by itself. Sizes are multiples of the chunks and the
# alignment; scratch is as many chunks of that size as the plan says, twice as many with packets (LL), again twice
# with a double buffer, and of a fixed 64 MiB when resources are reused. The kernel's offsets have 32 bits.


def states_sizes(plan: Plan) -> bool:
    """Return True if the plan itself says for which sizes it is; otherwise any may come."""
    return plan.max_bytes < OPEN_MAX_BYTES or plan.min_bytes > largest_message(plan)


def largest_message(plan: Plan) -> int:
    """The largest message, in bytes, with which all buffers of all GPUs can be addressed."""
    unit = max(1, plan.alignment)
    chunk = min(
        most // (max(1, chunks) * unit) * unit for gpu in plan.gpus for _, chunks, most in _buffers(plan, gpu)
    )
    return chunk * max(_message(plan, gpu) for gpu in plan.gpus)


def size_violations(plan: Plan, findings: Findings) -> None:
    """Add at most one finding: the largest buffer that the sizes let in, when it cannot be addressed."""
    unit = max(1, plan.alignment)
    chunk = min(plan.max_bytes // (_message(plan, gpu) * unit) * unit for gpu in plan.gpus)
    size, g, name = max(
        (chunks * chunk - most, -g, name)
        for g, gpu in enumerate(plan.gpus)
        for name, chunks, most in _buffers(plan, gpu)
    )
    if size <= 0:
        return
    said = "an open max_message_size" if plan.max_bytes == OPEN_MAX_BYTES else f"max_message_size {plan.max_bytes}"
    past = "4 GiB and more, past offsets of 32 bits"
    if name == "shared scratch":
        past = f"more than the {SHARED_SCRATCH >> 20} MiB that it has with reuse_resources"
    text = f"{said} lets its {name} buffer grow to {past}"
    text += f", where chunks overwrite each other; messages of up to {largest_message(plan)} bytes are safe"
    findings.add("plan-size-range", text, Place(-g))


def _message(plan: Plan, gpu: GpuPlan) -> int:
    """The chunks of the message of one rank, as the loader compares it with the range."""
    return max(1, gpu.output_chunks if plan.collective == "allgather" else gpu.input_chunks)


def _buffers(plan: Plan, gpu: GpuPlan) -> Iterator[tuple[str, int, int]]:
    """Yield (name, chunks of memory, most bytes) of each buffer that grows with the message."""
    yield "input", gpu.input_chunks, MAX_BUFFER_BYTES
    yield "output", gpu.output_chunks, MAX_BUFFER_BYTES
    chunks = gpu.scratch_chunks * (2 if plan.protocol == "LL" else 1) * (2 if plan.double_scratch else 1)
    if plan.reuse_resources:
        yield "shared scratch", chunks, SHARED_SCRATCH
    else:
        yield "scratch", chunks, MAX_BUFFER_BYTES


def plan_warnings(plan: Plan, root: Rank | None = None) -> list[Violation]:
    """Return what an operator must know before the plan is registered. ``root``: that of the plan, where known. Of
    the rooted collectives only broadcast is reached by a call of NCCL; who runs the others names the plan."""
    if plan.collective != "broadcast":
        return []
    whose = "one root" if root is None else f"root {root}"
    text = f"it is for {whose}, but the built-in selector runs it for every broadcast: others get wrong data"
    return [violation("plan-any-root", text)]
