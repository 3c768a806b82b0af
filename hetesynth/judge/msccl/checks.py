"""What can be seen without running: GPUs, thread blocks, connections, ranges, dependences; and the buffers.

Everything found here hangs, crashes or corrupts whatever runtime executes the program, and the executor runs only
programs that pass. The limits of runtimes and the data are judged elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise

from hetesynth.judge.layout import COLLECTIVES, ROOTED, Layout
from hetesynth.judge.msccl.rules import Findings, Place, shown
from hetesynth.model.program import GpuProgram, Instruction, Program, ThreadBlock
from hetesynth.model.topology import Rank

SENDS = frozenset({"s", "rcs", "rrs", "rrcs"})
RECEIVES = frozenset({"r", "rcs", "rrs", "rrc", "rrcs"})
READS_SRC = frozenset({"s", "rrs", "rrc", "rrcs", "cpy", "re"})
WRITES_DST = frozenset({"r", "rcs", "rrc", "rrcs", "cpy", "re"})
_PER_RANK = frozenset({"allgather", "reducescatter", "alltoall", "gather", "scatter"})

_READER_CHECKS = {
    "src": frozenset({"s", "rrs", "rrcs", "cpy", "re"}),
    "dst": frozenset({"r", "rcs", "rrcs", "cpy", "re"}),
}
"""For each side the instructions whose first chunk readers hold against the buffer's size; -1 passes."""

Connection = tuple[Rank, Rank, int]
"""(sender, receiver, channel)."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Chunks in a full input buffer, a full output buffer, and one rank's block."""

    input: int
    output: int
    block: int


def buffer_sizes(program: Program) -> Sizes | None:
    """The sizes that the collective asks for, or None when C does not divide as it must or nothing is known.

    C chunks per loop cut the whole buffer of the collective. For gather and scatter C is taken to cut either one
    rank's block or the root's buffer, whichever the declared sizes say (``programs/lifting/buffers.py`` says the
    same by itself: the judge shares no code with what it judges).
    """
    chunks, ranks, name = program.chunks_per_loop, program.ranks, program.collective
    if name not in COLLECTIVES:
        return None
    whole = name not in _PER_RANK
    if name in ("gather", "scatter"):
        own = [g.input_chunks if name == "gather" else g.output_chunks for g in program.gpus]
        whole = max(own, default=0) == chunks
    if not whole and chunks % ranks:
        return None
    block = chunks if whole else chunks // ranks
    match name:
        case "gather":
            return Sizes(block, block * ranks, block)
        case "scatter":
            return Sizes(block * ranks, block, block)
        case "allgather":
            return Sizes(block, chunks, block)
        case "reducescatter":
            return Sizes(chunks, block, block)
    return Sizes(chunks, chunks, block)


def program_layout(program: Program, in_place: bool, root: Rank | None) -> Layout:
    """The buffers of ``program``: as large as its collective asks, or, where that is not known, as it declares."""
    sizes = buffer_sizes(program)
    if sizes is None:
        declared = {gpu.rank: (gpu.input_chunks, gpu.output_chunks) for gpu in program.gpus}
        inputs, outputs = zip(*(declared[rank] for rank in range(program.ranks)), strict=True)
        return Layout(program.collective, in_place, root, inputs, outputs, None)
    inputs, outputs = (sizes.input,) * program.ranks, (sizes.output,) * program.ranks
    return Layout(program.collective, in_place, root, inputs, outputs, sizes.block)


def structure(findings: Findings, links: Collection[tuple[int, int]] | None) -> None:
    """All static checks, in the order of the file. ``links``: pairs of ranks that have one; None: all."""
    program = findings.program
    seen: set[Rank] = set()
    for g, gpu in enumerate(program.gpus):
        if gpu.rank in seen:
            findings.add("gpu-twice", f"gpu id {gpu.rank} stands twice", Place(g))
        elif not 0 <= gpu.rank < program.ranks:
            findings.add("gpu-unknown", f"gpu id {gpu.rank} is out of range: ngpus={program.ranks}", Place(g))
        seen.add(gpu.rank)
    for rank in sorted(set(range(program.ranks)) - seen):
        findings.add("missing-gpu", f"there is no gpu {rank}, though ngpus={program.ranks}")
    _declared_sizes(findings)
    for g, gpu in enumerate(program.gpus):
        blocks: dict[int, tuple[ThreadBlock, list[int | None]]] = {}
        count = len(gpu.thread_blocks)
        for t, block in enumerate(gpu.thread_blocks):
            if block.id in blocks:
                text = f"thread block id {block.id} stands twice in gpu {gpu.rank}"
                findings.add("block-twice", text, Place(g, t))
            elif not 0 <= block.id < count:
                text = (
                    f"thread block id {block.id} leaves a gap: {count} thread blocks need the ids 0 to {count - 1}"
                )
                findings.add("block-gap", text, Place(g, t))
            blocks[block.id] = block, publishers(block)
        for t, block in enumerate(gpu.thread_blocks):
            _peers(findings, Place(g, t), block)
            for s, instruction in enumerate(block.instructions):
                _ranges(findings, Place(g, t, s), gpu, instruction)
            _dependences(findings, Place(g, t), block, blocks)
            for s, (a, b) in enumerate(pairwise(block.instructions), 1):
                if b.depends is None and not a.has_dependents and a.count != b.count and continues(a, b):
                    text = "runtimes merge this `re` with the one before it, and"
                    findings.add("reduction-count", f"{text} cnt={b.count} replaces cnt={a.count}", Place(g, t, s))
    _connections(findings, links)


