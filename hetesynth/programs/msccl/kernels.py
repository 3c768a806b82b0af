"""Placement and dependences on arrays: plain Python for small programs, compiled by numba for large.

A place is ``3 x offset + buffer`` (``BUFFERS``), -1 none; a cell is a chunk of memory of a rank, the same for all
of its names. Operations have codes, the positions in ``OPS``. ``x_first[i]`` to ``x_first[i + 1]`` is row i of a
table ``x``. Each kernel gets what it reads, room to work in, and last what it makes."""

from heapq import heappop, heappush
from typing import Any, NamedTuple

Row = Any  # a list or an array of numbers

SEND, RECEIVE, COPY, ADD = range(4)
INPUT, OUTPUT, SCRATCH = range(3)


class Carried(NamedTuple):
    """n messages, their chunks (a pair: a rank and a chunk) and 3 n events in the total order."""

    src: Row
    dst: Row
    connection: Row
    reduce: Row
    chunks_first: Row
    source_pair: Row  # of each chunk of each message, at the sender
    target_pair: Row  # and at the receiver
    events: Row  # 3 x message + 0 send, 1 receive, 2 the arriving value counts from now on
    ticks: Row  # of events
    received: Row  # place of each receive in ``events``
    committed: Row
    sends_first: Row  # of each pair the places of its sends in ``events``
    sends: Row
    commits_first: Row  # and where values arrive there, in order
    commits: Row
    bases: Row  # the first cell of each buffer of each rank
    reader: Row  # of each cell of inputs and outputs the pair that is there at the start, or -1
    cells: int  # of inputs and outputs, of each rank
    moves: Row  # pairs to copy from input to output at the start, by rank
    move_ranks: Row
    goals: Row  # of each pair its place in the output, or -1
    max_count: int


class Room(NamedTuple):
    """The memory in which the placement works: by pair, chunk of a message, message or connection."""

    held: Row  # where the value of a pair stands, or -1
    home: Row  # where it belongs, or -1: nowhere yet
    sent: Row  # from where a chunk is sent
    landed: Row  # and where it lands
    later: Row  # the tick before which a message must not be copied home, or -1
    send_order: Row
    free: Row  # of each connection the message whose scratch is free
    next_free: Row
    origins: Row  # moves collected for one operation, additions and then copies
    ends: Row


class Placed(NamedTuple):
    """Operations in the order in which they are made; ``counts``: their number, then message and chunk of what is
    sent and not held (-1: none)."""

    rank: Row
    op: Row
    src: Row
    dst: Row
    count: Row
    message: Row
    order: Row
    scratch: Row  # chunks of each rank
    fragmented: Row  # of each message: its chunks are not neighbours
    counts: Row


def emit(s: Placed, rank: int, op: int, src: int, dst: int, count: int, message: int, order: int) -> None:
    """Append one operation to ``s``."""
    at = s.counts[0]
    s.counts[0] = at + 1
    s.rank[at], s.op[at], s.src[at], s.dst[at] = rank, op, src, dst
    s.count[at], s.message[at], s.order[at] = count, message, order


def run_length(r: Room, at: int, end: int, most: int) -> int:
    """Return the number of moves from ``at`` on, at most ``most``, that follow each other in both buffers."""
    count = 1
    while at + count < end and count != most:
        if r.origins[at + count] != r.origins[at] + 3 * count or r.ends[at + count] != r.ends[at] + 3 * count:
            break
        count += 1
    return count


def emit_moves(
    p: Carried, r: Room, s: Placed, at: int, end: int, rank: int, op: int, message: int, order: int
) -> None:
    """Append the moves from ``at`` to ``end`` as operations, neighbors together."""
    while at < end:
        count = run_length(r, at, end, p.max_count)
        emit(s, rank, op, r.origins[at], r.ends[at], count, message, order)
        at += count


def home_of(r: Room, s: Placed, pair: int, rank: int) -> int:
    """Return the place for the value of ``pair``: its output chunk, or a chunk of scratch from now on."""
    if r.home[pair] < 0:
        r.home[pair] = 3 * s.scratch[rank] + SCRATCH
        s.scratch[rank] += 1
    return int(r.home[pair])


