"""What can be seen without running: GPUs, thread blocks, connections, ranges, dependences; and the buffers.

Everything found here hangs, crashes or corrupts whatever runtime executes the program, and the executor runs only
programs that pass. The limits of runtimes and the data are judged elsewhere.
"""

from collections.abc import Collection, Iterator
from itertools import pairwise

import numpy as np

from hetesynth.judge.layout import COLLECTIVES, ROOTED, Layout, buffer_sizes
from hetesynth.judge.rules import Place, ProgramFindings, shown
from hetesynth.machine_code import Ints
from hetesynth.model import column
from hetesynth.model.program import GpuProgram, Instruction, Op, Program, ThreadBlock
from hetesynth.model.step_table import Table, in_ops, table_of, table_of_all
from hetesynth.model.topology import Rank

# read from the runtimes apart from what lowering uses
SENDS: frozenset[Op] = frozenset({"s", "rcs", "rrs", "rrcs"})
RECEIVES: frozenset[Op] = frozenset({"r", "rcs", "rrs", "rrc", "rrcs"})
READS: frozenset[Op] = frozenset({"s", "rrs", "rrc", "rrcs", "cpy", "re"})
WRITES: frozenset[Op] = frozenset({"r", "rcs", "rrc", "rrcs", "cpy", "re"})
_PER_RANK = frozenset({"allgather", "reducescatter", "alltoall", "gather", "scatter"})

Connection = tuple[Rank, Rank, int]
"""(sender, receiver, channel)."""
Blocks = dict[int, tuple[ThreadBlock, list[int | None]]]
"""The thread blocks of one GPU by their ids, each with its ``publishers``."""


def block_chunks(program: Program) -> int | None:
    """Chunks of one rank's share, or None when C does not divide as it must or nothing is known.

    C chunks per loop cut the whole buffer of the collective. For gather and scatter C is taken to cut either one
    rank's block or the root's buffer, whichever the declared sizes say (``programs/lifting/dataflow.py`` says the
    same by itself: the judge shares no code with what it judges).
    """
    chunks, ranks, name = program.chunks_per_loop, program.ranks, program.collective
    if name not in COLLECTIVES:
        return None
    whole = name not in _PER_RANK
    if name in ("gather", "scatter"):
        own = [g.input_chunks if name == "gather" else g.output_chunks for g in program.gpus]
        whole = max(own, default=0) == chunks
    if whole:
        return chunks
    return None if chunks % ranks else chunks // ranks


def program_layout(program: Program, in_place: bool, root: Rank | None) -> Layout:
    """The buffers of ``program``: as large as its collective asks, or, where that is not known, as it declares."""
    ranks, block = range(program.ranks), block_chunks(program)
    sizes = {gpu.rank: (gpu.input_chunks, gpu.output_chunks) for gpu in program.gpus}
    if block is not None:
        sizes = dict.fromkeys(ranks, buffer_sizes(program.collective, program.ranks, block))
    inputs, outputs = zip(*(sizes[rank] for rank in ranks), strict=True)
    return Layout(program.collective, in_place, root, inputs, outputs, block)


def structure(findings: ProgramFindings, links: Collection[tuple[int, int]] | None) -> None:
    """Run all static checks, in the order of the file. ``links``: pairs of ranks that have one; None: all."""
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
    rows, first = table_of_all(program)
    strange = _blocks_to_inspect(program, rows, first)
    for g, gpu in enumerate(program.gpus):
        blocks: Blocks = {}
        count, odd = len(gpu.thread_blocks), [next(strange) for _ in gpu.thread_blocks]
        for t, block in enumerate(gpu.thread_blocks):
            if block.id in blocks:
                findings.add("block-twice", f"thread block id {block.id} stands twice", Place(g, t))
            elif not 0 <= block.id < count:
                findings.add("block-gap", f"{count} thread blocks need the ids 0 to {count - 1}", Place(g, t))
            blocks[block.id] = block, publishers(block) if any(odd) else []
        for t, block in enumerate(gpu.thread_blocks):
            _peers(findings, Place(g, t), block)
            if odd[t]:
                for s, instruction in enumerate(block.instructions):
                    _ranges(findings, Place(g, t, s), gpu, block, instruction)
                _dependences(findings, Place(g, t), block, blocks)
    _connections(findings, links)


