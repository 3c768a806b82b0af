"""How each reader of MSCCL XML treats a file, and the limits of targets: what a reader refuses or stumbles over.

Whoever writes files needs none of the facts about readers, so they stand beside the judge.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from hetesynth.judge.msccl.checks import RECEIVES, SENDS
from hetesynth.judge.rules import Place, ProgramFindings
from hetesynth.model import column
from hetesynth.model.program import Program, ThreadBlock
from hetesynth.model.step_table import in_ops, table_of_all
from hetesynth.model.target import ALL_OPS, TARGETS, Target

_COMMON = frozenset({"allreduce", "allgather", "reduce", "broadcast", "alltoall"})
_VENDOR = _COMMON | {"reducescatter", "send", "recv", "gather", "scatter", "alltoallv"}
_RESEARCH = _COMMON | {"reduce_scatter", "custom"}


MAX_CHILDREN = 1024


@dataclass(frozen=True, slots=True)
class Reader:
    """The facts about a reader. ``words``: values of ``coll``. ``uncalled``: those of them that no call of the
    library brings to MSCCL. ``mode_ignored``: collectives for which the library looks only for calls out of place,
    whatever the file says. ``takes_next_channel``: the reader lets the channel after the last of its table pass.
    ``leaves_table``: with that channel the reader compares and counts in foreign memory behind its table;
    otherwise it writes over fields of its own. ``checks_peers``: refuses peers that are no rank. ``checks_sizes``:
    holds i_chunks and o_chunks against nchunksperloop. ``checks_order``: refuses minBytes over maxBytes.
    ``idle_peers_crash``: the reader itself falls over a 33rd peer without a step. ``default_max_bytes``: the
    meaning of a missing maxBytes. ``thread_multiple``: the number that must divide ``nthreads``."""

    words: frozenset[str] = _VENDOR
    uncalled: frozenset[str] = frozenset()
    mode_ignored: frozenset[str] = frozenset()
    required: frozenset[str] = frozenset()
    takes_next_channel: bool = True
    leaves_table: bool = True
    checks_peers: bool = False
    checks_sizes: bool = False
    checks_order: bool = False
    idle_peers_crash: bool = True
    default_max_bytes: int = 0
    thread_multiple: int = 1


READERS: dict[str, Reader] = {
    "rccl-6": Reader(),
    "rccl-5": Reader(),
    "msccl-executor": Reader(uncalled=frozenset({"gather", "scatter", "alltoallv"})),
    "msccl": Reader(
        words=_RESEARCH,
        mode_ignored=frozenset({"alltoall"}),
        leaves_table=False,
        checks_peers=True,
        checks_sizes=True,
        checks_order=True,
        idle_peers_crash=False,
        default_max_bytes=2**27,
        thread_multiple=32,
    ),
    "nccl-device": Reader(  # pack.py: no table of fixed length but those of the target's limits
        words=_VENDOR | {"reduce_scatter"}, takes_next_channel=False, checks_peers=True, idle_peers_crash=False
    ),
    "portable": Reader(
        words=_COMMON | {"reducescatter", "gather", "scatter"},
        required=frozenset({"name"}),
        checks_peers=True,
        checks_sizes=True,
        checks_order=True,
        thread_multiple=32,
    ),
}

_XML = [target for target in TARGETS.values() if target.format.program]
ANY = Target(
    "any",
    "any reader of MSCCL XML",
    ops=ALL_OPS,
    max_steps=max(target.max_steps for target in _XML),
    max_thread_blocks=max(target.max_thread_blocks for target in _XML),
    max_channel=max(target.max_channel for target in _XML),
)
"""The limits that no runtime exceeds."""


def reader_of(target: Target) -> Reader:
    """The facts about ``target``'s reader; those of ``ANY`` for a target that is not in the table."""
    return READERS.get(target.name, Reader(takes_next_channel=False, idle_peers_crash=False))


Numbers = Mapping[tuple[int, int, int], int]
"""The value of ``s``, where not the position, by (position of the GPU, of the thread block, of the step)."""
Later = Mapping[int | None, int]
"""The number of elements in further <algo> elements, by the rank that stores them; None: all ranks do."""


