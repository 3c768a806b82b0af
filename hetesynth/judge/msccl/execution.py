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
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hetesynth.judge.layout import BROKEN, Layout, SumDefect, Value, added, final_defect
from hetesynth.judge.msccl import execution_kernel as kernel
from hetesynth.judge.msccl.checks import READS, RECEIVES, SENDS, WRITES
from hetesynth.judge.msccl.execution_kernel import COLUMNS, Blocks, Clocks, Code, Data, Found, Memory, Waits
from hetesynth.judge.rules import Place, ProgramFindings, shown
from hetesynth.machine_code import run_kernel
from hetesynth.model import column
from hetesynth.model.program import BUFFERS, OPS, Buffer
from hetesynth.model.step_table import Table, in_ops, table_of, table_of_all

_FLAGS = {
    op: kernel.RECEIVES * (op in RECEIVES)
    | kernel.SENDS * (op in SENDS)
    | kernel.READS * (op in READS)
    | kernel.WRITES * (op in WRITES)
    | kernel.COPIES * (op == "cpy")
    | kernel.ADDS * (op == "re")
    for op in (*SENDS, *RECEIVES, "cpy", "re", "nop")
}
_KINDS = ("read", "write", "read")
_SUM_RULES: dict[SumDefect, str] = {"different chunks": "different-chunks", "added twice": "added-twice"}
MAX_SHOWN_WAITS = 6
Ints = NDArray[np.int64]


