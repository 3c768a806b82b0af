"""The event loop of the simulator on arrays: plain Python for small graphs, compiled by numba for large.

One source serves both: the functions run as they stand on lists, or compiled on arrays (``engine.compiled``). They
compute the same numbers in the same order, so both give the same times to the last bit.

Every task has one pending event at a time: the end of its delay, of its bytes, or of its computation. Events lie
in a heap by time. Those that fall together (within ``TOGETHER``) are handled before rates change.

Rates are max-min fair. A resource constrains only where its flows together could draw more than it has: it is
``tight``. Whoever starts or ends changes the rates only of the flows that are joined to it by tight resources, so
only that component is filled anew.
"""

from __future__ import annotations

from typing import Any, NamedTuple

Row = Any  # a list, or an array of floats or integers

TOGETHER = 2e-13  # of the time: events closer than this are rounding apart
SLACK = 1e-12  # of a rate: a resource asked for this little more than it has is not tight
SAME = 1e-14  # of a share of a resource

DELAY, FLOW, AFTER, ENDED = 0, 1, 2, 3


class State(NamedTuple):
    """n tasks, R resources, U uses (a use: one task on one resource), D dependences."""

    rate: Row  # R: bytes per second
    uses: Row  # U: resource
    uses_start: Row  # n + 1
    user: Row  # U: task
    followers: Row  # D: tasks that wait for a task, task after task
    followers_start: Row  # n + 1
    delay: Row  # n
    size: Row  # n: bytes, held ones included
    after: Row  # n
    limit: Row  # n: the rate of a task that is alone
    missing: Row  # n: tasks still waited for
    phase: Row  # n
    ready: Row  # n: results
    begin: Row  # n
    sent: Row  # n
    end: Row  # n
    left: Row  # n: bytes not yet sent at ``since``
    since: Row  # n
    speed: Row  # n: present rate
    key: Row  # n: when its next event is
    heap: Row  # n: tasks; the first counts[0] are a heap by key
    place: Row  # n: where in the heap, -1: not there
    flows_start: Row  # R: where the flows of a resource begin in ``flows``
    flows: Row  # U: uses that are active, resource after resource
    active: Row  # R: how many
    seat: Row  # U: where in ``flows``
    asked: Row  # R: what the flows of a resource would draw if each were alone
    tight: Row  # R
    touched: Row  # R: resources where a flow started or ended since rates were set
    is_touched: Row  # R
    members: Row  # R: tight resources of the component being filled
    is_member: Row  # R
    spare: Row  # R: bytes per second not yet given
    open: Row  # R: flows without a rate yet
    waiting: Row  # n: flows of the component
    is_waiting: Row  # n
    fresh: Row  # n: flows that started since rates were set
    ended: Row  # n: tasks whose followers are to be told
    counts: Row  # of heap, touched, members, waiting, fresh, ended


HEAP, TOUCHED, MEMBERS, WAITING, FRESH, TOLD = 0, 1, 2, 3, 4, 5


def sift_up(s: State, at: int) -> None:
    """Move the task at place ``at`` towards the root as far as its key says."""
    task = s.heap[at]
    key = s.key[task]
    while at > 0:
        above = (at - 1) // 2
        other = s.heap[above]
        if s.key[other] <= key:
            break
        s.heap[at] = other
        s.place[other] = at
        at = above
    s.heap[at] = task
    s.place[task] = at


def sift_down(s: State, at: int) -> None:
    """Move the task at place ``at`` away from the root as far as its key says."""
    task = s.heap[at]
    key = s.key[task]
    size = s.counts[HEAP]
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        if below + 1 < size and s.key[s.heap[below + 1]] < s.key[s.heap[below]]:
            below += 1
        other = s.heap[below]
        if s.key[other] >= key:
            break
        s.heap[at] = other
        s.place[other] = at
        at = below
    s.heap[at] = task
    s.place[task] = at


def set_event(s: State, task: int, time: float) -> None:
    """The next event of ``task`` is at ``time``."""
    s.key[task] = time
    at = s.place[task]
    if at < 0:
        at = s.counts[HEAP]
        s.counts[HEAP] += 1
        s.heap[at] = task
        sift_up(s, at)
        return
    sift_up(s, at)
    sift_down(s, s.place[task])


