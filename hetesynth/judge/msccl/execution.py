"""Executes a program that passed checks.structure under one aliasing: FIFOs, values, races, deadlock, final data.

How runtimes execute it: the thread blocks of a GPU run side by side, each its steps in order. A message is one
instruction's ``cnt`` chunks; a connection holds ``slots`` of them, a send waits for a free slot, a receive for a
message. A step with hasdep publishes its number when done; a dependence on step k waits for a published number
>= k, so it is sure of everything up to the first publishing step from k on, and of no more.

One order of execution is enough. Each FIFO has one writer and one reader and nothing else decides who goes
on, so whether a program stops is the same in every order, and so are its values unless there is a race, which
is found from the happens-before relation, not from the order chosen. That relation is: steps of one thread block;
a publishing step before those that wait for it; send k of a connection before receive k; receive k before send
k + slots. A vector clock has one entry per thread block of the program: entry b is the number of b's instructions
(of its messages, where instructions are split) known to have finished. An access stamped (b, k) happened before an
access under vector clock c when c[b] >= k.

Large buffers: the runtime repeats the whole program over slices of every chunk of all three buffers. Slices
are disjoint (scratch has full chunks too), flags carry the loop number, FIFOs keep their order: loops that overlap
touch different memory, and one loop without deadlock means that no number of them deadlocks.

Large chunks: a runtime splits ``cnt`` chunks into messages of k chunks, k from 71 down to 1 as chunks grow. With
``split`` = k a message has at most k chunks. k = 1 is the worst case for deadlock: where a send of k chunks waits
for the receive two messages back, the first of the same chunks sent singly waits for a receive that is there or
later in the receiver's order, so every circle of waits for some k is one for k = 1; and what hangs for some k
hangs for all below. Races are judged for whole messages (the fewest waits for slots) and for the smallest messages
that calls lead to (the least that one message orders).
"""

from bisect import bisect_left
from collections import deque
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate

import numpy as np

from hetesynth.judge.layout import Layout, SumDefect, Value, added
from hetesynth.judge.msccl.checks import READS, RECEIVES, SENDS, WRITES, publishers
from hetesynth.judge.race_detection import Access, Clock, Conflict, Kind, Memory
from hetesynth.judge.rules import Place, ProgramFindings, shown
from hetesynth.model.program import Buffer, BufferSlice, Instruction

_BUFFERS: tuple[Buffer, ...] = ("i", "o", "s")
_SUM_RULES: dict[SumDefect, str] = {"different chunks": "different-chunks", "added twice": "added-twice"}
MAX_SHOWN_WAITS = 6
ENDLESS = np.iinfo(np.int64).max  # the segment of a thread block whose steps are in order

_Event = tuple[Clock, int, int]
"""(clock, thread block, stamp): what is known once that instruction is done."""