def cell_of(p: Carried, rank: int, place: int) -> int:
    """Return the cell of memory behind a place of ``rank``."""
    return int(p.bases[3 * rank + place % 3] + place // 3)


def between(first: Row, at: Row, pair: int, after: int, before: int) -> bool:
    """Return True if an event of ``pair`` is between places ``after`` and ``before`` in the total order."""
    number = 0
    for i in range(first[pair], first[pair + 1]):
        number += after < at[i] < before
    return number > 0


def landing(p: Carried, r: Room, s: Placed, m: int, pair: int) -> int:
    """Return the home if the arriving value may be written there at once; -1 if it must wait in scratch."""
    rank, current, home = p.dst[m], r.held[pair], home_of(r, s, pair, p.dst[m])
    cell = cell_of(p, rank, home)
    is_first = p.commits[p.commits_first[pair]] == p.committed[m]
    occupied = not is_first or (current >= 0 and cell_of(p, rank, current) == cell)
    if p.reduce[m] and (current >= 0 or not is_first):
        return -1 if occupied else home
    received, counts = p.received[m], p.committed[m]
    busy = occupied and (
        between(p.sends_first, p.sends, pair, received, counts)
        or between(p.commits_first, p.commits, pair, received, counts)
    )
    # another chunk whose input is the home's memory may be sent after this arrival: it waits for the last time
    other = p.reader[p.cells * rank + cell] if cell < p.cells else -1
    used = -1
    if other >= 0 and other != pair:
        for i in range(p.sends_first[other], p.sends_first[other + 1]):
            if p.sends[i] > received:
                used = max(used, p.sends[i])
    if used >= 0:
        r.later[m] = max(r.later[m], p.ticks[used] + 1)
    return -1 if busy or used >= 0 else home


def receive(p: Carried, r: Room, s: Placed, m: int, order: int) -> None:
    """Choose where a message lands, and write down the send, which has to repeat it, and the receive."""
    first, end, waiting = p.chunks_first[m], p.chunks_first[m + 1], 0
    for c in range(first, end):
        r.landed[c] = landing(p, r, s, m, p.target_pair[c])
        waiting += r.landed[c] < 0
    free = r.free[p.connection[m]]  # what was added from there is taken again
    if p.reduce[m] and waiting == 1 and free >= 0:
        r.free[p.connection[m]] = r.next_free[free]
        scratch = r.landed[p.chunks_first[free]]
    else:
        scratch = 3 * s.scratch[p.dst[m]] + SCRATCH
        s.scratch[p.dst[m]] += waiting
    for c in range(first, end):
        if r.landed[c] < 0:
            r.landed[c] = scratch
            scratch += 3
        r.origins[c - first], r.ends[c - first] = r.sent[c], r.landed[c]
    count = run_length(r, 0, end - first, end - first)
    if count != end - first:
        s.fragmented[m] = 1
    emit(s, p.src[m], SEND, r.origins[0], r.ends[0], count, m, r.send_order[m])
    emit(s, p.dst[m], RECEIVE, r.origins[0], r.ends[0], count, m, order)


def commit(p: Carried, r: Room, s: Placed, m: int, order: int, later: bool) -> None:
    """Make the value of message ``m`` count from now on: add it, copy it home, or note where it is."""
    first, end, rank = p.chunks_first[m], p.chunks_first[m + 1], p.dst[m]
    additions, copies = 0, end - first
    for c in range(first, end):
        pair, landed = p.target_pair[c], r.landed[c]
        current, home = r.held[pair], home_of(r, s, pair, rank)
        r.held[pair] = home
        if p.reduce[m] and current >= 0:
            r.origins[additions], r.ends[additions] = current if landed == home else landed, home
            additions += 1
        elif landed != home and later:
            r.held[pair] = landed
        elif landed != home:
            r.origins[copies], r.ends[copies] = landed, home
            copies += 1
    emit_moves(p, r, s, 0, additions, rank, ADD, m, order)
    emit_moves(p, r, s, end - first, copies, rank, COPY, m, order)
    added = r.landed[first] % 3 == SCRATCH and r.landed[first] != r.home[p.target_pair[first]]
    if not later and p.reduce[m] and end - first == 1 and added:
        r.next_free[m] = r.free[p.connection[m]]
        r.free[p.connection[m]] = m


def settle(p: Carried, r: Room, s: Placed, m: int, order: int) -> None:
    """Copy home what had to wait for the last use of its home's old content."""
    copies = 0
    for c in range(p.chunks_first[m], p.chunks_first[m + 1]):
        pair = p.target_pair[c]
        home = home_of(r, s, pair, p.dst[m])
        if r.landed[c] != home:
            r.origins[copies], r.ends[copies] = r.landed[c], home
            copies += 1
            r.held[pair] = home
    emit_moves(p, r, s, 0, copies, p.dst[m], COPY, m, order)


def place(p: Carried, r: Room, s: Placed) -> int:
    """Append the operations of all events in order, and return their number."""
    at, number = 0, len(p.src)
    while at < len(p.moves):
        rank, end = p.move_ranks[at], at
        while end < len(p.moves) and p.move_ranks[end] == rank:
            r.origins[end - at], r.ends[end - at] = r.held[p.moves[end]], p.goals[p.moves[end]]
            end += 1
        emit_moves(p, r, s, 0, end - at, rank, COPY, -1, 0)
        at = end
    order = 0
    settling = [0]  # tick x n + message, so that they come in order
    settling.pop()
    for e in range(len(p.events)):
        m, kind, tick = p.events[e] // 3, p.events[e] % 3, p.ticks[e]
        before = tick * number + (m if kind == 2 else number)
        while len(settling) > 0 and settling[0] < before:
            order += 1
            settle(p, r, s, heappop(settling) % number, order)
        order += 1
        if kind == 2:
            later = r.later[m] > tick
            commit(p, r, s, m, order, later)
            if later:
                heappush(settling, r.later[m] * number + m)
        elif kind == 1:
            receive(p, r, s, m, order)
        else:
            r.send_order[m] = order
            for c in range(p.chunks_first[m], p.chunks_first[m + 1]):
                r.sent[c] = r.held[p.source_pair[c]]
                if r.sent[c] < 0:
                    s.counts[1], s.counts[2] = m, c
                    return int(s.counts[0])
    while len(settling) > 0:
        order += 1
        settle(p, r, s, heappop(settling) % number, order)
    return int(s.counts[0])


class Conflicting(NamedTuple):
    """The operations of all ranks, each in order: what they read and write (``count`` cells from each, which are
    numbered over all ranks), and where they run."""

    first: Row  # of each rank
    blocks: Row  # how many each rank has
    read: Row
    also: Row
    write: Row
    count: Row
    block: Row
    position: Row


class Clocks(NamedTuple):
    """The last write of each cell and a chain of its reads since; in the rows of ``clock``, what operations know
    of thread blocks."""

    wrote: Row
    reads: Row
    read_by: Row
    next_read: Row
    found: Row
    clock: Row
    row: Row  # of each operation
    latest: Row  # the row of each thread block of the rank at hand


class Named(NamedTuple):
    """The operations of other thread blocks that each operation names (waits for), in order."""

    first: Row
    operation: Row


def insert(falling: Row, number: int, j: int) -> int:
    """Insert ``j`` among the first ``number``, which fall, unless negative or there; return their new number."""
    at = number
    while at > 0 and falling[at - 1] < j:
        at -= 1
    if j < 0 or (at > 0 and falling[at - 1] == j):
        return number
    for k in range(number, at, -1):
        falling[k] = falling[k - 1]
    falling[at] = j
    return number + 1


def conflicts(o: Conflicting, c: Clocks, i: int, chained: int) -> tuple[int, int]:
    """Put the earlier operations with which ``i`` conflicts directly on some cell into ``found``; return how many
    they are, and how many reads are in chains then."""
    number = 0
    for k in range(o.count[i]):
        if o.read[i] >= 0:
            number = insert(c.found, number, c.wrote[o.read[i] + k])
        if o.also[i] >= 0:
            number = insert(c.found, number, c.wrote[o.also[i] + k])
        if o.write[i] >= 0:
            number = insert(c.found, number, c.wrote[o.write[i] + k])
            read = c.reads[o.write[i] + k]
            while read >= 0:
                number = insert(c.found, number, c.read_by[read])
                read = c.next_read[read]
    for k in range(o.count[i]):
        if o.write[i] >= 0:
            c.reads[o.write[i] + k] = -1
            c.wrote[o.write[i] + k] = i
    for first in (o.read[i], o.also[i]):
        if first >= 0:
            for cell in range(first, first + o.count[i]):
                c.read_by[chained], c.next_read[chained] = i, c.reads[cell]
                c.reads[cell] = chained
                chained += 1
    return number, chained


def waits(o: Conflicting, c: Clocks, w: Named) -> int:
    """Name direct conflicts with other thread blocks that order on the GPU does not imply; return how many."""
    clock, named, chained = c.clock, 0, 0
    for rank in range(len(o.blocks)):
        blocks = o.blocks[rank]
        rows = blocks
        for b in range(blocks):
            c.latest[b] = b
            for k in range(b * blocks, (b + 1) * blocks):
                clock[k] = 0
        for i in range(o.first[rank], o.first[rank + 1]):
            number, chained = conflicts(o, c, i, chained)
            own = o.block[i]
            row, begin, fresh = c.latest[own] * blocks, named, False
            for f in range(number):
                j = c.found[f]
                other, theirs = o.block[j], o.position[j]
                if other == own or clock[row + other] > theirs:
                    continue
                if not fresh:  # earlier operations keep what they know
                    fresh = True
                    clock[rows * blocks : (rows + 1) * blocks] = clock[row : row + blocks]
                    row, c.latest[own] = rows * blocks, rows
                    rows += 1
                w.operation[named] = j
                named += 1
                clock[row + other] = theirs + 1
                learnt = c.row[j] * blocks
                for b in range(blocks):
                    if clock[learnt + b] > clock[row + b]:
                        clock[row + b] = clock[learnt + b]
            for k in range((named - begin) // 2):
                a, b = begin + k, named - 1 - k
                w.operation[a], w.operation[b] = w.operation[b], w.operation[a]
            c.row[i] = c.latest[own]
            w.first[i + 1] = named
    return named


class Paths(NamedTuple):
    """A graph of operations by their places in the total order. ``direct``: those that come directly before each;
    ``named``: those that it names; ``most``: operations looked at for one."""

    direct_first: Row
    direct: Row
    named_first: Row
    named: Row
    most: int


class Search(NamedTuple):
    """The memory of a search. ``seen``: the operation for which a place was looked at last."""

    seen: Row
    wanted: Row
    stack: Row


class Kept(NamedTuple):
    """A flag for each named operation: true if no other path leads there."""

    kept: Row


def implied(p: Paths, s: Search, k: Kept) -> int:
    """Clear the flags of what is named and reached by other paths too, and return the number of those."""
    first_of, direct, stack, seen, number = p.direct_first, p.direct, s.stack, s.seen, 0
    for me in range(len(p.named_first) - 1):
        first, end = p.named_first[me], p.named_first[me + 1]
        if first == end:
            continue
        missing, earliest = end - first, p.named[first]
        for n in range(first, end):
            s.wanted[p.named[n]] = me
            earliest = min(earliest, p.named[n])
        top = looked = 0
        for d in range(first_of[me], first_of[me + 1]):
            for e in range(first_of[direct[d]], first_of[direct[d] + 1]):
                stack[top] = direct[e]
                top += 1
        while top > 0 and missing > 0 and looked <= p.most:
            top -= 1
            at = stack[top]
            if at >= earliest and seen[at] != me:
                seen[at] = me
                looked += 1
                missing -= s.wanted[at] == me
                for d in range(first_of[at], first_of[at + 1]):
                    stack[top] = direct[d]
                    top += 1
        for n in range(first, end):
            k.kept[n] = seen[p.named[n]] != me
            number += seen[p.named[n]] == me
    return number