def _blocks_to_inspect(program: Program, rows: Table, first: Ints) -> Iterator[bool]:
    """Return for each thread block True if it is to be looked at: something may be wrong with its ``rows``, which
    begin at ``first``, or ids of its GPU's blocks are not their positions."""
    blocks, of = program.blocks, np.repeat(np.arange(len(first) - 1), np.diff(first))
    count, nop = rows[:, column.COUNT], in_ops(rows, ("nop",))
    gpu = np.array([g for g, _ in blocks], dtype=np.int64)
    chunks = [(g.input_chunks, g.output_chunks, g.scratch_chunks, 0) for g in program.gpus]
    sizes = np.array(chunks, dtype=np.int64).reshape(-1, 4)
    odd = ~nop & (count < 1)
    for ops, peers in ((SENDS, [b.send_peer for _, b in blocks]), (RECEIVES, [b.recv_peer for _, b in blocks])):
        odd |= in_ops(rows, ops) & np.array([peer is None for peer in peers], dtype=np.bool_)[of]
    for ops, buffer, offset in ((READS, column.SRC_BUFFER, column.SRC), (WRITES, column.DST_BUFFER, column.DST)):
        at, size = rows[:, offset], sizes[gpu[of], rows[:, buffer]]
        odd |= in_ops(rows, ops) & ((rows[:, buffer] < 0) | (at < 0) | (at + count > size))
    # dependences: the thread block is there and another, and publishes from that step on
    waits = rows[:, column.BLOCK] >= 0
    begin = np.searchsorted(gpu, np.arange(len(program.gpus)))  # of each GPU, the first thread block
    inside = waits & (rows[:, column.BLOCK] < np.bincount(gpu, minlength=len(program.gpus))[gpu[of]])
    last = np.full(len(first), -1)  # step of each thread block that publishes; one more for none
    publishing = np.flatnonzero((rows[:, column.AWAITED] > 0) & ~nop)
    np.maximum.at(last, of[publishing], publishing - first[of[publishing]])
    other = np.where(inside, begin[gpu[of]] + rows[:, column.BLOCK], len(last) - 1)
    odd |= waits & ((other == of) | (rows[:, column.STEP] < 0) | (rows[:, column.STEP] > last[other]))
    another, adds = of[1:] == of[:-1], in_ops(rows, ("re",))  # of the same thread block
    passed_on = np.zeros(len(rows), dtype=np.bool_)
    passed_on[:-1] = another & waits[1:]
    odd |= nop & ~(waits & passed_on)
    odd[:-1] |= another & adds[:-1] & adds[1:] & (count[1:] != count[:-1])
    unnumbered = {g for k, (g, b) in enumerate(blocks) if b.id != k - begin[g]}
    return iter((np.bincount(of[odd], minlength=len(blocks)) + [g in unnumbered for g, _ in blocks] > 0).tolist())


def _declared_sizes(findings: ProgramFindings) -> None:
    """Report wrong sizes. 0: the buffer is not used; a rooted collective may declare any of its sizes anywhere."""
    program = findings.program
    name, block = program.collective, block_chunks(program)
    if name not in COLLECTIVES:
        return
    if block is None:
        text = f"nchunksperloop={program.chunks_per_loop} is no multiple of ngpus={program.ranks}"
        findings.add("not-divisible", f"{text}: {name} cuts its buffer into one block per rank")
        return
    inputs, outputs = buffer_sizes(name, program.ranks, block)
    accepted = {0, block, inputs, outputs} if name in ROOTED else {0}
    for g, gpu in enumerate(program.gpus):
        both = (("i_chunks", gpu.input_chunks, inputs), ("o_chunks", gpu.output_chunks, outputs))
        for word, declared, expected in both:
            if declared not in accepted | {expected}:
                text = f"{word}={declared} does not fit nchunksperloop={program.chunks_per_loop}"
                findings.add("declared-size", f"{text}: {name} on {program.ranks} ranks has {expected}", Place(g))


def _peers(findings: ProgramFindings, place: Place, block: ThreadBlock) -> None:
    program = findings.program
    for word, peer in (("send", block.send_peer), ("recv", block.recv_peer)):
        if peer is not None and not 0 <= peer < program.ranks:
            findings.add("peer-unknown", f"{word} peer {peer} is no rank: ngpus={program.ranks}", place)
        elif peer == program.gpus[place.gpu].rank:
            findings.add("own-peer", f"{word} peer {peer} is the GPU itself", place)
    used = block.send_peer is not None or block.recv_peer is not None
    if block.channel < 0 or (used and block.channel >= program.channels):
        text = f"channel {block.channel} is never connected: nchannels={program.channels}"
        findings.add("channel-unconnected", text, place)


def _ranges(findings: ProgramFindings, place: Place, gpu: GpuProgram, block: ThreadBlock, x: Instruction) -> None:
    if x.op == "nop":
        return
    if (x.op in SENDS and block.send_peer is None) or (x.op in RECEIVES and block.recv_peer is None):
        findings.add("no-peer", f"`{x.op}` sends or receives, but the thread block has no such peer", place)
    if x.count < 1:
        rule = "zero-count" if x.count == 0 else "negative-count"
        findings.add(rule, f"cnt={x.count}: an instruction moves at least one chunk", place)
        return
    sizes = {"i": gpu.input_chunks, "o": gpu.output_chunks, "s": gpu.scratch_chunks}
    for side, part, ops in (("src", x.src, READS), ("dst", x.dst, WRITES)):
        if x.op not in ops:
            continue
        if part is None:
            findings.add("no-buffer", f"`{x.op}` has no {side} buffer", place)
        elif part.offset < 0 or part.offset + x.count > sizes[part.buffer]:
            size = sizes[part.buffer]
            text = f"`{x.op}` touches {shown(part, x.count)} as {side}, but {part.buffer}_chunks={size}"
            refused = x.op != "rrc" and (part.offset < -1 or part.offset >= size)  # by readers, whom -1 passes
            findings.add("offset-refused" if refused else "range", text, place)


