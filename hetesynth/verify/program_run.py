"""Executes a program under one aliasing: bounded FIFOs, dependences, values, races, deadlock, final data.

In: a program that passed program_checks.structure, and a layout. Out: findings.

How runtimes execute it: the thread blocks of a GPU run side by side, each its steps in order. A message is one
instruction's ``cnt`` chunks; a connection holds ``slots`` of them, a send waits for a free slot, a receive for a
message. A step with hasdep publishes its number when done; a dependence on step k waits for a published number
>= k, so it is sure of everything up to the first publishing step from k on, and of no more.

One order of execution is enough. Each FIFO has one writer and one reader and nothing else decides who goes
on, so whether a program stops is the same in every order, and so are its values unless there is a race, which
is found from the happens-before relation, not from the order chosen. That relation is: steps of one thread block;
a publishing step before those that wait for it; send k of a connection before receive k; receive k before send
k + slots.

Large buffers: the runtime repeats the whole program over slices of every chunk of all three buffers. Slices
are disjoint (scratch has full chunks too), flags carry the loop number, FIFOs keep their order: loops that overlap
touch different memory, and one loop without deadlock means that no number of them deadlocks.

Large chunks: a runtime splits ``cnt`` chunks into messages of k chunks, k from 71 down to 1 as chunks grow. With
``split`` every message has one chunk (k = 1). That is the worst case for deadlock: where a send of k chunks waits
for the receive two messages back, the first of the same chunks sent singly waits for a receive that is there or
later in the receiver's order, so every circle of waits for some k is one for k = 1. Races are judged for whole
messages (the fewest waits for slots) and for single chunks (the least that one message orders).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import accumulate

import numpy as np

from hetesynth.model.program import BufferSlice, Instruction, ThreadBlock
from hetesynth.verify.program_checks import READS_SRC, RECEIVES, SENDS, WRITES_DST, publishers
from hetesynth.verify.program_findings import Findings, Place, shown
from hetesynth.verify.program_layout import BROKEN, Layout, Value, named
from hetesynth.verify.program_memory import Access, Clock, Memory, added

MAX_COUNTED_WRONG = 1000
MAX_SHOWN_WAITS = 6

_Event = tuple[Clock, int, int]
"""(clock, thread block, stamp): what is known once that instruction is done."""


@dataclass(slots=True)
class _Channel:
    """A connection: messages under way, and the receives that free slots for later sends."""

    sender: int
    receiver: int
    messages: deque[tuple[list[Value], _Event]] = field(default_factory=deque)
    freed: deque[_Event] = field(default_factory=deque)
    sent: int = 0


@dataclass(slots=True)
class _Publication:
    """A published step: how many instructions still wait for it, which thread blocks stand still for it, and what
    they learn from it."""

    waiting: int = 0
    event: _Event | None = None
    sleepers: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Code:
    """One instruction, or one message of it, ready to run: cells instead of offsets, a dependence as (thread
    block, position in its code of what publishes)."""

    op: str
    count: int
    src: int
    dst: int
    src_name: str
    dst_name: str
    wait: tuple[int, int] | None
    receives: bool
    sends: bool
    step: int


@dataclass(slots=True)
class _Block:
    """A thread block while it runs. ``done``: instructions finished."""

    index: int
    place: Place
    code: list[_Code]
    clock: Clock
    done: int = 0
    inbound: _Channel | None = None
    outbound: _Channel | None = None


class Execution:
    """One run of ``layout.program``; ``run`` reports to ``findings``."""

    def __init__(self, layout: Layout, slots: int, findings: Findings, split: bool = False) -> None:
        self._layout = layout
        self._slots = slots
        self._findings = findings
        places = [Place(g, t) for g, gpu in enumerate(layout.program.gpus) for t in range(len(gpu.thread_blocks))]
        self._split = split
        self._published: dict[tuple[int, int], _Publication] = {}
        self._blocks = self._compiled(places)
        steps = [[code.step for code in block.code] for block in self._blocks] if split else None
        self._memory = [Memory(layout, gpu, findings, places, steps) for gpu in layout.program.gpus]
        self._connect()

    def run(self) -> None:
        """Executes until nothing moves; then deadlock or final data."""
        ready = deque(range(len(self._blocks)))
        queued = [True] * len(self._blocks)
        while ready:
            index = ready.popleft()
            queued[index] = False
            for woken in self._advance(self._blocks[index]):
                if not queued[woken]:
                    queued[woken] = True
                    ready.append(woken)
            if self._findings.full:
                return
        if any(b.done < len(b.code) for b in self._blocks):
            self._deadlocks()
        else:
            self._final_data()

    # -- preparing

    def _compiled(self, places: list[Place]) -> list[_Block]:
        index_of = {(p.gpu, p.block): k for k, p in enumerate(places)}
        ends = [self._ends(b) for gpu in self._layout.program.gpus for b in gpu.thread_blocks]
        longest = max((e[-1] for e in ends if e), default=0)
        start: Clock = np.zeros(len(places), dtype=np.int32)
        if longest < 2**15 - 1:
            start = start.astype(np.int16)
        blocks: list[_Block] = []
        gpus = self._layout.program.gpus
        positions = [{b.id: t for t, b in enumerate(gpu.thread_blocks)} for gpu in gpus]
        published = {(p.gpu, p.block): publishers(gpus[p.gpu].thread_blocks[p.block or 0]) for p in places}
        for k, place in enumerate(places):
            gpu, position = gpus[place.gpu], positions[place.gpu]
            bases = self._layout.bases(gpu)
            code: list[_Code] = []
            for s, x in enumerate(gpu.thread_blocks[place.block or 0].instructions):
                wait = None
                if x.depends is not None:
                    t = position[x.depends[0]]
                    step = published[place.gpu, t][x.depends[1]]
                    other = index_of[place.gpu, t]
                    wait = (other, -1 if step is None else ends[other][step] - 1)
                    self._published.setdefault(wait, _Publication()).waiting += 1
                code += self._messages(x, _code(x, {str(b): at for b, at in bases.items()}, wait, s))
            blocks.append(_Block(k, place, code, start))
        return blocks

    def _ends(self, block: ThreadBlock) -> list[int]:
        """How much code the thread block has up to each step, that step included."""
        return list(accumulate(self._parts(x) for x in block.instructions))

    def _parts(self, x: Instruction) -> int:
        return x.count if self._split and (x.op in SENDS or x.op in RECEIVES) else 1

    def _messages(self, x: Instruction, whole: _Code) -> list[_Code]:
        """The instruction, or its messages of one chunk each: only the first waits."""
        if self._parts(x) == 1:
            return [whole]
        return [
            replace(
                whole,
                count=1,
                src=whole.src + k if whole.src >= 0 else -1,
                dst=whole.dst + k if whole.dst >= 0 else -1,
                src_name=_shifted(whole.src_name, k),
                dst_name=_shifted(whole.dst_name, k),
                wait=whole.wait if k == 0 else None,
            )
            for k in range(x.count)
        ]

    def _here(self, block: _Block) -> Place:
        """The step that the thread block is at."""
        return Place(block.place.gpu, block.place.block, block.code[block.done].step)

    def _connect(self) -> None:
        channels: dict[tuple[int, int, int], _Channel] = {}
        for block in self._blocks:
            gpu = self._layout.program.gpus[block.place.gpu]
            tb = gpu.thread_blocks[block.place.block or 0]
            if tb.send_peer is not None:
                block.outbound = channels.setdefault((gpu.rank, tb.send_peer, tb.channel), _Channel(-1, -1))
                block.outbound.sender = block.index
            if tb.recv_peer is not None:
                block.inbound = channels.setdefault((tb.recv_peer, gpu.rank, tb.channel), _Channel(-1, -1))
                block.inbound.receiver = block.index

    # -- running

    def _blocked_on(self, block: _Block, code: _Code) -> tuple[str, int] | None:
        """What the next instruction waits for, and which thread block could end the wait."""
        if code.wait is not None and self._blocks[code.wait[0]].done <= code.wait[1]:
            return "dependence", code.wait[0]
        if code.receives and block.inbound is not None and not block.inbound.messages:
            return "message", block.inbound.sender
        if code.sends and block.outbound is not None and len(block.outbound.messages) >= self._slots:
            return "slot", block.outbound.receiver
        return None

    def _advance(self, block: _Block) -> Iterator[int]:
        """Runs the thread block as far as it goes; yields those that may go on because of it."""
        while block.done < len(block.code):
            code = block.code[block.done]
            blocked = self._blocked_on(block, code)
            if blocked is not None:
                if blocked[0] == "dependence" and code.wait is not None:
                    self._published[code.wait].sleepers.append(block.index)
                return
            self._execute(block, code)
            block.done += 1
            step = block.done - 1
            publication = self._published.get((block.index, step))
            if publication is not None:
                publication.event = (block.clock, block.index, block.done)
                sleepers, publication.sleepers = publication.sleepers, []
                yield from sleepers
            if code.receives and block.inbound is not None:
                yield block.inbound.sender
            if code.sends and block.outbound is not None:
                yield block.outbound.receiver

    def _learn(self, block: _Block, event: _Event) -> None:
        """The thread block now knows all that ``event`` knows."""
        clock, source, stamp = event
        if source == block.index or block.clock[source] >= stamp:
            return
        block.clock = np.maximum(block.clock, clock)
        block.clock[source] = max(stamp, int(block.clock[source]))

    def _execute(self, block: _Block, code: _Code) -> None:
        if code.wait is not None:
            self._take_published(block, code.wait)
        incoming: list[Value] = []
        if code.receives and block.inbound is not None:
            incoming, event = block.inbound.messages.popleft()
            self._learn(block, event)
        if code.sends and block.outbound is not None:
            if block.outbound.sent >= self._slots:
                self._learn(block, block.outbound.freed.popleft())
            block.outbound.sent += 1
        outgoing = self._move(block, code, incoming) if code.op != "nop" else []
        here = (block.clock, block.index, block.done + 1)
        if code.receives and block.inbound is not None:
            block.inbound.freed.append(here)
        if code.sends and block.outbound is not None:
            block.outbound.messages.append((outgoing, here))

    def _take_published(self, block: _Block, wait: tuple[int, int]) -> None:
        publication = self._published[wait]
        if publication.event is not None:
            self._learn(block, publication.event)
        publication.waiting -= 1
        if not publication.waiting:
            del self._published[wait]

    def _move(self, block: _Block, code: _Code, incoming: list[Value]) -> list[Value]:
        """Reads, adds, writes; returns what a sending instruction sends."""
        place = self._here(block)
        access = Access(block.index, block.done + 1, block.clock, place)
        memory = self._memory[place.gpu]
        data = incoming
        if code.src >= 0:
            read = memory.read(access, code.src, code.count, code.src_name)
            data = added(incoming, read, self._findings, place) if code.receives else read
        if code.op == "cpy" and code.src == code.dst:
            return data  # a chunk copied onto itself (the own block, in place) cannot hurt those who read it
        if code.op == "re":
            held = memory.read(access, code.dst, code.count, code.dst_name)
            data = added(held, data, self._findings, place)
        if code.dst >= 0:
            if code.src >= 0 and 0 < abs(code.src - code.dst) < code.count:
                self._findings.add("overlap", f"`{code.op}` reads and writes overlapping chunks", place)
            memory.write(access, code.dst, data, code.dst_name)
        return data

    # -- the end

    def _deadlocks(self) -> None:
        """Follows who waits for whom; each cycle is reported once."""
        seen: set[int] = set()
        for block in self._blocks:
            path: list[int] = []
            index = block.index
            while index not in seen and self._blocks[index].done < len(self._blocks[index].code):
                seen.add(index)
                path.append(index)
                blocked = self._blocked_on(self._blocks[index], self._blocks[index].code[self._blocks[index].done])
                if blocked is None:
                    break
                index = blocked[1]
            if index in path:
                self._report_cycle(path[path.index(index) :])

    def _report_cycle(self, cycle: list[int]) -> None:
        waits = [self._wait_text(self._blocks[index]) for index in cycle[:MAX_SHOWN_WAITS]]
        if len(cycle) > MAX_SHOWN_WAITS:
            waits.append(f"and {len(cycle) - MAX_SHOWN_WAITS} more")
        text = f"deadlock, {len(cycle)} thread blocks wait in a circle: " + "; ".join(waits)
        block = self._blocks[cycle[0]]
        rule = "split-deadlock" if self._split else "deadlock"
        self._findings.add(rule, text, self._here(block))

    def _wait_text(self, block: _Block) -> str:
        code = block.code[block.done]
        who = self._findings.where(self._here(block))
        blocked = self._blocked_on(block, code)
        if blocked is None:
            return who
        on = self._findings.where(self._blocks[blocked[1]].place)
        if blocked[0] == "dependence" and code.wait is not None:
            return f"{who} waits for step {self._blocks[blocked[1]].code[code.wait[1]].step} of {on}"
        if blocked[0] == "message":
            return f"{who} waits for a message from {on}"
        return f"{who} waits for {on} to take one of the {self._slots} messages under way"

    def _final_data(self) -> None:
        sizes = self._layout.sizes
        if sizes is None:
            return
        for g, gpu in enumerate(self._layout.program.gpus):
            if self._findings.full or self._layout.expected(gpu.rank, 0) is None:
                continue
            base, wrong, first = self._layout.bases(gpu)["o"], 0, ""
            for chunk in range(sizes.output):
                expected = self._layout.expected(gpu.rank, chunk)
                held = self._memory[g].value(base + chunk)
                if held == expected:
                    continue
                wrong += 1
                if held != BROKEN and not first:
                    first = f"o[{chunk}] ends with {named(held)}, not {named(expected)}"
                if wrong >= MAX_COUNTED_WRONG:
                    break
            if first:
                more = f" ({wrong} of its {sizes.output} output chunks are wrong)" if wrong > 1 else ""
                self._findings.add("final-data", first + more, Place(g))


def _shifted(name: str, by: int) -> str:
    buffer, _, offset = name.partition(":")
    return f"{buffer}:{int(offset) + by}" if name else ""


def _code(x: Instruction, bases: dict[str, int], wait: tuple[int, int] | None, step: int) -> _Code:
    src = x.src if x.op in READS_SRC else None
    dst = x.dst if x.op in WRITES_DST else None
    return _Code(
        x.op, x.count, _cell(src, bases), _cell(dst, bases), _name(src), _name(dst), wait,
        x.op in RECEIVES, x.op in SENDS, step,
    )  # fmt: skip


def _cell(part: BufferSlice | None, bases: dict[str, int]) -> int:
    return -1 if part is None else bases[part.buffer] + part.offset


def _name(part: BufferSlice | None) -> str:
    return "" if part is None else f"{part.buffer}:{part.offset}"


def buffers_touched(layout: Layout, findings: Findings) -> None:
    """Accesses that this aliasing forbids: the caller's input out of place, and buffers that only the root has."""
    for g, gpu in enumerate(layout.program.gpus):
        for t, block in enumerate(gpu.thread_blocks):
            for s, x in enumerate(block.instructions):
                for part, writes in ((x.src, False), (x.dst, True)):
                    used = x.op in (WRITES_DST if writes else READS_SRC)
                    if part is None or not used:
                        continue
                    if layout.missing_buffer(gpu.rank, part.buffer):
                        text = f"touches {shown(part, x.count)}, but only the root has that buffer"
                        findings.add("root-only-buffer", text, Place(g, t, s))
                    elif writes and part.buffer == "i" and not layout.in_place:
                        text = f"writes {shown(part, x.count)}: out of place the input buffer must stay as it is"
                        findings.add("input-overwritten", text, Place(g, t, s))
