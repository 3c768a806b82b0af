"""Executes an MSCCL++ plan that passed ``checks``: signals, barriers, semaphores; values, races, deadlock.

How the runtime executes it: the thread blocks of a GPU run side by side, each its operations in order. Copies and
sums are made by all threads of a block, signals, waits and port puts by single threads; only ``nop`` and
``barrier`` make the threads of a block wait for each other. So what a wait learns holds after the next of these,
and a signal guarantees what came before the last of these. A relaxed signal guarantees of that the reads alone,
whose values are in registers by then, and that the kernel runs: writes may become visible later. A port channel
moves data on its own: the source is read, and the target written, some time before a later signal of the channel
arrives; the sender knows so after a flush. What two threads of a block push to a channel is in order only if they
meet in between (``state.Order``). Kernels start and end by themselves: memory of a peer may be touched only
between a first signal from it and its last wait.

A packet tells by its flag that it is there: who reads one waits for it, and hears that the sender's kernel runs
and that what each of its elements was made of has been read. The next run writes packets in the same places, or
with two scratch buffers in those of the run before: the sender has to know that they were read. It does where it
heard from the receiver earlier in that run; else by its end of each run it must know that the receiver runs (two
buffers) or has read them (one).

One order of execution is enough: signals are counted per channel with one sender and one receiver, so whether a
plan stops does not depend on the order, nor do values unless there is a race, which is found from
happens-before. Only a semaphore that several thread blocks acquire may depend on it; an acquire then learns what
it is sure of.
"""

from collections import Counter, OrderedDict, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain

import numpy as np

from hetesynth.judge.layout import Layout, SumDefect, Value, added
from hetesynth.judge.mscclpp.checks import home, packets_of
from hetesynth.judge.mscclpp.state import (
    BlockState,
    ChannelEnd,
    Packet,
    PortPut,
    SemaphoreState,
    joined,
    meet_all,
    orders,
)
from hetesynth.judge.race_detection import Access, Clock, Conflict, Drawn, Kind, Memory
from hetesynth.judge.rules import Findings, Place, shown
from hetesynth.model.plan import CHANNEL_TYPES, PACKET_OPS, ChannelType, Plan, PlanOperation, Slice
from hetesynth.model.program import BufferSlice
from hetesynth.model.topology import Rank

MAX_SHOWN_WAITS = 6
_NOP = "a nop must stand between a put and a signal or flush of another thread"
_SUM_RULES: dict[SumDefect, str] = {"different chunks": "plan-different-chunks", "added twice": "plan-added-twice"}


