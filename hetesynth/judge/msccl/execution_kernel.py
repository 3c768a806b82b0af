"""The run of a program on arrays: plain Python for small programs, compiled by numba for large. What it means
stands in execution.py.

A value is a chunk of an input buffer (BROKEN: already reported, NOTHING: undefined) and a set of ranks, in words
of ``BITS`` bits. A clock is a row of as many numbers as there are thread blocks; rows are shared until one is
changed. Lists are linked: ``next``, -1 at the end."""

from typing import Any, NamedTuple

MAKES_ARRAYS = False
Row = Any  # a list or an array of numbers
BITS, COLUMNS = 62, 8  # ranks in a word of a set, numbers of a finding
BROKEN, NOTHING = -1, -2
RECEIVES, SENDS, READS, WRITES, COPIES, ADDS = 1, 2, 4, 8, 16, 32  # flags of a step
SUM, OVERLAP, UNDEFINED, RACE = 0, 1, 2, 3  # kinds of a finding
READ, WRITE, READ_TARGET = 0, 1, 2  # what an access does: with the source, with the target
ENDED, FULL, NO_ROWS = 0, 1, 2
END, AWAKE = -1, -2  # in place of the next that sleeps: there is none, it does not sleep


class Code(NamedTuple):
    """The program. For each step: its ``flags``, chunks, first cells read and written, messages, the publication
    that it waits for (-1: none), with the thread block and step that make it, and the one it makes. For each
    thread block: its first step, one more for the end, and its channels. For each channel: sender, receiver, how
    many messages, and where these are, of how many chunks. ``split``: chunks of a message at most, 0: any
    number."""

    flags: Row
    count: Row
    source: Row
    target: Row
    parts: Row
    awaited: Row
    awaited_block: Row
    awaited_step: Row
    publishes: Row
    first: Row
    inbound: Row
    outbound: Row
    sender: Row
    receiver: Row
    sends: Row
    store: Row
    width: Row
    slots: int
    split: int


class Blocks(NamedTuple):
    """The state of thread blocks: the step of each, the message of that, messages done, whether it is queued, and
    the next that sleeps for the same publication. ``queue``: a ring of ``mark[1]`` from ``mark[0]`` on."""

    step: Row
    part: Row
    done: Row
    queued: Row
    sleeps: Row
    queue: Row
    mark: Row


class Waits(NamedTuple):
    """For each publication: how many still wait, row and stamp of its event, the first that sleeps. For each
    channel: messages sent and taken. For each slot: rows and stamps of its message, and of its being freed."""

    waiting: Row
    event_row: Row
    event_stamp: Row
    sleeper: Row
    sent: Row
    taken: Row
    sent_row: Row
    sent_stamp: Row
    freed_row: Row
    freed_stamp: Row


class Clocks(NamedTuple):
    """Rows of ``size`` numbers: how many use each, and the next that nobody uses, from ``free[0]`` on. ``of``: the
    row of each thread block."""

    clock: Row
    users: Row
    next: Row
    free: Row
    of: Row
    size: int


class Memory(NamedTuple):
    """For each cell: its value, who wrote it last and when, the first read since. For each read: the next, who,
    and when; ``free[0]``: the first that is unused. ``words``: of a set of ranks."""

    chunk: Row
    ranks: Row
    writer: Row
    written: Row
    reads: Row
    next: Row
    reader: Row
    read: Row
    free: Row
    words: int


class Data(NamedTuple):
    """The values of the messages in the slots, and those at hand."""

    sent_chunk: Row
    sent_ranks: Row
    chunk: Row
    ranks: Row


class Found(NamedTuple):
    """The findings, ``number[0]`` of ``size`` numbers each: kind, thread block, step, access, place in the slice;
    for a race also the other, its stamp and access; for a sum the two values."""

    rows: Row
    number: Row
    size: int


class Act(NamedTuple):
    """The step that a thread block is at, and the stamp that it gets."""

    block: int
    step: int
    stamp: int


def drop(k: Clocks, row: int) -> None:
    """Take one user off the row, and free the row after the last."""
    k.users[row] -= 1
    if k.users[row] == 0:
        k.next[row] = k.free[0]
        k.free[0] = row


