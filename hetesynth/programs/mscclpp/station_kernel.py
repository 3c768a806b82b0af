"""Shares the pieces of stations out among thread blocks, on arrays: plain Python for few, compiled by numba for
many. What it means stands in station_blocks.py.

Thread block n of rank r has the number r x ``blocks`` + n; -1 is a lane that has none yet, and no room."""

from typing import Any, NamedTuple

MAKES_ARRAYS = False
Row = Any  # a list or an array of numbers
JOINS = 40  # the most thread blocks that another one has channels to: 16 of either kind, and room to spare
KEPT = 3  # channels of each kind that a thread block keeps free for those to which it will put


class Pieces(NamedTuple):
    """The pieces of parts. In the order of time: ``part`` and ``piece``, and when its lane is busy: ``begin``,
    ``idle``. For each part: its ``rank``, ``station``, ``group`` of lanes, ``cost`` in operations, the parts that
    it waits for and the ranks where what it puts ends (rows begin at ``first_before``, ``first_ends``). For each
    group: where its ``lanes`` begin. ``server``: of each rank. ``room``: operations of a thread block. ``most``:
    its channels of either kind. ``wide``: lanes are added where all are busy."""

    part: Row
    piece: Row
    begin: Row
    idle: Row
    rank: Row
    station: Row
    group: Row
    cost: Row
    first_before: Row
    before: Row
    first_ends: Row
    ends: Row
    first_lane: Row
    server: Row
    pieces: int
    ranks: int
    blocks: int
    room: int
    most: int
    wide: int


class Shared(NamedTuple):
    """The state. For each thread block: operations ``left``, seconds from which it is ``idle``, whether it is
    ``closed`` as another, ``following``, goes on with its lane, its channels to other servers and inside its own,
    the blocks that these lead to (``degree`` of ``joins``), and for each rank the block there that waits for what
    ends. For each rank: thread blocks ``opened``. For each group: its ``lanes``, their ``number``. For each piece
    of a part the block ``where`` it is; for each piece of a station whether a part of it is ``seen``."""

    left: Row
    idle: Row
    closed: Row
    following: Row
    channels: Row
    degree: Row
    joins: Row
    waiting: Row
    opened: Row
    lanes: Row
    number: Row
    where: Row
    seen: Row


class Asked(NamedTuple):
    """A piece of ``part`` that begins at ``begin``, and the parts that it waits for: ``before`` up to ``end``."""

    part: int
    piece: int
    begin: float
    before: int
    end: int


def near(c: Pieces, one: int, other: int) -> int:
    """Return 1 if two ranks are in one server, else 0: the kind of channels between them."""
    return 1 if c.server[one] == c.server[other] else 0


def joined(s: Shared, one: int, other: int) -> bool:
    """Return True if two thread blocks have a channel."""
    k, number = 0, s.degree[one]
    while k < number and s.joins[one * JOINS + k] != other:
        k += 1
    return bool(k < number)