def take_first(s: State) -> int:
    """Remove and return the task whose event is first."""
    first: int = s.heap[0]
    s.counts[HEAP] -= 1
    last = s.heap[s.counts[HEAP]]
    s.place[first] = -1
    if last != first:
        s.heap[0] = last
        s.place[last] = 0
        sift_down(s, 0)
    return first


def touch(s: State, r: int) -> None:
    """Resource ``r`` has gained or lost a flow."""
    if not s.is_touched[r]:
        s.is_touched[r] = True
        s.touched[s.counts[TOUCHED]] = r
        s.counts[TOUCHED] += 1


def start_flow(s: State, task: int, now: float) -> None:
    """``task`` draws from its resources from ``now`` on, at a rate to be set."""
    s.left[task] = s.size[task]
    s.since[task] = now
    s.speed[task] = 0.0
    s.fresh[s.counts[FRESH]] = task
    s.counts[FRESH] += 1
    for u in range(s.uses_start[task], s.uses_start[task + 1]):
        r = s.uses[u]
        seat = s.flows_start[r] + s.active[r]
        s.flows[seat] = u
        s.seat[u] = seat
        s.active[r] += 1
        s.asked[r] += s.limit[task]
        touch(s, r)


def stop_flow(s: State, task: int) -> None:
    """``task`` draws no longer."""
    for u in range(s.uses_start[task], s.uses_start[task + 1]):
        r = s.uses[u]
        s.active[r] -= 1
        moved = s.flows[s.flows_start[r] + s.active[r]]
        s.flows[s.seat[u]] = moved
        s.seat[moved] = s.seat[u]
        s.asked[r] -= s.limit[task]
        if s.active[r] == 0:
            s.asked[r] = 0.0  # and with it the rounding of many additions
        touch(s, r)


def finish(s: State, now: float) -> int:
    """Tell the followers of those that have ended, and of followers that need no time; how many ended."""
    told = 0
    while told < s.counts[TOLD]:
        task = s.ended[told]
        told += 1
        s.phase[task] = ENDED
        s.end[task] = now
        for i in range(s.followers_start[task], s.followers_start[task + 1]):
            follower = s.followers[i]
            s.missing[follower] -= 1
            if s.missing[follower] == 0:
                make_ready(s, follower, now)
    return told


def make_ready(s: State, task: int, now: float) -> None:
    """Nothing holds ``task`` back any more."""
    s.ready[task] = now
    s.phase[task] = DELAY
    if s.delay[task] > 0.0:
        set_event(s, task, now + s.delay[task])
    else:
        send(s, task, now)


def send(s: State, task: int, now: float) -> None:
    """The delay of ``task`` is over."""
    s.begin[task] = now
    if s.size[task] > 0.0 and s.uses_start[task + 1] > s.uses_start[task]:
        s.phase[task] = FLOW
        start_flow(s, task, now)
    else:
        compute(s, task, now)


def compute(s: State, task: int, now: float) -> None:
    """The last byte of ``task`` has been sent."""
    s.sent[task] = now
    s.phase[task] = AFTER
    if s.after[task] > 0.0:
        set_event(s, task, now + s.after[task])
    else:
        s.ended[s.counts[TOLD]] = task
        s.counts[TOLD] += 1


def join(s: State, task: int) -> None:
    """``task`` needs a new rate."""
    if not s.is_waiting[task]:
        s.is_waiting[task] = True
        s.waiting[s.counts[WAITING]] = task
        s.counts[WAITING] += 1


def include(s: State, r: int) -> None:
    """Resource ``r`` constrains the component."""
    if s.tight[r] and not s.is_member[r]:
        s.is_member[r] = True
        s.members[s.counts[MEMBERS]] = r
        s.counts[MEMBERS] += 1
        s.spare[r] = s.rate[r]
        s.open[r] = s.active[r]