def learn(k: Clocks, b: int, row: int, source: int, stamp: int) -> bool:
    """Let thread block b know all that ``row`` knows, and that ``source`` has come to ``stamp``; return False if
    there was no row to write to."""
    own = k.of[b]
    if source == b or k.clock[own][source] >= stamp:
        return True
    new = own
    if k.users[own] > 1:
        new = k.free[0]
        if new < 0:
            return False
        k.free[0], k.users[new] = k.next[new], 1
        k.users[own] -= 1
        k.of[b] = new
    clock, heard, merged = k.clock[own], k.clock[row], k.clock[new]
    for i in range(k.size):
        x, y = clock[i], heard[i]
        merged[i] = x if x > y else y
    merged[source] = stamp
    return True


def knows(k: Clocks, b: int, actor: int, stamp: int) -> bool:
    """Return True if what ``actor`` did with that stamp happened before what thread block b does now."""
    return bool(actor == b or k.clock[k.of[b]][actor] >= stamp)


def find(f: Found, kind: int, a: Act, at: int, position: int) -> int:
    """Add a finding and return where its numbers begin, or -1 where there is no room."""
    start = f.number[0] * f.size
    if start + f.size > len(f.rows):
        return -1
    f.number[0] += 1
    f.rows[start], f.rows[start + 1], f.rows[start + 2] = kind, a.block, a.step
    f.rows[start + 3], f.rows[start + 4] = at, position
    return int(start)


def race(f: Found, a: Act, at: int, position: int, other: int, stamp: int, kind: int) -> None:
    """Add a race of an access with one of ``other`` that nothing orders; once for each two thread blocks."""
    for i in range(f.number[0]):
        x, y = f.rows[i * f.size + 1], f.rows[i * f.size + 5]
        if f.rows[i * f.size] == RACE and ((x == a.block and y == other) or (x == other and y == a.block)):
            return
    start = find(f, RACE, a, at, position)
    if start >= 0:
        f.rows[start + 5], f.rows[start + 6], f.rows[start + 7] = other, stamp, kind


def read_cell(m: Memory, k: Clocks, f: Found, a: Act, at: int, cell: int, position: int) -> None:
    """Record a read of the cell; find a race with its last write, and data that is undefined."""
    if m.writer[cell] >= 0 and not knows(k, a.block, m.writer[cell], m.written[cell]):
        race(f, a, at, position, m.writer[cell], m.written[cell], WRITE)
    node = m.reads[cell]
    while node >= 0 and m.reader[node] != a.block:
        node = m.next[node]
    if node < 0:
        node = m.free[0]
        m.free[0] = m.next[node]
        m.next[node], m.reads[cell] = m.reads[cell], node
        m.reader[node] = a.block
    m.read[node] = a.stamp
    if m.chunk[cell] == NOTHING:
        find(f, UNDEFINED, a, at, position)
        m.chunk[cell] = BROKEN


def write_cell(m: Memory, k: Clocks, f: Found, a: Act, cell: int, position: int) -> None:
    """Record a write to the cell; find races with its last write and the reads since."""
    if m.writer[cell] >= 0 and not knows(k, a.block, m.writer[cell], m.written[cell]):
        race(f, a, WRITE, position, m.writer[cell], m.written[cell], WRITE)
    node = m.reads[cell]
    while node >= 0:
        if not knows(k, a.block, m.reader[node], m.read[node]):
            race(f, a, WRITE, position, m.reader[node], m.read[node], READ)
        following = m.next[node]
        m.next[node] = m.free[0]
        m.free[0] = node
        node = following
    m.reads[cell], m.writer[cell], m.written[cell] = -1, a.block, a.stamp


