"""Executes a table on symbolic values: what every chunk of memory sums, round by round.

Messages of a round have no order among them, so nothing may touch what one writes; sums are added after it. Two
ranks meet in the order in which the rounds list their messages, so there is no deadlock. Shares no code with what
makes tables.
"""

from collections import Counter
from collections.abc import Collection, Iterator

from hetesynth.errors import HetesynthError
from hetesynth.judge.layout import BROKEN, ROOTED, Layout, SumDefect, Value, added, buffer_sizes, named
from hetesynth.judge.rules import MAX_FINDINGS, Findings, shown
from hetesynth.model.program import BufferSlice
from hetesynth.model.table import MAX_OPERATIONS, Message, Table
from hetesynth.model.topology import Rank
from hetesynth.model.verdict import Violation

MAX_MOVED = 64_000_000  # chunks of all messages
MAX_CELLS = 64_000_000  # chunks of memory of all ranks
_SUM_RULES: dict[SumDefect, str] = {
    "different chunks": "table-different-chunks",
    "added twice": "table-added-twice",
}
_APART = frozenset({"gather", "scatter", "alltoall"})  # the calls of these are out of place
_WHOLE_OUTPUT = frozenset({"allgather", "gather"})


def table_violations(
    table: Table,
    *,
    links: Collection[tuple[Rank, Rank]] | None = None,
    root: Rank | None = None,
    max_findings: int = MAX_FINDINGS,
) -> list[Violation]:
    """Return what is wrong with ``table``, at most ``max_findings``; empty means correct, in place too where the
    collective has such a form. ``links``: those that exist. ``root``: for which it should be. HetesynthError
    HS534, exit code 3, for one too large to execute."""
    moved = sum(m.count for messages in table.rounds for m in messages) + sum(c.count for c in table.copies)
    if moved > MAX_MOVED or sum(map(sum, table.sizes)) > MAX_CELLS:
        message = f"the table moves {moved:,} chunks: too many to be executed here"
        raise HetesynthError(message, code="HS534", exit_code=3, help="use fewer pieces or chunks")
    findings = Findings(max_findings)
    block = _block(table, findings)
    for text in _structure(table, links, root):
        findings.add(*text)
    if not findings.violations:
        for in_place in (False,) if table.collective in _APART else (False, True):
            findings.context = "in place: " if in_place else ""
            _Execution(table, block, in_place, findings).run()
            if findings.violations:
                break
    return findings.violations


def _block(table: Table, findings: Findings) -> int:
    """Chunks of one rank's share, by the buffers of a rank that has both; sizes that differ are reported."""
    ranks, name, one = table.ranks, table.collective, table.root or 0
    side = 1 if name in _WHOLE_OUTPUT else 0
    block = table.sizes[one][side]
    if name in ("allgather", "gather", "reducescatter", "scatter", "alltoall"):
        block //= ranks
    whole = buffer_sizes(name, ranks, block)
    if block == 0:
        findings.add("table-sizes", "there are no chunks")
    for rank, sizes in enumerate(table.sizes):
        for stated, due, here in zip(sizes, whole, (name != "scatter", name != "gather"), strict=False):
            needed = due if here or rank == table.root else 0
            if stated != needed:
                findings.add(
                    "table-sizes", f"rank {rank} has buffers of {sizes[0]} and {sizes[1]} chunks, not {whole}"
                )
                break
    return block


def _structure(
    table: Table, links: Collection[tuple[Rank, Rank]] | None, root: Rank | None
) -> Iterator[tuple[str, str]]:
    if root is not None and table.collective in ROOTED and root != table.root:
        yield "table-root", f"it is for root {table.root}, not {root}"
    for c in table.copies:
        for part in (c.source, c.target):
            if _outside(table, c.rank, part, c.count):
                yield "table-range", f"rank {c.rank} copies {shown(part, c.count)}, past its buffer"
    for number, messages in enumerate(table.rounds):
        sends, receives = Counter(m.src for m in messages), Counter(m.dst for m in messages)
        for rank, many in (sends + receives).items():
            if many > MAX_OPERATIONS:
                yield "table-operations", f"round {number}: rank {rank} has {many} sends and receives"
        for m in messages:
            where = f"round {number}: {m.src} to {m.dst}"
            if m.src == m.dst:
                yield "table-link", f"{where}: a rank does not send to itself"
            elif links is not None and (m.src, m.dst) not in links:
                yield "table-link", f"{where}: there is no such link"
            places = [(m.src, m.source), (m.dst, m.landing)] + ([] if m.added is None else [(m.dst, m.added)])
            for rank, part in places:
                if _outside(table, rank, part, m.count):
                    yield "table-range", f"{where}: {shown(part, m.count)} is past the buffer of rank {rank}"


def _outside(table: Table, rank: Rank, part: BufferSlice, count: int) -> bool:
    """Return True if a slice is past its buffer, or in a buffer that only the root of a call has."""
    if rank != table.root and (table.collective, part.buffer) in (("reduce", "o"), ("broadcast", "i")):
        return True
    return part.offset + count > table.sizes[rank]["ios".index(part.buffer)]