def _declared_sizes(findings: Findings) -> None:
    """0 means the buffer is not used; a rooted collective may declare anything where the buffer is not real."""
    program = findings.program
    if program.collective not in COLLECTIVES:
        return
    chunks, sizes = f"nchunksperloop={program.chunks_per_loop}", buffer_sizes(program)
    if sizes is None:
        text = f"{chunks} is no multiple of ngpus={program.ranks}"
        findings.add("not-divisible", f"{text}: {program.collective} cuts its buffer into one block per rank")
        return
    accepted = {0, sizes.block, sizes.input, sizes.output} if program.collective in ROOTED else {0}
    for g, gpu in enumerate(program.gpus):
        both = (("i_chunks", gpu.input_chunks, sizes.input), ("o_chunks", gpu.output_chunks, sizes.output))
        for name, declared, expected in both:
            if declared not in accepted | {expected}:
                text = f"{name}={declared} does not fit {chunks}"
                text += f": {program.collective} on {program.ranks} ranks has {expected}"
                findings.add("declared-size", text, Place(g))


def _peers(findings: Findings, place: Place, block: ThreadBlock) -> None:
    program = findings.program
    rank = program.gpus[place.gpu].rank
    for word, peer in (("send", block.send_peer), ("recv", block.recv_peer)):
        if peer is not None and not 0 <= peer < program.ranks:
            findings.add("peer-unknown", f"{word} peer {peer} is no rank: ngpus={program.ranks}", place)
        elif peer == rank:
            findings.add("own-peer", f"{word} peer {peer} is the own rank of gpu {rank}", place)
    used = block.send_peer is not None or block.recv_peer is not None
    if block.channel < 0 or (used and block.channel >= program.channels):
        text = f"channel {block.channel} is never connected: nchannels={program.channels}"
        findings.add("channel-unconnected", text, place)


def _ranges(findings: Findings, place: Place, gpu: GpuProgram, instruction: Instruction) -> None:
    op, count = instruction.op, instruction.count
    if op == "nop":
        return
    block = gpu.thread_blocks[place.block or 0]
    if op in SENDS and block.send_peer is None:
        findings.add("no-peer", f"`{op}` sends, but the thread block has no send peer", place)
    if op in RECEIVES and block.recv_peer is None:
        findings.add("no-peer", f"`{op}` receives, but the thread block has no recv peer", place)
    if count < 1:
        rule = "zero-count" if count == 0 else "negative-count"
        findings.add(rule, f"cnt={count}: an instruction moves at least one chunk", place)
        return
    sizes = {"i": gpu.input_chunks, "o": gpu.output_chunks, "s": gpu.scratch_chunks}
    for side, part, ops in (("src", instruction.src, READS_SRC), ("dst", instruction.dst, WRITES_DST)):
        if op not in ops:
            continue
        if part is None:
            findings.add("no-buffer", f"`{op}` has no {side} buffer", place)
        elif part.offset < 0 or part.offset + count > sizes[part.buffer]:
            text = f"`{op}` touches {shown(part, count)} as {side}, but {part.buffer}_chunks={sizes[part.buffer]}"
            outside = part.offset < -1 or part.offset >= sizes[part.buffer]
            findings.add("offset-refused" if outside and op in _READER_CHECKS[side] else "range", text, place)


def publishers(block: ThreadBlock) -> list[int | None]:
    """For each step, the first from there on that publishes its number (hasdep, and no nop), or None."""
    published: list[int | None] = [None] * len(block.instructions)
    following: int | None = None
    for s in range(len(block.instructions) - 1, -1, -1):
        if block.instructions[s].has_dependents and block.instructions[s].op != "nop":
            following = s
        published[s] = following
    return published