def parts(rows: Table, split: int) -> Ints:
    """Return how many messages each instruction has where one carries at most ``split`` chunks; 0: one each."""
    messages = np.ones(len(rows), dtype=np.int64)
    moves = in_ops(rows, SENDS | RECEIVES) & (split > 0)
    messages[moves] = -(-rows[moves, column.COUNT] // max(1, split))
    return messages


class _Run(NamedTuple):
    """The state that changes while a program runs."""

    blocks: Blocks
    waits: Waits
    clocks: Clocks
    memory: Memory
    data: Data
    found: Found


def _zeros(number: int) -> Ints:
    return np.zeros(number, dtype=np.int64)


class Execution:
    """A run of the program of ``findings``, to which ``run`` reports, with its buffers as ``layout`` says.
    ``split``: the most chunks of a message, 0: as many as its instruction says."""

    def __init__(self, layout: Layout, slots: int, findings: ProgramFindings, split: int = 0) -> None:
        self._layout, self._findings, self._split = layout, findings, split
        gpus = findings.program.gpus
        self._places = [Place(g, t) for g, gpu in enumerate(gpus) for t in range(len(gpu.thread_blocks))]
        self._blocks = [block for gpu in gpus for block in gpu.thread_blocks]
        self._rows, self._first = table_of_all(findings.program)
        self._parts = parts(self._rows, split)
        self._words = -(-len(layout.inputs) // kernel.BITS)
        self._bases = self._cells()
        self._code = self._coded(slots)
        self._state: _Run

    def _cells(self) -> list[dict[Buffer, int]]:
        """Return for each GPU the cells at which its buffers begin, scratch behind the others, and set
        ``_cells_of_all`` to the number of all cells."""
        bases: list[dict[Buffer, int]] = []
        begin, layout = 0, self._layout
        for gpu in self._findings.program.gpus:
            starts: dict[Buffer, int] = {b: layout.cell(gpu.rank, gpu.rank, b, 0) for b in BUFFERS}
            inputs, outputs = layout.inputs[gpu.rank], layout.outputs[gpu.rank]
            ends = starts["i"] + max(gpu.input_chunks, inputs), starts["o"] + max(gpu.output_chunks, outputs)
            starts["s"] = max(ends)
            bases.append({b: begin + start for b, start in starts.items()})
            begin += starts["s"] + gpu.scratch_chunks
        self._cells_of_all = begin
        return bases

    def _coded(self, slots: int) -> Code:
        """The program as arrays."""
        gpus, rows, blocks, first = self._findings.program.gpus, self._rows, self._blocks, self._first
        channels: dict[tuple[int | None, int | None, int], int] = {}
        into, out = np.zeros((2, len(blocks)), dtype=np.int64)
        for k, (place, block) in enumerate(zip(self._places, blocks, strict=True)):
            rank = gpus[place.gpu].rank
            out[k] = channels.setdefault((rank, block.send_peer, block.channel), len(channels))
            into[k] = channels.setdefault((block.recv_peer, rank, block.channel), len(channels))
        sender, receiver = np.full((2, len(channels)), -1)
        sender[out], receiver[into] = np.arange(len(blocks)), np.arange(len(blocks))
        flags, count = np.array([_FLAGS[op] for op in OPS])[rows[:, column.OP]], rows[:, column.COUNT].copy()
        of = np.repeat(np.arange(len(blocks)), np.diff(first))
        sending = flags & kernel.SENDS > 0
        sends = np.bincount(out[of[sending]], self._parts[sending], len(channels)).astype(np.int64)
        slots = min(slots, max(1, int(sends.max(initial=1))))  # of more nobody makes use
        width, message = np.ones(len(channels), dtype=np.int64), np.minimum(count, self._split or count)
        np.maximum.at(width, out[of[sending]], message[sending])
        of_gpus = np.array([[base[b] for b in BUFFERS] for base in self._bases], dtype=np.int64).reshape(-1, 3)
        gpu = np.array([place.gpu for place in self._places], dtype=np.int64)[of]
        source, target = (
            np.where(rows[:, at] < 0, -1, of_gpus[gpu, rows[:, at]] + rows[:, at + 1])
            for at in (column.SRC_BUFFER, column.DST_BUFFER)
        )
        awaited, awaited_block, awaited_step, publishes = self._dependences(of)
        return Code(
            flags=flags,
            count=count,
            source=source,
            target=target,
            parts=self._parts,
            awaited=awaited,
            awaited_block=awaited_block,
            awaited_step=awaited_step,
            publishes=publishes,
            first=first,
            inbound=into,
            outbound=out,
            sender=sender,
            receiver=receiver,
            sends=sends,
            store=slots * (np.cumsum(width) - width),
            width=width,
            slots=slots,
            split=self._split,
        )

    def _dependences(self, of: Ints) -> Ints:
        """Return for each step the publication that it waits for, with its thread block and step, and the
        publication that it makes; -1: none. ``of``: the thread block of each step."""
        rows, first, table = self._rows, self._first, np.full((4, len(self._rows)), -1)
        position = {(p.gpu, b.id): k for k, (p, b) in enumerate(zip(self._places, self._blocks, strict=True))}
        waiting = np.flatnonzero(rows[:, column.BLOCK] >= 0)
        named = zip(of[waiting].tolist(), rows[waiting, column.BLOCK].tolist(), strict=True)
        other = np.array([position[self._places[b].gpu, number] for b, number in named], dtype=np.int64)
        publishing = (rows[:, column.AWAITED] > 0) & ~in_ops(rows, ("nop",))
        following = np.where(publishing, np.arange(len(rows)), len(rows))
        following = np.minimum.accumulate(following[::-1])[::-1]  # the next that publishes, from each step on
        at = following[first[other] + rows[waiting, column.STEP]]
        published, met_first, which = np.unique(at, return_index=True, return_inverse=True)
        number = np.argsort(np.argsort(met_first))  # in the order in which they are first waited for
        table[3, published] = number
        table[:3, waiting] = number[which], other, at - first[other]
        return table

    def _fresh(self, rows: int) -> _Run:
        """Return the state before the first step, with ``rows`` rows of clocks."""
        c, b, channels, slots = self._code, len(self._blocks), len(self._code.sender), self._code.slots
        waiting = np.bincount(c.awaited[c.awaited >= 0], minlength=int(c.publishes.max(initial=-1)) + 1)
        messages = np.diff(np.append(0, np.cumsum(self._parts))[c.first])  # of each thread block
        users = _zeros(rows)
        users[0] = b + 1  # nobody knows anything
        most, stored = int(c.count.max(initial=1)), int((c.width * slots).sum())
        size = COLUMNS + 2 * (1 + self._words)
        room = max(1, self._findings.limit - len(self._findings.violations))
        return _Run(
            Blocks(
                _zeros(b), _zeros(b), _zeros(b), _zeros(b), np.full(b, kernel.AWAKE), _zeros(b + 1), _zeros(2)
            ),
            Waits(
                waiting, _zeros(len(waiting)), _zeros(len(waiting)), np.full(len(waiting), kernel.END),
                _zeros(channels), _zeros(channels), _zeros(channels * slots), _zeros(channels * slots),
                _zeros(channels * slots), _zeros(channels * slots),
            ),
            Clocks(
                np.zeros((rows, b), dtype=np.uint8 if messages.max(initial=0) < 256 else np.int64), users,
                np.append(np.arange(1, rows), -1), np.ones(1, dtype=np.int64), _zeros(b), b,
            ),
            self._memory(),
            Data(_zeros(stored), _zeros(stored * self._words), _zeros(most), _zeros(most * self._words)),
            Found(_zeros(room * size), _zeros(1), size),
        )  # fmt: skip

    def _memory(self) -> Memory:
        """Return the memory at the start, with the inputs in it."""
        c, cells, words, layout = self._code, self._cells_of_all, self._words, self._layout
        chunk, ranks = np.full(cells, kernel.NOTHING), _zeros(cells * words)
        for base, gpu in zip(self._bases, self._findings.program.gpus, strict=True):
            if layout.initial(gpu.rank, layout.cell(gpu.rank, gpu.rank, "i", 0)) is not None:
                own = np.arange(base["i"], base["i"] + layout.inputs[gpu.rank])
                word, bit = divmod(gpu.rank, kernel.BITS)
                chunk[own], ranks[own * words + word] = own - base["i"], 1 << bit
        reads = 1 + int(c.count[c.flags & kernel.READS > 0].sum() + c.count[c.flags & kernel.ADDS > 0].sum())
        return Memory(
            chunk, ranks, np.full(cells, -1), _zeros(cells), np.full(cells, -1),
            np.append(np.arange(1, reads), -1), _zeros(reads), _zeros(reads), _zeros(1), words,
        )  # fmt: skip

    def run(self) -> None:
        """Execute until nothing moves, then report what was found, and a deadlock or wrong final data."""
        blocks, ended = len(self._blocks), kernel.NO_ROWS
        rows, seconds = 2 * blocks + 16, 8e-6 * len(self._rows) * (1 + 0.01 * blocks)
        while ended == kernel.NO_ROWS:
            self._state = self._fresh(rows)
            ended, rows = run_kernel(kernel.run, self._code, *self._state, seconds=seconds), 2 * rows
        self._report()
        if self._findings.full:
            return
        if self._waiting:
            self._deadlocks()
            return
        for g, gpu in enumerate(self._findings.program.gpus):
            defect = final_defect(self._layout, gpu.rank, partial(self._output, g))
            if defect:
                self._findings.add("final-data", defect, Place(g))

    @property
    def _waiting(self) -> list[int]:
        """Thread blocks with steps left."""
        return np.flatnonzero(self._state.blocks.step < np.diff(self._code.first)).tolist()

    @staticmethod
    def _value(chunk: int, ranks: Ints) -> Value | None:
        """Return the value of a chunk and the words of its set of ranks; None: undefined."""
        if chunk == kernel.NOTHING:
            return None
        if chunk == kernel.BROKEN:
            return BROKEN
        return chunk, sum(word << kernel.BITS * k for k, word in enumerate(ranks.tolist()))

    def _output(self, g: int, chunk: int) -> Value | None:
        """Return the value of an output chunk of the ``g``-th GPU; None: undefined."""
        cell, memory = self._bases[g]["o"] + chunk, self._state.memory
        return self._value(int(memory.chunk[cell]), memory.ranks[cell * self._words : (cell + 1) * self._words])

    def _sum_defect(self, row: Ints, *, swapped: bool) -> tuple[str, str]:
        """Return the rule that the sum of a finding breaks, and what is wrong; its values may be ``swapped``."""
        words, defects = self._words, list[tuple[str, str]]()

        def report(defect: SumDefect, text: str) -> None:
            defects.append((_SUM_RULES[defect], text))

        starts = (COLUMNS, COLUMNS + 1 + words)
        first, second = ([self._value(int(row[i]), row[i + 1 : i + 1 + words]) or BROKEN] for i in starts)
        added(second if swapped else first, first if swapped else second, report)
        return defects[0]

    def _report(self) -> None:
        """Add what the run found to the findings, in words."""
        reports = self._state.found
        for row in reports.rows.reshape(-1, reports.size)[: int(reports.number[0])]:
            kind, b, s, at, position, other, stamp, other_kind = row[:COLUMNS].tolist()
            place, x = self._places[b], self._blocks[b].instructions[s]
            part = x.src if at == kernel.READ else x.dst
            cell = "" if part is None else f"{part.buffer}[{part.offset + position}]"
            match kind:
                case kernel.SUM:
                    rule, text = self._sum_defect(row, swapped=at == kernel.READ_TARGET)
                case kernel.OVERLAP:
                    rule, text = "overlap", f"`{x.op}` reads and writes overlapping chunks"
                case kernel.UNDEFINED:
                    rule, text = "undefined-data", f"reads {cell}, which nothing has written yet"
                case _:
                    done = np.cumsum(self._parts[self._first[other] : self._first[other + 1]]).tolist()
                    step = bisect_left(done, stamp)
                    there = self._findings.where(Place(place.gpu, self._places[other].block, step))
                    rule = "split-race" if self._split else "race"
                    text = f"{_KINDS[at]}s {cell} while {there} {_KINDS[other_kind]}s it: "
                    text += "no dependence or message orders them"
            self._findings.add(rule, text, Place(place.gpu, place.block, s))

    def _blocked_on(self, b: int) -> tuple[str, int]:
        """Return what the next instruction of thread block b waits for, and which block could end the wait."""
        c, step, s = self._code, self._state.blocks.step, self._state.waits
        at = int(c.first[b] + step[b])
        if c.awaited[at] >= 0 and step[c.awaited_block[at]] <= c.awaited_step[at]:
            return "dependence", int(c.awaited_block[at])
        into, out = c.inbound[b], c.outbound[b]
        if c.flags[at] & kernel.RECEIVES and s.sent[into] == s.taken[into]:
            return "message", int(c.sender[into])
        return "slot", int(c.receiver[out])

    def _deadlocks(self) -> None:
        """Report the circle of waits to which the first waiting thread block leads."""
        path: dict[int, str] = {}
        waiting = self._waiting
        index, left = waiting[0], {*waiting}
        while index not in path and index in left:
            (what, other), step = self._blocked_on(index), int(self._state.blocks.step[index])
            place = self._places[index]
            on = self._findings.where(self._places[other])
            if what == "dependence":
                on = f"step {self._code.awaited_step[self._code.first[index] + step]} of {on}"
            here = self._findings.where(Place(place.gpu, place.block, step))
            path[index] = f"{here} waits for a {what}: {on}"
            index = other
        circle = list(path)[list(path).index(index) :] if index in path else list(path)
        waits = [path[k] for k in circle[:MAX_SHOWN_WAITS]]
        if len(circle) > MAX_SHOWN_WAITS:
            waits.append(f"and {len(circle) - MAX_SHOWN_WAITS} more")
        text = f"deadlock, {len(circle)} thread blocks wait in a circle: " + "; ".join(waits)
        rule = "split-deadlock" if self._split else "deadlock"
        place = self._places[circle[0]]
        self._findings.add(rule, text, Place(place.gpu, place.block, int(self._state.blocks.step[circle[0]])))


def buffers_touched(layout: Layout, findings: ProgramFindings) -> None:
    """Report forbidden accesses: writes to the caller's input out of place, and buffers that only the root has."""
    for g, gpu in enumerate(findings.program.gpus):
        absent = np.array([*(layout.missing_buffer(gpu.rank, buffer) for buffer in BUFFERS), False])
        kept = absent | np.array([*(buffer == "i" and not layout.in_place for buffer in BUFFERS), False])
        for t, block in enumerate(gpu.thread_blocks):
            rows = table_of(block.instructions)
            touched = in_ops(rows, READS) & absent[rows[:, column.SRC_BUFFER]]
            touched |= in_ops(rows, WRITES) & kept[rows[:, column.DST_BUFFER]]
            for s in np.flatnonzero(touched).tolist():
                x = block.instructions[s]
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