class _Execution:
    """A run of a table. ``memory``: the values of each rank's chunks of memory; one not there is undefined."""

    def __init__(self, table: Table, block: int, in_place: bool, findings: Findings) -> None:
        self.table, self.findings = table, findings
        inputs, outputs, _ = zip(*table.sizes, strict=True)
        self.layout = Layout(table.collective, in_place, table.root, inputs, outputs, block)
        self.memory: list[dict[int, Value]] = [{} for _ in table.sizes]
        for rank, chunks in enumerate(inputs):
            for chunk in range(chunks):
                cell = self._cell(rank, BufferSlice("i", chunk), 0)
                value = self.layout.initial(rank, cell)
                if value is not None:
                    self.memory[rank][cell] = value

    def _cell(self, rank: Rank, part: BufferSlice, j: int) -> int:
        return self.layout.cell(rank, rank, part.buffer, part.offset + j)

    def run(self) -> None:
        """Execute the copies and the rounds up to the first with findings; without any, check the final data."""
        self._copies()
        for number, messages in enumerate(self.table.rounds):
            if self.findings.violations:
                return
            self._round(number, messages)
        if not self.findings.violations:
            self._final()

    def _read(self, rank: Rank, part: BufferSlice, j: int, where: str) -> Value:
        value = self.memory[rank].get(self._cell(rank, part, j))
        if value is None:
            self.findings.add("table-undefined-data", f"{where}: rank {rank} reads {shown(part)} + {j}, undefined")
            return BROKEN
        return value

    def _copies(self) -> None:
        """Execute copies: all read before any is written; a chunk copied to itself, in place, is left."""
        read: set[tuple[Rank, int]] = set()
        values: dict[tuple[Rank, int], Value] = {}
        for c in self.table.copies:
            if c.target.buffer == "i":
                self.findings.add("table-input-overwritten", f"rank {c.rank} copies to its input")
                return
            for j in range(c.count):
                source, target = self._cell(c.rank, c.source, j), self._cell(c.rank, c.target, j)
                if source == target:
                    continue
                if (c.rank, target) in values:
                    self.findings.add(
                        "table-race", f"two copies of rank {c.rank} write {shown(c.target, c.count)}"
                    )
                read.add((c.rank, source))
                values[c.rank, target] = self._read(c.rank, c.source, j, "a copy")
        for rank, cell in values.keys() & read:
            self.findings.add("table-race", f"rank {rank} copies what another copy writes (cell {cell})")
        for (rank, cell), value in values.items():
            self.memory[rank][cell] = value

    def _round(self, number: int, messages: tuple[Message, ...]) -> None:
        where, writes = f"round {number}", Counter[tuple[Rank, int]]()
        reads: set[tuple[Rank, int]] = set()
        landed: list[tuple[Rank, int, Value]] = []
        sums: list[tuple[Rank, int, int]] = []
        for m in messages:
            if "i" in (m.landing.buffer, None if m.added is None else m.added.buffer):
                self.findings.add("table-input-overwritten", f"{where}: {m.src} to {m.dst} writes the input")
            for j in range(m.count):
                landed.append((m.dst, self._cell(m.dst, m.landing, j), self._read(m.src, m.source, j, where)))
                writes[landed[-1][:2]] += 1
                reads.add((m.src, self._cell(m.src, m.source, j)))
                if m.added is not None:
                    sums.append((m.dst, self._cell(m.dst, m.added, j), landed[-1][1]))
        for rank, cell in writes:
            if writes[rank, cell] > 1 or (rank, cell) in reads:
                self.findings.add(
                    "table-race", f"{where}: two messages touch one chunk of rank {rank} (cell {cell})"
                )
        for rank, cell, value in landed:
            self.memory[rank][cell] = value
        for rank, cell, landing in sums:
            if (rank, cell) in writes:
                self.findings.add(
                    "table-race", f"{where}: rank {rank} adds to what a message writes (cell {cell})"
                )
            before = self.memory[rank].get(cell)
            if before is None:
                self.findings.add("table-undefined-data", f"{where}: rank {rank} adds to what holds nothing")
                continue

            def report(defect: SumDefect, text: str, rank: Rank = rank) -> None:
                self.findings.add(_SUM_RULES[defect], f"{where}: rank {rank} {text}")

            self.memory[rank][cell] = added([before], [self.memory[rank][landing]], report)[0]

    def _final(self) -> None:
        for rank, (_, outputs, _) in enumerate(self.table.sizes):
            for chunk in range(outputs):
                due = self.layout.expected(rank, chunk)
                value = self.memory[rank].get(self._cell(rank, BufferSlice("o", chunk), 0))
                if due is not None and value != due:
                    text = f"rank {rank} ends with {named(value)} in o[{chunk}], not {named(due)}"
                    self.findings.add("table-final-data", text)