class PlanExecution:
    """A run of ``plan`` with its buffers as ``layout`` says; ``run`` reports to ``findings``."""

    def __init__(self, plan: Plan, layout: Layout, findings: Findings) -> None:
        self._layout, self._plan, self._findings = layout, plan, findings
        codes = [(Place(g, t), code) for g, gpu in enumerate(plan.gpus) for t, code in enumerate(gpu.blocks)]
        self._names = [findings.where(place) for place, _ in codes]  # of every actor
        self._own: list[range] = []
        for gpu in plan.gpus:
            begin = self._own[-1].stop if self._own else 0
            self._own.append(range(begin, begin + len(gpu.blocks)))
        self._reader = [place.gpu for place, _ in codes]  # of every actor: of a NIC, for whom it reads
        self._ends: list[ChannelEnd] = []
        self._end_of: dict[tuple[Rank, ChannelType, int], ChannelEnd] = {}
        met: dict[tuple[Rank, Rank, ChannelType], list[ChannelEnd]] = defaultdict(list)
        for g, gpu in enumerate(plan.gpus):
            for kind in CHANNEL_TYPES:
                for c, peer in enumerate(gpu.peers(kind)):
                    end = ChannelEnd(g, kind, c)
                    if kind == "port":
                        end.engine = len(self._names)
                        self._reader.append(peer)
                        self._names.append(f"the port channel {c} of gpu {g} to gpu {peer}")
                    self._end_of[g, kind, c] = end
                    met[g, peer, kind].append(end)
                    self._ends.append(end)
        for (g, peer, kind), mine in met.items():  # the k-th channel to a peer meets the peer's k-th back
            for end, far in zip(mine, met.get((peer, g, kind), []), strict=False):
                end.far = far
        self._started = len(self._names)
        self._memory = [Memory(layout, g, partial(self._conflict, g)) for g in range(plan.ranks)]
        self._semaphores = [[SemaphoreState(v, v) for v in gpu.semaphores] for gpu in plan.gpus]
        self._releasers: dict[tuple[Rank, int], Counter[int]] = defaultdict(Counter)
        self._barriers: dict[tuple[Rank, int | None], list[BlockState]] = defaultdict(list)
        self._blocks: list[BlockState] = []
        for k, (place, code) in enumerate(codes):
            for s in (s for x in code.operations if x.op == "sem_release" for s in x.semaphores):
                self._releasers[place.gpu, s][k] += 1
            clock = np.zeros(self._started + plan.ranks, dtype=np.int32)
            clock[self._started + place.gpu] = 1
            self._blocks.append(BlockState(k, place, code, clock, self._started, clock))
        self._orders = [orders(code) for _, code in codes]
        self._ready = OrderedDict.fromkeys(range(len(codes)))
        self._packets: list[dict[int, Packet]] = [{} for _ in plan.gpus]  # by cell
        self._sent: list[tuple[Place, Rank, int, Clock]] = []  # packets: whose cell, and what the sender knew
        self._drawn: list[set[Drawn]] = [set() for _ in plan.gpus]  # reads that a GPU heard of in packets

    def run(self) -> None:
        """Execute until nothing moves, then report a deadlock, or what is left over and wrong final data."""
        while self._ready and not self._findings.full:
            index, _ = self._ready.popitem(last=False)
            block = self._blocks[index]
            operations = block.code.operations
            while block.done < len(operations) and not self._blocked(block, operations[block.done]):
                self._execute(block, operations[block.done])
                block.done += 1
        if self._findings.full:
            return
        if any(b.done < len(b.code.operations) for b in self._blocks):
            self._deadlock()
        else:
            self._leftovers()
            for g, memory in enumerate(self._memory):
                defect = memory.final_defect()
                if defect:
                    self._findings.add("plan-final-data", defect, Place(g))

    def _blocked(self, block: BlockState, operation: PlanOperation) -> bool:
        """Return True if ``operation`` must wait. The last to come to a barrier lets everybody go on."""
        gpu = block.place.gpu
        match operation.op:
            case "wait" | "rlxwait":
                return any(not end.inbox for end in self._ends_of(block, operation))
            case "sem_acquire":
                return any(self._semaphores[gpu][s].value < 1 for s in operation.semaphores)
            case op if op in PACKET_OPS:
                parts = operation.src[packets_of(operation)[0] :]
                cells = (cell for part in parts for cell in self._cells(block, operation, part))
                return any(cell not in self._packets[gpu] for cell in cells)
            case "barrier":
                members = self._barriers[gpu, operation.barrier]
                if block.arrived:
                    block.arrived = block in members
                    return block.arrived
                members.append(block)
                block.arrived = len(members) != operation.blocks
                if not block.arrived:
                    meet_all(members)
                    self._ready.update(OrderedDict.fromkeys(member.index for member in members))
                    members.clear()
                return block.arrived
        return False

    def _execute(self, block: BlockState, operation: PlanOperation) -> None:
        gpu = block.place.gpu
        match operation.op:
            case "nop":
                block.meet()
            case "barrier":  # the last to arrive did it for all
                return
            case "signal" | "rlxsignal":
                for end in self._ends_of(block, operation):
                    self._signal(block, end)
            case "wait" | "rlxwait":
                relaxed = operation.op == "rlxwait" and operation.channel_type != "port"
                for end in self._ends_of(block, operation):
                    self._uses(block, end, "wait")
                    event = end.inbox.popleft()
                    block.pending.append(replace(event, relaxed=True) if relaxed else event)
            case "flush":
                for thread, end in enumerate(self._ends_of(block, operation)):
                    block.await_puts(end, end.before_thread(block, thread), thread)
            case "sem_acquire":
                for s in operation.semaphores:
                    releasers = self._releasers[gpu, s]
                    block.pending += self._semaphores[gpu][s].acquire(block.index, releasers)
            case "sem_release":
                for s in operation.semaphores:
                    self._semaphores[gpu][s].value += 1
                    self._semaphores[gpu][s].releases.append(block.event())
                    self._ready.update(OrderedDict.fromkeys(self._own[gpu]))
            case "put" | "pws" | "pwsf" if operation.channel_type == "port":
                self._port_puts(block, operation)
            case op if op in PACKET_OPS:
                self._move_packets(block, operation)
            case _:
                self._move(block, operation)

    def _ends_of(self, block: BlockState, operation: PlanOperation) -> list[ChannelEnd]:
        kind = operation.channel_type or "memory"
        channels = block.code.channels(kind)
        return [self._end_of[block.place.gpu, kind, channels[c]] for c in operation.channels]

    def _uses(self, block: BlockState, end: ChannelEnd, use: str) -> None:
        """Record a use of a channel's counters; report if nothing orders it with another thread block's."""
        who, segment = end.last.get(use, (block.index, block.segment))
        if who != block.index and block.clock[who] < segment:
            text = f"uses a channel that {self._names[who]} uses too: nothing orders the two"
            self._findings.add("plan-channel-shared", text, block.here)
        end.last[use] = block.index, block.segment

    def _signal(self, block: BlockState, end: ChannelEnd) -> None:
        self._uses(block, end, "signal")
        turn = end.turn(block)
        turn[1] += 1
        puts = None
        relaxed = turn[1] <= self._orders[block.index][block.segment, end.kind, end.channel].relaxed
        if end.kind == "port":
            puts = end.engine, end.before_signal(block)
        if end.far is None:
            self._findings.add("plan-no-far-end", "signals on a channel that has no far end", block.here)
            return
        end.far.inbox.append(block.event(puts, relaxed))
        self._ready.update(OrderedDict.fromkeys(self._own[end.far.gpu]))

    def _move(self, block: BlockState, operation: PlanOperation) -> None:
        """Execute what the threads of the block copy and add themselves."""
        access = block.access(block.index, block.segment)
        if operation.op in ("put", "get", "copy"):
            for src, dst in zip(operation.src, operation.dst, strict=True):
                self._write(block, operation, access, dst, self._read(block, operation, access, src))
            return
        total = self._sum(block, [self._read(block, operation, access, part) for part in operation.src])
        for part in operation.dst:
            self._write(block, operation, access, part, total)

    def _sum(self, block: BlockState, sources: list[list[Value]]) -> list[Value]:
        """Return all sources added, chunk by chunk."""
        total = sources[0]
        for values in sources[1:]:
            total = added(
                total, values, lambda defect, text: self._findings.add(_SUM_RULES[defect], text, block.here)
            )
        return total

    def _cells(self, block: BlockState, operation: PlanOperation, part: Slice) -> range:
        """The cells of a slice in the memory of its owner."""
        owner, buffer = home(self._plan.gpus[block.place.gpu], block.code, operation, part)
        first = self._layout.cell(owner, block.place.gpu, buffer, part.index)
        return range(first, first + part.size)

    def _move_packets(self, block: BlockState, operation: PlanOperation) -> None:
        """Reads the packets that have come, with the data beside them, and writes data and packets."""
        gpu, (read, written) = block.place.gpu, packets_of(operation)
        access = block.access(block.index, block.segment)
        places = [self._cells(block, operation, part) for part in operation.src]
        last = {cell: k for k, cells in enumerate(places) for cell in cells}  # slices are read one after another
        sources, packets = [], list[list[list[Packet]]]()  # behind each position of each slice
        for k, (part, cells) in enumerate(zip(operation.src, places, strict=True)):
            memory, first, name = self._located(block, operation, part)
            sources.append(memory.read(access, first, part.size, name, waited=k >= read))
            packets.append([])
            for cell in cells:
                came = [self._packets[gpu][cell]] if k >= read else []
                done = {(gpu, cell, block.index, block.segment, block.done)} if last[cell] == k else set()
                packets[-1].append([*came, Packet(block.event(relaxed=True), frozenset(done))])
                block.pending += [packet.event for packet in came]
                self._drawn[gpu].update(*(packet.drawn for packet in came), done if came else ())
        if operation.op != "ppkt":  # all sources make one value, which goes everywhere
            sources = [self._sum(block, sources)] * len(operation.dst)
            packets = [[list(chain(*each)) for each in zip(*packets, strict=True)]] * len(operation.dst)
        ends = self._ends_of(block, operation) if operation.channel_type == "port" else []
        for k, (part, values, behind) in enumerate(zip(operation.dst, sources, packets, strict=True)):
            outgoing = [joined(each) for each in behind]
            drawn = [packet.drawn for packet in outgoing]
            if k < written:
                self._write(block, operation, access, part, values, drawn)
                continue
            owner, _ = home(self._plan.gpus[gpu], block.code, operation, part)
            writing, cells = access, self._cells(block, operation, part)
            if ends:  # a NIC carries them, and reads its source until they have arrived
                ends[k].puts.append(PortPut(block.index, block.segment, k, 0))
                writing = access._replace(actor=ends[k].engine, stamp=len(ends[k].puts))
                memory, first, name = self._located(block, operation, operation.src[0])
                memory.read(writing, first, part.size, name, waited=True)
            for cell, packet in zip(cells, outgoing, strict=True):
                if cell in self._packets[owner]:
                    text = f"writes packet {cell - cells.start + part.index} of gpu {owner} again"
                    self._findings.add(
                        "plan-packets-overwritten", f"{text}: both have the flag of this run", block.here
                    )
                self._packets[owner][cell] = packet
                self._sent.append((block.here, owner, cell, packet.event.clock))
            self._memory[owner].write(writing, cells.start, values, BufferSlice("s", part.index), drawn)
            self._ready.update(OrderedDict.fromkeys(self._own[owner]))

    def _port_puts(self, block: BlockState, operation: PlanOperation) -> None:
        for thread, end in enumerate(self._ends_of(block, operation)):
            before, turn = end.before_thread(block, thread), end.turn(block)
            covered = self._orders[block.index][block.segment, end.kind, end.channel].covers[turn[0]]
            turn[0] += 1
            end.puts.append(PortPut(block.index, block.segment, thread, covered))
            access = block.access(end.engine, len(end.puts), before)
            values = self._read(block, operation, access, operation.src[thread])
            self._write(block, operation, access, operation.dst[thread], values)
            if operation.op in ("pws", "pwsf"):
                self._signal(block, end)
            if operation.op == "pwsf":
                block.await_puts(end, end.before_thread(block, thread), thread)

    def _located(
        self, block: BlockState, operation: PlanOperation, part: Slice
    ) -> tuple[Memory, int, BufferSlice]:
        """Return a slice's memory, its first cell there and its name; report an owner that may not run yet."""
        gpu = block.place.gpu
        owner, buffer = home(self._plan.gpus[gpu], block.code, operation, part)
        name = BufferSlice(buffer, part.index)
        if not block.clock[self._started + owner]:
            text = f"touches {shown(name, part.size)} of gpu {owner}, whose kernel may not have started"
            self._findings.add("plan-early-access", f"{text}: nothing has been heard from it", block.here)
        return self._memory[owner], self._layout.cell(owner, gpu, name.buffer, part.index), name

    def _read(self, block: BlockState, operation: PlanOperation, access: Access, part: Slice) -> list[Value]:
        memory, first, name = self._located(block, operation, part)
        return memory.read(access, first, part.size, name)

    def _write(
        self,
        block: BlockState,
        operation: PlanOperation,
        access: Access,
        part: Slice,
        values: list[Value],
        drawn: Sequence[Collection[Drawn]] = (),
    ) -> None:
        memory, first, name = self._located(block, operation, part)
        if name.buffer == "i" and not self._plan.in_place:
            text = f"writes {shown(name, part.size)}: out of place the input buffer must stay as it is"
            self._findings.add("plan-input-overwritten", text, block.here)
        memory.write(access, first, values, name, drawn)

    def _conflict(
        self, owner: Rank, access: Access, kind: Kind, other: Conflict | None, where: BufferSlice, at: int
    ) -> None:
        block = self._blocks[access.block]
        of = "" if owner == block.place.gpu else f" of gpu {owner}"
        rule, text = "plan-missing-nop", f"{kind}s {where.buffer}[{where.offset + at}]{of}, which"
        if other is None:
            rule, text = "plan-undefined-data", f"{text} nothing has written yet"
        elif other.actor == access.actor == access.block and other.part[0] == access.operation:
            text += f" its other threads {other.kind}: slices of an operation must not overlap"
        elif other.actor == access.actor:
            text += f" an operation before it {other.kind}s: a nop must stand between them"
        else:
            rule, text = "plan-race", f"{text} {self._names[other.actor]} {other.kind}s: nothing orders the two"
            if other.actor >= len(self._blocks):
                text += f"; {_NOP}"
        self._findings.add(rule, text, Place(block.place.gpu, block.place.block, access.operation))

    def _deadlock(self) -> None:
        stuck = [b for b in self._blocks if b.done < len(b.code.operations)]
        waits = []
        for block in stuck[:MAX_SHOWN_WAITS]:
            operation, gpu = block.code.operations[block.done], block.place.gpu
            what = f"at barrier {operation.barrier}"
            if operation.op in PACKET_OPS:
                what = "for packets"
            elif operation.op == "sem_acquire":
                what = f"for one of the semaphores {list(operation.semaphores)}"
            elif operation.op != "barrier":
                peers = self._plan.gpus[gpu].peers(operation.channel_type or "memory")
                dry = [str(peers[end.channel]) for end in self._ends_of(block, operation) if not end.inbox]
                what = f"for a signal of gpu {', '.join(dry)}"
            waits.append(f"{self._findings.where(block.here)} {what}")
        if len(stuck) > MAX_SHOWN_WAITS:
            waits.append(f"and {len(stuck) - MAX_SHOWN_WAITS} more")
        text = f"deadlock, thread blocks that wait for ever: {len(stuck)}: {'; '.join(waits)}"
        self._findings.add("plan-deadlock", text, stuck[0].here)

    def _leftovers(self) -> None:
        """Report channels and semaphores that the next run would find otherwise, and what is still under way."""
        for end in self._ends:
            if end.inbox:
                text = f"{len(end.inbox)} signals on a {end.kind} channel are never waited for"
                text += ": the next run would take them for its own"
                self._findings.add("plan-signals-left", text, Place(end.gpu))
        for g, semaphores in enumerate(self._semaphores):
            for s, semaphore in enumerate(semaphores):
                if semaphore.value != semaphore.start:
                    text = f"semaphore {s} ends with {semaphore.value}, not {semaphore.start} as it began"
                    self._findings.add("plan-semaphore-left", text, Place(g))
        ended: list[tuple[Clock, Clock]] = []
        for own in self._own:
            clock: Clock = np.zeros(self._started + self._plan.ranks, dtype=np.int32)
            reads = clock
            for index in own:
                self._blocks[index].meet()
                clock = np.maximum(clock, self._blocks[index].clock)
                reads = np.maximum(reads, self._blocks[index].reads)
            ended.append((clock, reads))
        for place, owner, cell, before in self._sent:
            clock, reads = ended[place.gpu]
            for drawn in self._memory[owner].readers(cell):
                reader = self._reader[drawn[2]]
                runs = before[self._started + reader] or (
                    self._plan.double_scratch and clock[self._started + reader]
                )
                if reader != place.gpu and not (
                    runs or reads[drawn[2]] >= drawn[3] or drawn in self._drawn[place.gpu]
                ):
                    text = f"packets of a later run may overwrite these before gpu {reader} has read them"
                    self._findings.add("plan-packets-overwritten", f"{text}: it sends nothing back", place)
        for g, own in enumerate(self._own):
            for actor in self._memory[g].outlived(*ended[g], own, self._packets[g]):
                text = f"its kernel may end while {self._names[actor]} still uses its memory"
                self._findings.add("plan-late-access", f"{text}: no wait or flush covers it; {_NOP}", Place(g))