def add(m: Memory, d: Data, f: Found, a: Act, at: int, i: int, cell: int) -> None:
    """Add the value of the cell to the i-th of the data."""
    w, x, y = m.words, d.chunk[i], m.chunk[cell]
    if x == BROKEN or y == BROKEN:
        d.chunk[i] = BROKEN
        return
    good = x == y
    for j in range(w):
        if d.ranks[i * w + j] & m.ranks[cell * w + j]:
            good = False
    if good:
        for j in range(w):
            d.ranks[i * w + j] |= m.ranks[cell * w + j]
        return
    start = find(f, SUM, a, at, i)
    if start >= 0:
        start += COLUMNS
        f.rows[start], f.rows[start + 1 + w] = x, y
        for j in range(w):
            f.rows[start + 1 + j] = d.ranks[i * w + j]
            f.rows[start + 2 + w + j] = m.ranks[cell * w + j]
    d.chunk[i] = BROKEN


def move(
    m: Memory, k: Clocks, d: Data, f: Found, a: Act, flags: int, source: int, target: int, size: int, before: int
) -> None:
    """Read, add and write ``size`` chunks from ``source`` to ``target``, the first ``before`` of the step having
    gone. The data are what came in, and then what goes out."""
    w = m.words
    if flags & READS:
        for i in range(size):
            read_cell(m, k, f, a, READ, source + i, before + i)
            if flags & RECEIVES:
                add(m, d, f, a, READ, i, source + i)
            else:
                d.chunk[i] = m.chunk[source + i]
                for j in range(w):
                    d.ranks[i * w + j] = m.ranks[(source + i) * w + j]
    if flags & COPIES and source == target:
        return  # a chunk copied onto itself (the own block, in place) changes nothing for its readers
    if flags & WRITES:
        if flags & ADDS:
            for i in range(size):
                read_cell(m, k, f, a, READ_TARGET, target + i, before + i)
                add(m, d, f, a, READ_TARGET, i, target + i)
        if flags & READS and source != target and abs(source - target) < size:
            find(f, OVERLAP, a, WRITE, 0)
        for i in range(size):
            write_cell(m, k, f, a, target + i, before + i)
            m.chunk[target + i] = d.chunk[i]
            for j in range(w):
                m.ranks[(target + i) * w + j] = d.ranks[i * w + j]


def wake(s: Blocks, b: int) -> None:
    """Queue thread block b, which may go on, unless it is queued."""
    if not s.queued[b]:
        s.queued[b] = 1
        s.queue[(s.mark[0] + s.mark[1]) % len(s.queue)] = b
        s.mark[1] += 1


def blocked(c: Code, s: Blocks, q: Waits, b: int) -> bool:
    """Return True if the next step of thread block b has to wait."""
    at = c.first[b] + s.step[b]
    if c.awaited[at] >= 0 and s.step[c.awaited_block[at]] <= c.awaited_step[at]:
        return True
    flags, into, out = c.flags[at], c.inbound[b], c.outbound[b]
    if flags & RECEIVES and q.sent[into] == q.taken[into]:
        return True
    return bool(flags & SENDS and q.sent[out] - q.taken[out] >= c.slots)


def take(d: Data, w: int, place: int, size: int) -> None:
    """Copy the message at ``place`` to the data."""
    for i in range(size):
        d.chunk[i] = d.sent_chunk[place + i]
    for i in range(size * w):
        d.ranks[i] = d.sent_ranks[place * w + i]


def send(d: Data, w: int, place: int, size: int) -> None:
    """Copy the data to the message at ``place``."""
    for i in range(size):
        d.sent_chunk[place + i] = d.chunk[i]
    for i in range(size * w):
        d.sent_ranks[place * w + i] = d.ranks[i]


def learn_all(c: Code, s: Blocks, q: Waits, k: Clocks, b: int, at: int) -> bool:
    """Let thread block b learn from what its step waited for, the message that it takes, and the slot that it
    sends into; return False if there were no rows."""
    p, into, out = c.awaited[at], c.inbound[b], c.outbound[b]
    for turn in range(3):
        row, source, stamp = -1, 0, 0
        if turn == 0 and p >= 0 and s.part[b] == 0:
            row, source, stamp = q.event_row[p], c.awaited_block[at], q.event_stamp[p]
        if turn == 1 and c.flags[at] & RECEIVES:
            slot = into * c.slots + q.taken[into] % c.slots
            row, source, stamp = q.sent_row[slot], c.sender[into], q.sent_stamp[slot]
        if turn == 2 and c.flags[at] & SENDS and q.sent[out] >= c.slots:
            slot = out * c.slots + q.sent[out] % c.slots
            row, source, stamp = q.freed_row[slot], c.receiver[out], q.freed_stamp[slot]
        if row < 0:
            continue
        if not learn(k, b, row, source, stamp):
            return False
        if turn == 0:
            q.waiting[p] -= 1
        if turn > 0 or q.waiting[p] == 0:  # nobody needs it again
            drop(k, row)
    return True