def parts(x: Instruction, split: int) -> int:
    """How many messages the instruction has where one carries at most ``split`` chunks; 0: it is one."""
    return -(-x.count // split) if split and (x.op in SENDS or x.op in RECEIVES) else 1


@dataclass(slots=True)
class _Channel:
    """A connection: messages under way, and the receives that free slots for later sends. ``sends``: in the whole
    program."""

    sender: int = -1
    receiver: int = -1
    sends: int = 0
    messages: list[tuple[list[Value], _Event]] = field(default_factory=list)  # at most one a slot
    freed: list[_Event] = field(default_factory=list)
    sent: int = 0
    received: int = 0


@dataclass(slots=True)
class _Publication:
    """A published step: how many instructions still wait for it, which thread blocks stand still for it, and what
    they learn from it."""

    waiting: int = 0
    event: _Event | None = None
    sleepers: list[int] = field(default_factory=list)


@dataclass(slots=True)
class _Step:
    """An instruction: whether it takes a message and sends one, in how many ``parts``; what it waits for, a thread
    block, its step that publishes it, and that publication; and what it publishes."""

    x: Instruction
    receives: bool
    sends: bool
    parts: int
    wait: tuple[int, int, _Publication] | None = None
    publishes: _Publication | None = None


@dataclass(slots=True)
class _Block:
    """A thread block while it runs. ``step``: the instruction it is at, ``part``: which message of that one;
    ``done``: instructions, or messages of them, finished. ``shared``: others may hold ``clock``, it must stay."""

    index: int
    place: Place
    steps: list[_Step]
    bases: dict[Buffer, int]
    clock: Clock
    step: int = 0
    part: int = 0
    done: int = 0
    shared: bool = True
    inbound: _Channel = field(default_factory=_Channel)
    outbound: _Channel = field(default_factory=_Channel)

    @property
    def runs(self) -> bool:
        """Whether instructions are left."""
        return self.step < len(self.steps)

    @property
    def here(self) -> Place:
        """The step that the thread block is at."""
        return Place(self.place.gpu, self.place.block, self.step)

    def event(self) -> _Event:
        """What is known once the instruction, or message, at hand is done."""
        self.shared = True
        return self.clock, self.index, self.done + 1

    def learn(self, event: _Event) -> None:
        """The thread block now knows all that ``event`` knows."""
        clock, source, stamp = event
        if source == self.index or self.clock.item(source) >= stamp:
            return
        self.clock = np.maximum(self.clock, clock, out=None if self.shared else self.clock)
        self.shared = False
        self.clock[source] = stamp


class Execution:
    """One run of the program of ``findings``, to which ``run`` reports, with its buffers as ``layout`` says.
    ``split``: the most chunks of a message, 0: as many as its instruction says."""

    def __init__(self, layout: Layout, slots: int, findings: ProgramFindings, split: int = 0) -> None:
        self._slots, self._findings, self._split = slots, findings, split
        gpus = findings.program.gpus
        places = [Place(g, t) for g, gpu in enumerate(gpus) for t in range(len(gpu.thread_blocks))]
        code = [block for gpu in gpus for block in gpu.thread_blocks]
        longest = max((sum(parts(x, split) for x in block.instructions) for block in code), default=0)
        self._start: Clock = np.zeros(len(places), dtype=np.min_scalar_type(longest))
        self._memory = [Memory(layout, gpu.rank, partial(self._conflict, places), False) for gpu in gpus]
        bases = [{b: layout.cell(gpu.rank, gpu.rank, b, 0) for b in _BUFFERS} for gpu in gpus]
        position = {(p.gpu, block.id): k for k, (p, block) in enumerate(zip(places, code, strict=True))}
        published = [publishers(block) for block in code]
        channels: dict[tuple[int | None, int | None, int], _Channel] = {}
        self._blocks: list[_Block] = []
        for k, (place, tb) in enumerate(zip(places, code, strict=True)):
            steps = [_Step(x, x.op in RECEIVES, x.op in SENDS, parts(x, split)) for x in tb.instructions]
            block = _Block(k, place, steps, bases[place.gpu], self._start)
            rank = gpus[place.gpu].rank
            block.outbound = channels.setdefault((rank, tb.send_peer, tb.channel), _Channel())
            block.outbound.sender = k
            block.outbound.sends = sum(parts(x, split) for x in tb.instructions if x.op in SENDS)
            block.inbound = channels.setdefault((tb.recv_peer, rank, tb.channel), _Channel())
            block.inbound.receiver = k
            self._blocks.append(block)
        for block in self._blocks:
            for step in block.steps:
                if step.x.depends is None:
                    continue
                other = position[block.place.gpu, step.x.depends[0]]
                at = published[other][step.x.depends[1]]
                if at is not None:
                    publishing = self._blocks[other].steps[at]
                    publishing.publishes = publishing.publishes or _Publication()
                    publishing.publishes.waiting += 1
                    step.wait = other, at, publishing.publishes

    def run(self) -> None:
        """Executes until nothing moves; then deadlock or final data."""
        ready = deque(self._blocks)
        queued = {block.index for block in ready}
        while ready and not self._findings.full:
            block = ready.popleft()
            queued.discard(block.index)
            while block.runs and self._blocked_on(block) is None:
                for woken in self._execute(block, block.steps[block.step]):
                    if woken not in queued:
                        queued.add(woken)
                        ready.append(self._blocks[woken])
            wait = block.steps[block.step].wait if block.runs else None
            if wait is not None and self._blocks[wait[0]].step <= wait[1]:
                wait[2].sleepers.append(block.index)
        if self._findings.full:
            return
        if any(block.runs for block in self._blocks):
            self._deadlocks()
            return
        for g, memory in enumerate(self._memory):
            defect = memory.final_defect()
            if defect:
                self._findings.add("final-data", defect, Place(g))

    def _blocked_on(self, block: _Block) -> tuple[str, int] | None:
        """What the next instruction waits for, and which thread block could end the wait."""
        step = block.steps[block.step]
        wait = step.wait
        if wait is not None and self._blocks[wait[0]].step <= wait[1]:
            return "dependence", wait[0]
        if step.receives and not block.inbound.messages:
            return "message", block.inbound.sender
        if step.sends and len(block.outbound.messages) >= self._slots:
            return "slot", block.outbound.receiver
        return None

    def _execute(self, block: _Block, step: _Step) -> list[int]:
        """Does an instruction, or a message of it; the thread blocks that may go on because of it."""
        woken: list[int] = []
        if step.wait is not None and not block.part:
            publication = step.wait[2]
            if publication.event is not None:
                block.learn(publication.event)
            publication.waiting -= 1
            if not publication.waiting:
                publication.event = None  # nobody needs it again
        incoming: list[Value] = []
        inbound, outbound = block.inbound, block.outbound
        if step.receives:
            incoming, event = inbound.messages.pop(0)
            block.learn(event)
        if step.sends:
            if outbound.sent >= self._slots:
                block.learn(outbound.freed.pop(0))
            outbound.sent += 1
        outgoing = self._move(block, step, incoming)
        if step.receives:
            if inbound.received + self._slots < inbound.sends:  # else no send waits for it
                inbound.freed.append(block.event())
            inbound.received += 1
            woken.append(inbound.sender)
        if step.sends:
            outbound.messages.append((outgoing, block.event()))
            woken.append(outbound.receiver)
        block.part += 1
        if block.part >= step.parts:
            block.part, block.step = 0, block.step + 1
            if step.publishes is not None:
                step.publishes.event = block.event()
                woken = step.publishes.sleepers + woken
            if not block.runs:
                block.clock = self._start  # what it knew stays only in the events that others wait for
        block.done += 1
        return woken

    def _move(self, block: _Block, step: _Step, incoming: list[Value]) -> list[Value]:
        """Reads, adds, writes; returns what a sending instruction sends."""
        x, size, src, dst = step.x, step.x.count, step.x.src, step.x.dst
        if step.parts > 1:
            before = block.part * self._split  # chunks in earlier messages
            size = min(self._split, size - before)
            src, dst = (
                None if part is None else BufferSlice(part.buffer, part.offset + before) for part in (src, dst)
            )
        reads = src is not None and x.op in READS
        writes = dst is not None and x.op in WRITES
        if not (reads or writes):
            return incoming
        source = block.bases[src.buffer] + src.offset if src is not None and reads else -1
        target = block.bases[dst.buffer] + dst.offset if dst is not None and writes else -1
        access = Access(block.index, block.done + 1, block.step, block.clock, block.index, ENDLESS)
        memory = self._memory[block.place.gpu]
        data = incoming
        if src is not None and reads:
            values = memory.read(access, source, size, src)
            data = self._added(incoming, values, block) if step.receives else values
        if x.op == "cpy" and reads and writes and source == target:
            return data  # a chunk copied onto itself (the own block, in place) changes nothing for its readers
        if dst is not None and writes:
            if x.op == "re":
                data = self._added(memory.read(access, target, size, dst), data, block)
            if reads and 0 < abs(source - target) < size:
                self._findings.add("overlap", f"`{x.op}` reads and writes overlapping chunks", block.here)
            memory.write(access, target, data, dst)
        return data

    def _added(self, a: list[Value], b: list[Value], block: _Block) -> list[Value]:
        def report(defect: SumDefect, text: str) -> None:
            self._findings.add(_SUM_RULES[defect], text, block.here)

        return added(a, b, report)

    def _conflict(
        self, places: list[Place], access: Access, kind: Kind, other: Conflict | None, where: BufferSlice, at: int
    ) -> None:
        own, cell = places[access.actor], f"{where.buffer}[{where.offset + at}]"
        rule, text = "undefined-data", f"reads {cell}, which nothing has written yet"
        if other is not None:
            code = self._blocks[other.actor].steps
            step = bisect_left(list(accumulate(x.parts for x in code)), other.stamp)
            there = self._findings.where(Place(own.gpu, places[other.actor].block, step))
            rule = "split-race" if self._split else "race"
            text = f"{kind}s {cell} while {there} {other.kind}s it: no dependence or message orders them"
        self._findings.add(rule, text, Place(own.gpu, own.block, access.operation))

    def _deadlocks(self) -> None:
        """Follows who waits for whom from the first that waits, into the circle that it ends in."""
        path: dict[int, str] = {}
        index = next(block.index for block in self._blocks if block.runs)
        while index not in path and self._blocks[index].runs:
            block = self._blocks[index]
            what, other = self._blocked_on(block) or ("nothing", index)
            on = self._findings.where(self._blocks[other].place)
            wait = block.steps[block.step].wait
            if what == "dependence" and wait is not None:
                on = f"step {wait[1]} of {on}"
            path[index] = f"{self._findings.where(block.here)} waits for a {what}: {on}"
            index = other
        circle = list(path)[list(path).index(index) :] if index in path else list(path)
        waits = [path[k] for k in circle[:MAX_SHOWN_WAITS]]
        if len(circle) > MAX_SHOWN_WAITS:
            waits.append(f"and {len(circle) - MAX_SHOWN_WAITS} more")
        text = f"deadlock, {len(circle)} thread blocks wait in a circle: " + "; ".join(waits)
        rule = "split-deadlock" if self._split else "deadlock"
        self._findings.add(rule, text, self._blocks[circle[0]].here)


def buffers_touched(layout: Layout, findings: ProgramFindings) -> None:
    """Accesses that this aliasing forbids: the caller's input out of place, and buffers that only the root has."""
    for g, gpu in enumerate(findings.program.gpus):
        for t, block in enumerate(gpu.thread_blocks):
            for s, x in enumerate(block.instructions):
                for part, writes in ((x.src, False), (x.dst, True)):
                    used = x.op in (WRITES if writes else READS)
                    if part is None or not used:
                        continue
                    if layout.missing_buffer(gpu.rank, part.buffer):
                        text = f"touches {shown(part, x.count)}, but only the root has that buffer"
                        findings.add("root-only-buffer", text, Place(g, t, s))
                    elif writes and part.buffer == "i" and not layout.in_place:
                        text = f"writes {shown(part, x.count)}: out of place the input buffer must stay as it is"
                        findings.add("input-overwritten", text, Place(g, t, s))
