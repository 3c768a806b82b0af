"""Runs of a dispatch on arrays: plain Python for small programs, compiled by numba for large."""

from typing import Any, NamedTuple

MAKES_ARRAYS = False
Row = Any  # a list or an array of numbers


class Sent(NamedTuple):
    """Messages by group of lanes, in the order of time. ``first_lane[g]``: the first lane of group g. ``room``:
    the most steps of a run, ``span``: its most seconds."""

    group: Row
    begin: Row
    end: Row
    steps: Row
    first_lane: Row
    room: int
    span: float


class LaneStates(NamedTuple):
    """The state of each lane: when it is idle, its run (-1: none), that run's steps left and the time by which it
    must end, and the lane's last message."""

    idle: Row
    run: Row
    left: Row
    until: Row
    last: Row


class Cut(NamedTuple):
    """The run of each message; the steps of each run, and the last message of its lane before it (-1: none)."""

    run: Row
    steps: Row
    after: Row


def goes_on(s: Sent, lanes: LaneStates, m: int, i: int) -> bool:
    """Return True if the run of lane ``i`` has room and time for message ``m``."""
    return bool(lanes.left[i] >= s.steps[m] and s.end[m] <= lanes.until[i])


def next_lane(s: Sent, lanes: LaneStates, m: int) -> int:
    """Return the lane that sends message ``m``: of the idle lanes the one whose run goes on and has the fewest
    steps left, else one whose run is over, else an unused one; if none is idle, the lane that is soonest."""
    first, end = s.first_lane[s.group[m]], s.first_lane[s.group[m] + 1]
    going, over, unused, soonest = -1, -1, -1, first
    for i in range(first, end):
        if lanes.idle[i] < lanes.idle[soonest]:
            soonest = i
        if lanes.idle[i] <= s.begin[m]:
            if goes_on(s, lanes, m, i) and (going < 0 or lanes.left[i] < lanes.left[going]):
                going = i
            if over < 0 and lanes.run[i] >= 0:
                over = i
            if unused < 0:
                unused = i
    if going >= 0:
        return int(going)
    if over >= 0:
        return int(over)
    return int(unused if unused >= 0 else soonest)


def cut(s: Sent, lanes: LaneStates, c: Cut) -> int:
    """Cut the messages of lanes into runs, and return the number of runs."""
    runs = 0
    for m in range(len(s.group)):
        i = next_lane(s, lanes, m)
        if not goes_on(s, lanes, m, i):
            c.after[runs] = lanes.last[i]
            lanes.run[i], lanes.left[i], lanes.until[i] = runs, s.room, s.begin[m] + s.span
            runs += 1
        run = lanes.run[i]
        lanes.idle[i], lanes.last[i] = s.end[m], m
        lanes.left[i] -= s.steps[m]
        c.run[m] = run
        c.steps[run] += s.steps[m]
    return runs


class Ended(NamedTuple):
    """Messages by run: those of run r from ``first[r]`` on; pairs of a run that arrives and one that leaves."""

    first: Row
    begin: Row
    end: Row
    arriving: Row
    leaving: Row


class Held(NamedTuple):
    """The seconds for which sending holds up what arrives, for each pair of runs."""

    seconds: Row


def hold(e: Ended, h: Held) -> None:
    """Compute for each pair of runs the seconds for which sending holds up what arrives."""
    for k in range(len(e.arriving)):
        seconds = 0.0
        r, out = e.arriving[k], e.leaving[k]
        for m in range(e.first[r], e.first[r + 1]):
            low, high = e.first[out], e.first[out + 1]
            while low < high:  # the first that begins no sooner
                middle = (low + high) // 2
                if e.begin[middle] < e.end[m]:
                    low = middle + 1
                else:
                    high = middle
            if low > e.first[out]:
                seconds += max(0.0, e.end[low - 1] - e.end[m])
        h.seconds[k] = seconds


class Offers(NamedTuple):
    """Pairs of runs that may share a thread block at a rank, one that arrives and one that leaves, in order of the
    time for which they are held up. ``pair[r]``: the number of the pair of ranks that run r joins."""

    rank: Row
    arriving: Row
    leaving: Row
    pair: Row


class Joined(NamedTuple):
    """For each run: the run that it shares with, the run that shares with it (-1: none); the first run of its
    channel, the next one, and for a first run the last one. For each rank: thread blocks too many."""

    shares: Row
    shared: Row
    first: Row
    next: Row
    last: Row
    excess: Row


def channel_of(j: Joined, r: int) -> int:
    """Return the first run of the channel of run ``r``."""
    while j.first[r] != r:
        r = j.first[r]
    return r


def meet(o: Offers, j: Joined, one: int, other: int) -> bool:
    """Return True if two channels, named by their first runs, join the same pair of ranks somewhere."""
    while one >= 0:
        at = other
        while at >= 0:
            if o.pair[one] == o.pair[at]:
                return True
            at = j.next[at]
        one = j.next[one]
    return False


def join(o: Offers, j: Joined) -> None:
    """Let runs share until no rank has thread blocks too many; runs that share have one channel."""
    for k in range(len(o.rank)):
        rank, r, out = o.rank[k], o.arriving[k], o.leaving[k]
        if j.excess[rank] <= 0 or j.shares[r] >= 0 or j.shared[out] >= 0:
            continue
        one, other = channel_of(j, r), channel_of(j, out)
        if one == other or meet(o, j, one, other):
            continue
        j.shares[r], j.shared[out], j.first[other] = out, r, one
        j.next[j.last[one]], j.last[one] = other, j.last[other]
        j.excess[rank] -= 1