def limits(
    findings: ProgramFindings, target: Target, numbers: Numbers, sms: int | None = None, later: Later | None = None
) -> None:
    """Report everything that exceeds the limits of ``target``. ``sms``: multiprocessors of a GPU; None: thread
    blocks are not held against them. ``later``: what else of the file readers store."""
    program = findings.program
    who = {"portable": "every runtime", "any": "any runtime"}.get(target.name, target.runtime)
    room = f"readers have room for {MAX_CHILDREN} children"
    if program.channels > target.max_channel + 1:
        findings.add("channels-limit", f"nchannels={program.channels} exceeds {target.max_channel + 1}")
    if len(program.gpus) > MAX_CHILDREN:
        findings.add("child-limit", f"{len(program.gpus)} GPUs; {room}")
    refused = _refused(program, target)
    for g, gpu in enumerate(program.gpus):
        blocks = len(gpu.thread_blocks)
        nodes = 1 + len(program.gpus) + blocks + sum(len(b.instructions) for b in gpu.thread_blocks)
        nodes += 0 if later is None else later.get(None, 0) + later.get(gpu.rank, 0)
        if nodes > target.max_nodes:
            text = f"{nodes} stored nodes exceed the {target.max_nodes} that the readers keep"
            findings.add("node-limit", text, Place(g))
        if blocks > target.max_thread_blocks:
            text = f"{blocks} thread blocks exceed the {target.max_thread_blocks} that {who} takes"
            findings.add("thread-block-limit", text, Place(g))
        if blocks > MAX_CHILDREN:
            findings.add("child-limit", f"{blocks} thread blocks; {room}", Place(g))
        if sms is not None and blocks > sms:
            text = f"{blocks} thread blocks wait for each other on {sms} multiprocessors"
            findings.add("co-residency", f"{text}: all must be there at once", Place(g))
        _peers(findings, g, target)
        for t, block in enumerate(gpu.thread_blocks):
            _steps(findings, Place(g, t), block, target, numbers, who, next(refused))
            _channel(findings, Place(g, t), block, target)


def _peers(findings: ProgramFindings, g: int, target: Target) -> None:
    """Report channels with too many thread blocks of one direction: readers keep a table of fixed length and look
    at it when a step uses it."""
    counts: Counter[tuple[str, int]] = Counter()
    reported: set[tuple[str, int, str]] = set()
    most = target.max_peers_per_channel
    idle = "idle-peer-crash" if reader_of(target).idle_peers_crash else "idle-peer-overflow"
    for word, ops in (("send", SENDS), ("receive", RECEIVES)):
        for t, block in enumerate(findings.program.gpus[g].thread_blocks):
            c = block.channel
            peer = block.send_peer if word == "send" else block.recv_peer
            counts[word, c] += peer is not None
            if peer is None or counts[word, c] <= most:
                continue
            rule = "peer-limit" if any(x.op in ops for x in block.instructions) else idle
            if (word, c, rule) not in reported:
                reported.add((word, c, rule))
                text = f"{counts[word, c]} thread blocks {word} on channel {c}; readers keep {most}"
                findings.add(rule, text, Place(g, t))


def _refused(program: Program, target: Target) -> Iterator[list[int]]:
    """Yield for each thread block the steps in which something may exceed what ``target`` stores or runs."""
    rows, first = table_of_all(program)
    over = ~in_ops(rows, ("nop",)) & (rows[:, column.COUNT] > target.max_count) | ~in_ops(rows, target.ops)
    over |= (rows[:, [column.SRC, column.DST]] > target.max_offset).any(axis=1)
    over |= rows[:, column.BLOCK] > target.max_depended_block
    steps = np.flatnonzero(over)
    for begin, end in pairwise(first.tolist()):
        yield (steps[np.searchsorted(steps, begin) : np.searchsorted(steps, end)] - begin).tolist()