def publish(s: Blocks, q: Waits, k: Clocks, p: int, row: int, stamp: int) -> None:
    """Record publication p, and wake the thread blocks that sleep for it."""
    q.event_row[p], q.event_stamp[p] = row, stamp
    k.users[row] += 1
    asleep, q.sleeper[p] = q.sleeper[p], END
    while asleep != END:
        following, s.sleeps[asleep] = s.sleeps[asleep], AWAKE
        wake(s, asleep)
        asleep = following


def execute(c: Code, s: Blocks, q: Waits, k: Clocks, m: Memory, d: Data, f: Found, b: int) -> bool:
    """Execute a message of the step of thread block b; return False if there were no rows for all clocks."""
    step, into, out, stamp = s.step[b], c.inbound[b], c.outbound[b], s.done[b] + 1
    at = c.first[b] + step
    if not learn_all(c, s, q, k, b, at):
        return False
    flags, before, size = c.flags[at], s.part[b] * c.split, c.count[at]
    if c.parts[at] > 1:
        size = min(c.split, size - before)
    if flags & RECEIVES:
        take(d, m.words, c.store[into] + q.taken[into] % c.slots * c.width[into], size)
    source, target = c.source[at] + before, c.target[at] + before
    move(m, k, d, f, Act(b, step, stamp), flags, source, target, size, before)
    row = k.of[b]
    if flags & RECEIVES:
        if q.taken[into] + c.slots < c.sends[into]:  # else no send waits for it
            slot = into * c.slots + q.taken[into] % c.slots
            q.freed_row[slot], q.freed_stamp[slot] = row, stamp
            k.users[row] += 1
        q.taken[into] += 1
    if flags & SENDS:
        slot = q.sent[out] % c.slots
        send(d, m.words, c.store[out] + slot * c.width[out], size)
        q.sent_row[out * c.slots + slot], q.sent_stamp[out * c.slots + slot] = row, stamp
        k.users[row] += 1
        q.sent[out] += 1
    s.part[b] += 1
    if s.part[b] >= c.parts[at]:
        s.part[b], s.step[b] = 0, step + 1
        if c.publishes[at] >= 0:
            publish(s, q, k, c.publishes[at], row, stamp)
    if flags & RECEIVES:
        wake(s, c.sender[into])
    if flags & SENDS:
        wake(s, c.receiver[out])
    s.done[b] = stamp
    if s.step[b] == c.first[b + 1] - c.first[b]:
        drop(k, row)  # what it knew stays only in the events that others wait for
    return True


def run(c: Code, s: Blocks, q: Waits, k: Clocks, m: Memory, d: Data, f: Found) -> int:
    """Execute until nothing moves (``ENDED``), findings have no room (``FULL``) or clocks no row (``NO_ROWS``)."""
    for b in range(k.size):
        wake(s, b)
    while s.mark[1] > 0:
        b = s.queue[s.mark[0]]
        s.mark[0] = (s.mark[0] + 1) % len(s.queue)
        s.mark[1] -= 1
        s.queued[b] = 0
        last = c.first[b + 1] - c.first[b]
        while s.step[b] < last and not blocked(c, s, q, b):
            if not execute(c, s, q, k, m, d, f, b):
                return NO_ROWS
            if (f.number[0] + 1) * f.size > len(f.rows):
                return FULL
        if s.step[b] < last:
            at = c.first[b] + s.step[b]
            p = c.awaited[at]
            waits = p >= 0 and s.step[c.awaited_block[at]] <= c.awaited_step[at]
            if waits and s.sleeps[b] == AWAKE:
                s.sleeps[b], q.sleeper[p] = q.sleeper[p], b
    return ENDED