def publishers(block: ThreadBlock) -> list[int | None]:
    """For each step, the first from there on that publishes its number (hasdep, and no nop), or None."""
    published: list[int | None] = [None] * len(block.instructions)
    following: int | None = None
    for s in range(len(block.instructions) - 1, -1, -1):
        if block.instructions[s].has_dependents and block.instructions[s].op != "nop":
            following = s
        published[s] = following
    return published


def _dependences(findings: ProgramFindings, of: Place, block: ThreadBlock, blocks: Blocks) -> None:
    pending = False  # a nop before waits for something
    for s, x in enumerate(block.instructions):
        place = Place(of.gpu, of.block, s)
        if x.depends is not None:
            number, step = x.depends
            target, published = blocks.get(number, (None, []))
            awaited = f"depends on step {step} of thread block {number}"
            if target is None:
                findings.add("missing-block", f"{awaited}, which the GPU does not have", place)
            elif number == block.id:
                text = f"{awaited}, its own: steps of a thread block are in order anyway"
                findings.add("own-block", text, place)
            elif not 0 <= step < len(published):
                findings.add("missing-step", f"{awaited}, which has {len(published)} steps", place)
            elif published[step] is None:
                findings.add("never-published", f"{awaited}, which never publishes it (hasdep=0)", place)
        if x.op == "nop":
            pending = pending or x.depends is not None
            if x.depends is None:
                text = "a nop without a dependence shifts the step numbers"
                findings.add("nop-without-dependence", text, place)
            if s + 1 == len(block.instructions):
                findings.add("nop-last", "a nop stands last: its dependence is lost", place)
            continue
        if pending and x.depends is None:
            text = "the step after a nop has no dependence of its own: it must carry the last one"
            findings.add("nop-dependence-lost", text, place)
        pending = False
    for s, (a, b) in enumerate(pairwise(block.instructions), 1):
        # runtimes merge `re` that add to one place from one buffer, and the count of the last one wins
        if a.op == b.op == "re" and a.dst == b.dst and not a.has_dependents and b.depends is None:
            one_buffer = a.src is not None and b.src is not None and a.src.buffer == b.src.buffer
            if one_buffer and a.count != b.count:
                text = f"runtimes merge this `re` with the one before it: cnt={b.count} replaces cnt={a.count}"
                findings.add("reduction-count", text, Place(of.gpu, of.block, s))


def _connections(findings: ProgramFindings, links: Collection[tuple[int, int]] | None) -> None:
    """Report connections without one sender and one receiver, and messages that meet no receive of their count."""
    program = findings.program
    sending: dict[Connection, Place] = {}
    receiving: dict[Connection, Place] = {}
    for g, gpu in enumerate(program.gpus):
        for t, block in enumerate(gpu.thread_blocks):
            for claims, peer in ((sending, block.send_peer), (receiving, block.recv_peer)):
                if peer is None:
                    continue
                key = (gpu.rank, peer, block.channel) if claims is sending else (peer, gpu.rank, block.channel)
                first = claims.setdefault(key, Place(g, t))
                if first != Place(g, t):
                    text = f"duplicate connection: {findings.where(first)} has it too, both would share a FIFO"
                    findings.add("duplicate-connection", text, Place(g, t))
    for key in sorted(sending.keys() | receiving.keys()):
        src, dst, channel = key
        sender, receiver = sending.get(key), receiving.get(key)
        if links is not None and (src, dst) not in links:
            text = f"a connection from gpu {src} to gpu {dst}: the topology has no such link"
            findings.add("no-such-link", text, sender or receiver)
        (sent, _), (got, steps) = _counts(findings, sender, SENDS), _counts(findings, receiver, RECEIVES)
        name = f"from gpu {src} to gpu {dst} on channel {channel}"
        if (sender is None and len(got)) or (receiver is None and len(sent)):
            text = f"unpaired connection: messages {name} have only one end"
            findings.add("unpaired-connection", text, sender or receiver)
        elif len(sent) != len(got):
            text = f"the connection {name} sends {len(sent)} messages but receives {len(got)}"
            findings.add("message-count", text, sender if len(sent) > len(got) else receiver)
        elif receiver is not None and (sent != got).any():
            k = int((sent != got).argmax())
            text = f"message {k} {name} is sent with cnt={sent[k]} but received with cnt={got[k]}"
            findings.add("message-size", text, Place(receiver.gpu, receiver.block, int(steps[k])))


def _counts(findings: ProgramFindings, place: Place | None, ops: Collection[Op]) -> tuple[Ints, Ints]:
    """Count and step of each instruction of the thread block that is one of ``ops``."""
    if place is None or place.block is None:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    rows = table_of(findings.program.gpus[place.gpu].thread_blocks[place.block].instructions)
    steps = np.flatnonzero(in_ops(rows, ops))
    return rows[steps, column.COUNT], steps