def _steps(
    findings: ProgramFindings,
    place: Place,
    block: ThreadBlock,
    target: Target,
    numbers: Numbers,
    who: str,
    looked_at: Iterable[int],
) -> None:
    """Report steps past limits. Readers look at ``s``, not the count: small ones on many steps overflow memory."""
    steps = len(block.instructions)
    stated = (numbers.get((place.gpu, place.block or 0, s), s) for s in range(steps))
    outside = None
    if numbers or steps > target.max_steps:
        outside = next(((s, n) for s, n in enumerate(stated) if not 0 <= n < target.max_steps), None)
    if outside is not None:
        text = f"{steps} steps, s={outside[1]}: {who} takes 0 to {target.max_steps - 1}"
        findings.add("step-number", text, Place(place.gpu, place.block, outside[0]))
    elif steps > target.max_steps:
        text = f"{steps} steps exceed the {target.max_steps} that {who} has room for"
        findings.add("step-limit", text, place)
    if steps > MAX_CHILDREN:
        findings.add("child-limit", f"{steps} steps; readers have room for {MAX_CHILDREN} children", place)
    refused: set[str] = set()
    for s in looked_at:
        x, over = block.instructions[s], list[tuple[str, str]]()
        if x.op != "nop" and x.count > target.max_count:
            over.append(("count-limit", f"cnt={x.count} exceeds {target.max_count}; every reader refuses it"))
        for part in (x.src, x.dst):
            if x.op != "nop" and part is not None and part.offset > target.max_offset:
                text = f"offset {part.offset} exceeds {target.max_offset}, what runtimes store"
                over.append(("offset-limit", text))
        if x.depends is not None and x.depends[0] > target.max_depended_block:
            text = f"depid={x.depends[0]} exceeds {target.max_depended_block}, what runtimes store"
            over.append(("depid-limit", text))
        if x.op not in target.ops and x.op not in refused:
            refused.add(x.op)
            over.append(("op-refused", f"`{x.op}` is refused at launch by RCCL since ROCm 6.1"))
        for rule, text in over:
            findings.add(rule, text, Place(place.gpu, place.block, s))


def _channel(findings: ProgramFindings, place: Place, block: ThreadBlock, target: Target) -> None:
    """Report a channel past the limit. Readers compare with the number of channels, so the channel after the last
    passes, and has no entry in their table. In foreign memory behind it they find some number of peers: a step
    that sends or receives has too many, a thread block without such a step is entered far outside."""
    channel, reader = block.channel, reader_of(target)
    exceeded = f"channel {channel} exceeds {target.max_channel}"
    if channel > target.max_channel + reader.takes_next_channel:
        findings.add("channel-limit", exceeded, place)
    elif channel <= target.max_channel:
        return
    elif not reader.leaves_table:
        text = "the reader takes it and overwrites the size of scratch; there is no such channel to connect"
        findings.add("channel-overflow", f"{exceeded}: {text}", place)
    elif any(x.op in SENDS or x.op in RECEIVES for x in block.instructions):
        text = "the reader looks behind its table and refuses the file (too many sends, or receives, per channel)"
        findings.add("channel-past-table", f"{exceeded}: {text}", place)
    else:
        findings.add("channel-crash", f"{exceeded}: the reader writes behind its table and crashes", place)


def contradictions(findings: ProgramFindings, target: Target) -> None:
    """Report peers that are no rank, and sizes that contradict nchunksperloop, for a reader that looks at them."""
    program, reader = findings.program, reader_of(target)
    blocks = {"allgather": (program.ranks, 1), "reducescatter": (1, program.ranks)}
    inputs, outputs = blocks.get(program.collective, (1, 1))
    looks_at_sizes = reader.checks_sizes and program.collective not in ("gather", "scatter")
    for g, gpu in enumerate(program.gpus):
        for t, block in enumerate(gpu.thread_blocks) if reader.checks_peers else ():
            for word, peer in (("send", block.send_peer), ("recv", block.recv_peer)):
                if peer is not None and peer >= program.ranks:
                    text = f"{word} peer {peer} is no rank: ngpus={program.ranks}, and the reader looks"
                    findings.add("peer-refused", text, Place(g, t))
        both = (("i_chunks", gpu.input_chunks, inputs), ("o_chunks", gpu.output_chunks, outputs))
        for name, size, times in both if looks_at_sizes else ():
            if size > 0 and size * times != program.chunks_per_loop:
                text = f"{name}={size} times {times} is not nchunksperloop={program.chunks_per_loop}"
                findings.add("chunk-consistency", text, Place(g))