def _dependences(
    findings: Findings, of: Place, block: ThreadBlock, blocks: dict[int, tuple[ThreadBlock, list[int | None]]]
) -> None:
    pending = False  # a nop before waits for something
    for s, instruction in enumerate(block.instructions):
        place, depends = Place(of.gpu, of.block, s), instruction.depends
        if depends is not None:
            number, step = depends
            target, published = blocks.get(number, (None, []))
            if target is None:
                rank = findings.program.gpus[place.gpu].rank
                text = f"depends on thread block {number}, which gpu {rank} does not have"
                findings.add("missing-block", text, place)
            elif number == block.id:
                text = f"depends on its own thread block {number}: steps of a thread block are in order anyway"
                findings.add("own-block", text, place)
            elif not 0 <= step < len(target.instructions):
                steps = len(target.instructions)
                text = f"depends on step {step} of thread block {number}, which has {steps} steps"
                findings.add("missing-step", text, place)
            elif published[step] is None:
                text = f"depends on step {step} of thread block {number}, which never publishes it (hasdep=0)"
                findings.add("never-published", text, place)
        if instruction.op != "nop":
            if pending and depends is None:
                text = "the step after a nop has no dependence of its own: it must carry the last one"
                findings.add("nop-dependence-lost", text, place)
            pending = False
            continue
        pending = pending or depends is not None
        if depends is None:
            findings.add("nop-without-dependence", "a nop without a dependence shifts the step numbers", place)
        if s + 1 == len(block.instructions):
            findings.add("nop-last", "a nop stands last: its dependence is lost", place)


def continues(a: Instruction, b: Instruction) -> bool:
    """Whether `re` ``b`` right after `re` ``a`` adds to the same place from the same buffer: runtimes merge them,
    and the count of the last one wins."""
    if not (a.op == b.op == "re" and a.dst == b.dst) or a.src is None or b.src is None:
        return False
    return a.src.buffer == b.src.buffer


def _connections(findings: Findings, links: Collection[tuple[int, int]] | None) -> None:
    """Each connection has one sender and one receiver, and each of its messages meets a receive of its count."""
    program = findings.program
    sending: dict[Connection, Place] = {}
    receiving: dict[Connection, Place] = {}
    for g, gpu in enumerate(program.gpus):
        for t, block in enumerate(gpu.thread_blocks):
            both = ((sending, block.send_peer, "send to"), (receiving, block.recv_peer, "receive from"))
            for claims, peer, what in both:
                if peer is None:
                    continue
                key = (gpu.rank, peer, block.channel) if claims is sending else (peer, gpu.rank, block.channel)
                first = claims.setdefault(key, Place(g, t))
                if first != Place(g, t):
                    other = program.gpus[first.gpu].thread_blocks[first.block or 0].id
                    text = f"duplicate connection: thread block {other} already has the {what} gpu {peer}"
                    text += f" on channel {key[2]}; both would share one FIFO"
                    findings.add("duplicate-connection", text, Place(g, t))
    for key in sorted(sending.keys() | receiving.keys()):
        src, dst, channel = key
        sender, receiver = sending.get(key), receiving.get(key)
        if links is not None and (src, dst) not in links:
            text = f"a connection from gpu {src} to gpu {dst}: the topology has no such link"
            findings.add("no-such-link", text, sender or receiver)
        sent, got = _counts(findings, sender, SENDS), _counts(findings, receiver, RECEIVES)
        name = f"from gpu {src} to gpu {dst} on channel {channel}"
        if sender is None and got:
            text = f"unpaired connection: messages {name} are received, but gpu {src} never sends there"
            findings.add("unpaired-connection", text, receiver)
        elif receiver is None and sent:
            text = f"unpaired connection: messages {name} are sent, but gpu {dst} never receives there"
            findings.add("unpaired-connection", text, sender)
        elif len(sent) != len(got):
            text = f"the connection {name} sends {len(sent)} messages but receives {len(got)}"
            findings.add("message-count", text, sender if sent[len(got) :] else receiver)
        elif receiver is not None:
            for k, ((a, _), (b, step)) in enumerate(zip(sent, got, strict=True)):
                if a != b:
                    text = f"message {k} {name} is sent with cnt={a} but received with cnt={b}"
                    findings.add("message-size", text, Place(receiver.gpu, receiver.block, step))
                    break


def _counts(findings: Findings, place: Place | None, ops: frozenset[str]) -> list[tuple[int, int]]:
    """(count, step) of each instruction of the thread block that is one of ``ops``."""
    if place is None or place.block is None:
        return []
    block = findings.program.gpus[place.gpu].thread_blocks[place.block]
    return [(x.count, s) for s, x in enumerate(block.instructions) if x.op in ops]