def find_component(s: State) -> None:
    """Every flow whose rate may have changed, and the resources that constrain them."""
    for i in range(s.counts[TOUCHED]):
        r = s.touched[i]
        s.is_touched[r] = False
        was = s.tight[r]
        s.tight[r] = s.asked[r] > s.rate[r] * (1.0 + SLACK) and s.active[r] > 1
        if was or s.tight[r]:
            for j in range(s.flows_start[r], s.flows_start[r] + s.active[r]):
                join(s, s.user[s.flows[j]])
    s.counts[TOUCHED] = 0
    for i in range(s.counts[FRESH]):
        join(s, s.fresh[i])
    s.counts[FRESH] = 0
    searched_flows, searched = 0, 0
    while searched_flows < s.counts[WAITING]:
        task = s.waiting[searched_flows]
        searched_flows += 1
        for u in range(s.uses_start[task], s.uses_start[task + 1]):
            include(s, s.uses[u])
        while searched < s.counts[MEMBERS]:
            r = s.members[searched]
            searched += 1
            for j in range(s.flows_start[r], s.flows_start[r] + s.active[r]):
                join(s, s.user[s.flows[j]])


def grant(s: State, task: int, rate: float, now: float) -> None:
    """``task`` draws ``rate`` from now on; its share is taken from the resources it uses."""
    s.is_waiting[task] = False
    for u in range(s.uses_start[task], s.uses_start[task + 1]):
        r = s.uses[u]
        if s.is_member[r]:
            s.spare[r] = max(0.0, s.spare[r] - rate)
            s.open[r] -= 1
    if abs(rate - s.speed[task]) > SAME * rate:
        s.left[task] = max(0.0, s.left[task] - s.speed[task] * (now - s.since[task]))
        s.since[task] = now
        s.speed[task] = rate
        set_event(s, task, now + s.left[task] / rate)


def grant_limits(s: State, share: float, now: float) -> float:
    """Every waiting flow that cannot use ``share`` gets what it can use; the least limit of the others."""
    kept = 0
    least = -1.0
    for i in range(s.counts[WAITING]):
        task = s.waiting[i]
        if not s.is_waiting[task]:
            continue
        if share < 0.0 or s.limit[task] <= share:
            grant(s, task, s.limit[task], now)
            continue
        s.waiting[kept] = task
        kept += 1
        if least < 0.0 or s.limit[task] < least:
            least = s.limit[task]
    s.counts[WAITING] = kept
    return least


def least_share(s: State) -> float:
    """The smallest equal share that a member can still give to its flows without a rate, -1 where none is left."""
    share = -1.0
    kept = 0
    for i in range(s.counts[MEMBERS]):
        r = s.members[i]
        if s.open[r] == 0:
            s.is_member[r] = False
            continue
        s.members[kept] = r
        kept += 1
        if share < 0.0 or s.spare[r] < share * s.open[r]:
            share = s.spare[r] / s.open[r]
    s.counts[MEMBERS] = kept
    return share


def set_rates(s: State, now: float) -> None:
    """Progressive filling of the component: all rates rise together until a flow or a resource can no more."""
    find_component(s)
    least = 0.0
    while s.counts[WAITING] > 0:
        share = least_share(s)
        if share < 0.0 or share >= least:
            least = grant_limits(s, share, now)
            continue
        for i in range(s.counts[MEMBERS]):
            r = s.members[i]
            if s.open[r] == 0 or s.spare[r] > share * s.open[r] * (1.0 + SAME):
                continue
            for j in range(s.flows_start[r], s.flows_start[r] + s.active[r]):
                task = s.user[s.flows[j]]
                if s.is_waiting[task]:
                    grant(s, task, share, now)
    least_share(s)


def advance(s: State, task: int) -> int:
    """Handle the event of ``task``; how many tasks ended."""
    now = s.key[task]
    s.counts[TOLD] = 0
    if s.phase[task] == DELAY:
        send(s, task, now)
    elif s.phase[task] == FLOW:
        stop_flow(s, task)
        compute(s, task, now)
    else:
        s.ended[0] = task
        s.counts[TOLD] = 1
    return finish(s, now)


def run(s: State, tasks: int) -> int:
    """Simulate all ``tasks``; how many ended (fewer: the others wait in a circle)."""
    s.counts[TOLD] = 0
    for task in range(tasks):
        if s.missing[task] == 0 and s.phase[task] == DELAY and s.place[task] < 0:
            set_event(s, task, s.delay[task])
            s.ready[task] = 0.0
    done = 0
    while s.counts[HEAP] > 0:
        now = s.key[s.heap[0]]
        until = now + TOGETHER * now
        while s.counts[HEAP] > 0 and s.key[s.heap[0]] <= until:
            task = take_first(s)
            now = max(now, s.key[task])
            done += advance(s, task)
        set_rates(s, now)
    return done