def join(c: Pieces, s: Shared, one: int, other: int) -> bool:
    """Give two thread blocks a channel; return False if there is no room for it."""
    if joined(s, one, other):
        return True
    if s.degree[one] == JOINS or s.degree[other] == JOINS:
        return False
    kind = near(c, one // c.blocks, other // c.blocks)
    s.joins[one * JOINS + s.degree[one]], s.joins[other * JOINS + s.degree[other]] = other, one
    s.degree[one] += 1
    s.degree[other] += 1
    s.channels[2 * one + kind] += 1
    s.channels[2 * other + kind] += 1
    return True


def new(c: Pieces, s: Shared, a: Asked, k: int, block: int) -> int:
    """Return the thread block of part ``before[k]``, for which ``a`` waits, if ``block`` would need a channel to
    it, else -1."""
    there = int(s.where[c.before[k] * c.pieces + a.piece])
    for i in range(a.before, k):
        if s.where[c.before[i] * c.pieces + a.piece] == there:
            return -1
    return -1 if block >= 0 and joined(s, block, there) else there


def added(c: Pieces, s: Shared, a: Asked, block: int) -> int:
    """Return how many channels ``block`` would need to those that ``a`` waits for."""
    number = 0
    for k in range(a.before, a.end):
        number += new(c, s, a, k, block) >= 0
    return number


def fits(c: Pieces, s: Shared, a: Asked, block: int) -> bool:
    """Return True if ``block`` has room for ``a``, and for the channels that it needs."""
    if block < 0 or s.left[block] < c.cost[a.part]:
        return False
    far, inside = s.channels[2 * block], s.channels[2 * block + 1]
    for k in range(a.before, a.end):
        there = new(c, s, a, k, block)
        if there >= 0:
            kind = near(c, block // c.blocks, there // c.blocks)
            if s.channels[2 * there + kind] >= c.most:
                return False
            inside += kind
            far += 1 - kind
    for k in range(c.first_ends[a.part], c.first_ends[a.part + 1]):
        if s.waiting[block * c.ranks + c.ends[k]] < 0:
            kind = near(c, block // c.blocks, c.ends[k])
            inside += kind
            far += 1 - kind
    return bool(far <= c.most - KEPT and inside <= c.most - KEPT)


def connects(c: Pieces, s: Shared, a: Asked, rank: int) -> bool:
    """Return True if another thread block of ``rank`` can have channels to those that ``a`` waits for."""
    for k in range(a.before, a.end):
        there = s.where[c.before[k] * c.pieces + a.piece]
        kind = near(c, rank, there // c.blocks)
        if s.channels[2 * there + kind] >= c.most:
            return False
    return True


def opened(c: Pieces, s: Shared, rank: int) -> int:
    """Return another thread block of ``rank``."""
    block = rank * c.blocks + s.opened[rank]
    s.opened[rank] += 1
    s.left[block] = c.room
    return int(block)


def free(s: Shared, begin: float, lane: int) -> bool:
    """Return True if a lane is idle at ``begin``."""
    return bool(s.lanes[lane] < 0 or s.idle[s.lanes[lane]] <= begin)


def lane_block(c: Pieces, s: Shared, a: Asked, first: int, last: int) -> int:
    """Return the thread block that takes ``a`` of those of lanes ``first`` to ``last``, which are its choice: the
    one that needs the fewest channels and then has the least room, else a new one; -1 where there is neither."""
    rank = c.rank[a.part]
    best, fewest = -1, 0
    replaced = -1
    for lane in range(first, last):
        if last - first > 1 and not free(s, a.begin, lane):
            continue
        block = int(s.lanes[lane])
        if fits(c, s, a, block):
            number = added(c, s, a, block)
            if best < 0 or number < fewest or (number == fewest and s.left[block] < s.left[best]):
                best, fewest = block, number
        old = -1 if replaced < 0 else int(s.lanes[replaced])
        if replaced < 0 or (block >= 0 and (old < 0 or s.left[block] < s.left[old])):
            replaced = lane
    if best >= 0 or s.opened[rank] == c.blocks or not connects(c, s, a, rank):
        return best
    block, old = opened(c, s, rank), int(s.lanes[replaced])
    if old >= 0 and not s.closed[old]:
        s.closed[old], s.following[old] = 1, block
    s.lanes[replaced] = block
    return block


def any_block(c: Pieces, s: Shared, a: Asked) -> int:
    """Return the thread block of the rank that fits and can take ``a`` first, or -1."""
    rank = c.rank[a.part]
    best, soonest, fewest = -1, 0.0, 0
    for block in range(rank * c.blocks, rank * c.blocks + s.opened[rank]):
        if s.closed[block] or not fits(c, s, a, block):
            continue
        soon, number = max(s.idle[block], a.begin), added(c, s, a, block)
        if best < 0 or soon < soonest or (soon == soonest and number < fewest):
            best, soonest, fewest = block, soon, number
    return best


def taken(c: Pieces, s: Shared, a: Asked) -> int:
    """Return the thread block that takes ``a``, or -1 where none can."""
    rank, group = c.rank[a.part], c.group[a.part]
    first, last = c.first_lane[group], c.first_lane[group] + s.number[group]
    idle, soonest = False, first
    for lane in range(first, last):
        if free(s, a.begin, lane):
            idle = True
            break
        if s.idle[s.lanes[lane]] < s.idle[s.lanes[soonest]]:
            soonest = lane
    if not idle and c.wide and s.opened[rank] < c.blocks:
        s.number[group] += 1  # it has no thread block yet
        first, last = last, last + 1
    elif not idle:
        first, last = soonest, soonest + 1
    block = lane_block(c, s, a, first, last)
    return block if block >= 0 else any_block(c, s, a)


def waiter(c: Pieces, s: Shared, block: int, rank: int) -> int:
    """Return a thread block of ``rank`` to wait for what ``block`` puts there for good; -1 where none can."""
    if not s.opened[rank]:
        opened(c, s, rank)
    kind = near(c, rank, block // c.blocks)
    best, has_channel = -1, False
    for there in range(rank * c.blocks, rank * c.blocks + s.opened[rank]):
        linked = joined(s, block, there)
        full = s.channels[2 * there + kind] > c.most - KEPT
        if not linked and (has_channel or full):
            continue
        fewer = best < 0 or s.channels[2 * there + kind] < s.channels[2 * best + kind]
        if fewer or (linked and not has_channel):
            best, has_channel = there, linked
    if best < 0 and s.opened[rank] < c.blocks:
        return opened(c, s, rank)
    return best


def share(c: Pieces, s: Shared) -> int:
    """Give every piece a thread block; return 0 where there are too few thread blocks or channels, else 1."""
    for n in range(len(c.part)):
        i, piece = c.part[n], c.piece[n]
        before, end = c.first_before[i], c.first_before[i + 1]
        station = c.station[i] * c.pieces + piece
        if s.seen[station]:  # another thread block has waited
            before = end
        a = Asked(i, piece, c.begin[n], before, end)
        block = taken(c, s, a)
        if block < 0:
            return 0
        s.left[block] -= c.cost[i]
        s.idle[block] = max(s.idle[block], c.idle[n])
        s.where[i * c.pieces + piece], s.seen[station] = block, 1
        for k in range(before, end):
            if not join(c, s, block, int(s.where[c.before[k] * c.pieces + piece])):
                return 0
        for k in range(c.first_ends[i], c.first_ends[i + 1]):
            rank = c.ends[k]
            if s.waiting[block * c.ranks + rank] < 0:
                there = waiter(c, s, block, rank)
                if there < 0 or not join(c, s, block, there):
                    return 0
                s.left[block] -= 2
                s.waiting[block * c.ranks + rank] = there
    return 1
