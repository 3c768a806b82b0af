"""The event loop of the simulator on arrays: plain Python for small graphs, compiled by numba for large.

Both compute the same numbers in the same order. A task has one pending event: the end of its delay, bytes or
computation. Rates are max-min fair; a resource is ``tight`` where its flows could draw more than it has. Whoever
starts or ends changes only the rates of flows joined to it by tight resources, and none below the least ``level``,
at which a resource is full, of those that gained or lost a flow.

A task with a queue starts when it is ready and one of the lanes of the queue is idle, the one with the lowest
``rank`` first, and keeps the lane until its last byte is sent."""

from math import inf
from typing import Any, NamedTuple

Row = Any  # a list, or an array, of records, floats or integers

TOGETHER = 2e-13  # of the time: events closer than this are rounding apart
SLACK = 1e-12  # of a rate: a resource asked for this little more than it has is not tight
SAME = 1e-14  # of a share of a resource
LOWER = 1.0 - 1e-9  # of a level: a rate below that is lower, and not by rounding

MAKES_ARRAYS = False
DELAY, FLOW, AFTER, ENDED = 0, 1, 2, 3
LOST, GAINED = 1, 2  # a flow, since rates were set


class State(NamedTuple):
    """n tasks, R resources, U uses (a use: one task on one resource), D dependences, Q queues; records:
    ``engine``."""

    tasks: Row  # n records
    resources: Row  # R records
    uses: Row  # U records, task after task
    queues: Row  # Q records
    followers: Row  # D: tasks that wait for a task, task after task
    lags: Row  # D: seconds that each of them waits at least once the task has ended
    flows: Row  # U: uses that are active, resource after resource
    heap: Row  # n: tasks; the first counts[HEAP] are a heap by ``key``
    touched: Row  # R: resources where a flow started or ended since rates were set
    members: Row  # R: tight resources of the component being filled
    waiting: Row  # n: flows of the component
    fresh: Row  # n: flows that started since rates were set
    ended: Row  # n: tasks whose followers do not know yet
    counts: Row  # how many entries of heap, touched, members, waiting, fresh, ended and stirred are in use
    queued: Row  # n: tasks that are ready and have no lane, a heap by ``rank`` for each queue
    stirred: Row  # Q: queues with a task or a lane more since tasks were given lanes


HEAP, TOUCHED, MEMBERS, WAITING, FRESH, NEWLY_ENDED, STIRRED = 0, 1, 2, 3, 4, 5, 6


def sift_up(s: State, at: int) -> None:
    """Move the task at place ``at`` towards the root as far as its key says."""
    task = s.heap[at]
    key = s.tasks[task].key
    while at > 0:
        above = (at - 1) // 2
        other = s.heap[above]
        if s.tasks[other].key <= key:
            break
        s.heap[at] = other
        s.tasks[other].place = at
        at = above
    s.heap[at] = task
    s.tasks[task].place = at


def sift_down(s: State, at: int) -> None:
    """Move the task at place ``at`` away from the root as far as its key says."""
    task = s.heap[at]
    key = s.tasks[task].key
    size = s.counts[HEAP]
    while True:
        below = 2 * at + 1
        if below >= size:
            break
        if below + 1 < size and s.tasks[s.heap[below + 1]].key < s.tasks[s.heap[below]].key:
            below += 1
        other = s.heap[below]
        if s.tasks[other].key >= key:
            break
        s.heap[at] = other
        s.tasks[other].place = at
        at = below
    s.heap[at] = task
    s.tasks[task].place = at


def set_event(s: State, task: int, time: float) -> None:
    """The next event of ``task`` is at ``time``."""
    t = s.tasks[task]
    t.key = time
    if t.place < 0:
        t.place = s.counts[HEAP]
        s.heap[t.place] = task
        s.counts[HEAP] += 1
    sift_up(s, t.place)
    sift_down(s, t.place)


def touch(s: State, r: int, how: int) -> None:
    """Resource ``r`` has lost or gained a flow; to have gained one counts more."""
    if s.resources[r].is_touched == 0:
        s.touched[s.counts[TOUCHED]] = r
        s.counts[TOUCHED] += 1
    s.resources[r].is_touched = max(s.resources[r].is_touched, how)


def finish(s: State, now: float) -> int:
    """Make the followers of tasks that ended ready, at once those that need no time; how many ended."""
    handled = 0
    while handled < s.counts[NEWLY_ENDED]:
        t = s.tasks[s.ended[handled]]
        handled += 1
        t.phase = ENDED
        t.end = now
        for i in range(t.first_follower, t.end_follower):
            follower = s.tasks[s.followers[i]]
            follower.missing -= 1
            follower.ready = max(follower.ready, now + s.lags[i])
            if follower.missing == 0:
                if follower.queue >= 0:
                    enqueue(s, s.followers[i])
                elif follower.ready + follower.delay > now:
                    set_event(s, s.followers[i], follower.ready + follower.delay)
                else:
                    send(s, s.followers[i], now)
    return handled


def start(s: State, task: int, now: float) -> None:
    """``task`` may run: first its delay passes."""
    delay = s.tasks[task].delay
    if delay > 0.0:
        set_event(s, task, now + delay)
    else:
        send(s, task, now)


def stir(s: State, q: int) -> None:
    """Queue ``q`` has a task or a lane more."""
    if s.queues[q].is_stirred == 0:
        s.queues[q].is_stirred = 1
        s.stirred[s.counts[STIRRED]] = q
        s.counts[STIRRED] += 1


def enqueue(s: State, task: int) -> None:
    """``task`` waits for a lane."""
    t = s.tasks[task]
    queue = s.queues[t.queue]
    first, at = queue.first_task, queue.waiting
    queue.waiting += 1
    while at > 0:
        above = (at - 1) // 2
        other = s.queued[first + above]
        if s.tasks[other].rank <= t.rank:
            break
        s.queued[first + at] = other
        at = above
    s.queued[first + at] = task
    stir(s, t.queue)


def dequeue(s: State, q: int) -> int:
    """The task of queue ``q`` with the lowest rank, which waits no longer."""
    queue = s.queues[q]
    first = queue.first_task
    queue.waiting -= 1
    size, at = queue.waiting, 0
    best, moved = s.queued[first], s.queued[first + size]
    rank = s.tasks[moved].rank
    while 2 * at + 1 < size:
        below = 2 * at + 1
        if below + 1 < size and s.tasks[s.queued[first + below + 1]].rank < s.tasks[s.queued[first + below]].rank:
            below += 1
        if s.tasks[s.queued[first + below]].rank >= rank:
            break
        s.queued[first + at] = s.queued[first + below]
        at = below
    s.queued[first + at] = moved
    return best  # type: ignore[no-any-return]


def assign_lanes(s: State, now: float) -> None:
    """Idle lanes take what waits for them."""
    for i in range(s.counts[STIRRED]):
        q = s.stirred[i]
        queue = s.queues[q]
        queue.is_stirred = 0
        while queue.idle > 0 and queue.waiting > 0:
            task = dequeue(s, q)
            queue.idle -= 1
            s.tasks[task].ready = now
            start(s, task, now)
    s.counts[STIRRED] = 0


def send(s: State, task: int, now: float) -> None:
    """The delay of ``task`` is over: it draws from its resources, at a rate to be set."""
    t = s.tasks[task]
    t.begin = now
    if t.size <= 0.0 or t.end_use <= t.first_use:
        compute(s, task, now)
        return
    t.phase = FLOW
    t.left = t.size
    t.since = now
    s.fresh[s.counts[FRESH]] = task
    s.counts[FRESH] += 1
    for u in range(t.first_use, t.end_use):
        use = s.uses[u]
        resource = s.resources[use.resource]
        use.seat = resource.first_flow + resource.active
        s.flows[use.seat] = u
        resource.active += 1
        resource.asked += t.limit
        touch(s, use.resource, GAINED)


def compute(s: State, task: int, now: float) -> None:
    """The last byte of ``task`` has been sent."""
    t = s.tasks[task]
    t.sent = now
    t.phase = AFTER
    if t.queue >= 0:
        s.queues[t.queue].idle += 1
        stir(s, t.queue)
    if t.after > 0.0:
        set_event(s, task, now + t.after)
    else:
        s.ended[s.counts[NEWLY_ENDED]] = task
        s.counts[NEWLY_ENDED] += 1


def join(s: State, task: int) -> None:
    """``task`` needs a new rate."""
    if s.tasks[task].is_waiting == 0:
        s.tasks[task].is_waiting = 1
        s.waiting[s.counts[WAITING]] = task
        s.counts[WAITING] += 1


def stays(s: State, task: int, floor: float) -> bool:
    """Return True if ``task`` has a rate, and one below ``floor``, so that it does not change."""
    speed = s.tasks[task].speed
    return 0.0 < speed < floor * LOWER  # type: ignore[no-any-return]


def find_component(s: State) -> None:
    """Every flow whose rate may have changed, and the resources that constrain them.

    Filling goes as before below the level of a resource that only lost flows, which is full no sooner than before,
    and of one that gained some, which is full no sooner than if all its flows had the same rate.
    """
    floor = inf
    for i in range(s.counts[TOUCHED]):
        resource = s.resources[s.touched[i]]
        is_tight = resource.active > 1 and resource.asked > resource.rate * (1.0 + SLACK)
        if resource.tight != 0:
            floor = min(floor, resource.level)
        else:
            resource.level = inf
        if is_tight and resource.is_touched == GAINED:
            floor = min(floor, resource.rate / resource.active)
        resource.is_touched = resource.tight  # whether it was
        resource.tight = 1 if is_tight else 0
    # flows that started, and those on resources that a start or end makes or made tight, need new rates
    for i in range(s.counts[TOUCHED]):
        resource = s.resources[s.touched[i]]
        if resource.is_touched + resource.tight > 0:
            for at in range(resource.first_flow, resource.first_flow + resource.active):
                task = s.uses[s.flows[at]].task
                if not stays(s, task, floor):
                    join(s, task)
        resource.is_touched = 0
    s.counts[TOUCHED] = 0
    for i in range(s.counts[FRESH]):
        join(s, s.fresh[i])
    s.counts[FRESH] = 0
    searched_flows, searched = 0, 0
    while searched_flows < s.counts[WAITING]:
        t = s.tasks[s.waiting[searched_flows]]
        searched_flows += 1
        for u in range(t.first_use, t.end_use):
            r = s.uses[u].resource
            if s.resources[r].tight != 0 and s.resources[r].is_member == 0:
                s.resources[r].is_member = 1
                s.members[s.counts[MEMBERS]] = r
                s.counts[MEMBERS] += 1
        while searched < s.counts[MEMBERS]:
            open_member(s, s.members[searched], floor)
            searched += 1


def open_member(s: State, r: int, floor: float) -> None:
    """Set what resource ``r`` has left for how many flows, and mark these as needing a new rate."""
    resource = s.resources[r]
    resource.level = inf
    resource.spare = resource.rate
    resource.open = 0
    for i in range(resource.first_flow, resource.first_flow + resource.active):
        task = s.uses[s.flows[i]].task
        if stays(s, task, floor):
            resource.spare = max(0.0, resource.spare - s.tasks[task].speed)
        else:
            resource.open += 1
            join(s, task)


def grant(s: State, task: int, rate: float, now: float) -> None:
    """``task`` draws ``rate`` from now on; its share is taken from the resources it uses."""
    t = s.tasks[task]
    t.is_waiting = 0
    for u in range(t.first_use, t.end_use):
        resource = s.resources[s.uses[u].resource]
        if resource.is_member != 0:
            resource.spare = max(0.0, resource.spare - rate)
            resource.open -= 1
    if abs(rate - t.speed) > SAME * rate:
        t.left = max(0.0, t.left - t.speed * (now - t.since))
        t.since = now
        t.speed = rate
        set_event(s, task, now + t.left / rate)


def grant_limits(s: State, share: float, now: float) -> float:
    """Every waiting flow that cannot use ``share`` (negative: any share) gets what it can use; the least limit of
    the others."""
    kept = 0
    least = -1.0
    for i in range(s.counts[WAITING]):
        task = s.waiting[i]
        t = s.tasks[task]
        if t.is_waiting == 0:
            continue
        if share < 0.0 or t.limit <= share:
            grant(s, task, t.limit, now)
            continue
        s.waiting[kept] = task
        kept += 1
        if least < 0.0 or t.limit < least:
            least = t.limit
    s.counts[WAITING] = kept
    return least


def least_share(s: State) -> float:
    """The smallest equal share that a member can still give to its flows without a rate, -1 where none is left."""
    share = -1.0
    kept = 0
    for i in range(s.counts[MEMBERS]):
        r = s.members[i]
        resource = s.resources[r]
        if resource.open == 0:
            resource.is_member = 0
            continue
        s.members[kept] = r
        kept += 1
        if share < 0.0 or resource.spare < share * resource.open:
            share = resource.spare / resource.open
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
        for i in range(s.counts[MEMBERS]):  # flows of resources that are full at that share stay at it
            resource = s.resources[s.members[i]]
            if resource.open == 0 or resource.spare > share * resource.open * (1.0 + SAME):
                continue
            resource.level = share
            for j in range(resource.first_flow, resource.first_flow + resource.active):
                task = s.uses[s.flows[j]].task
                if s.tasks[task].is_waiting != 0:
                    grant(s, task, share, now)
    least_share(s)


def advance(s: State, task: int) -> int:
    """Handle the event of ``task``; how many tasks ended."""
    t = s.tasks[task]
    now = t.key
    s.counts[NEWLY_ENDED] = 0
    if t.phase == DELAY:
        send(s, task, now)
    elif t.phase == FLOW:  # it draws no longer
        for u in range(t.first_use, t.end_use):
            use = s.uses[u]
            resource = s.resources[use.resource]
            resource.active -= 1
            moved = s.flows[resource.first_flow + resource.active]
            s.flows[use.seat] = moved
            s.uses[moved].seat = use.seat
            resource.asked -= t.limit
            if resource.active == 0:
                resource.asked = 0.0  # and with it the rounding of many additions
            touch(s, use.resource, LOST)
        compute(s, task, now)
    else:
        s.ended[0] = task
        s.counts[NEWLY_ENDED] = 1
    return finish(s, now)


def run(s: State, tasks: int) -> int:
    """Simulate all ``tasks``; how many ended (fewer: the others wait in a circle)."""
    for task in range(tasks):
        if s.tasks[task].missing == 0:
            if s.tasks[task].queue >= 0:
                enqueue(s, task)
            else:
                set_event(s, task, s.tasks[task].delay)
    assign_lanes(s, 0.0)
    set_rates(s, 0.0)
    done = 0
    while s.counts[HEAP] > 0:
        now = s.tasks[s.heap[0]].key
        until = now + TOGETHER * now
        while s.counts[HEAP] > 0 and s.tasks[s.heap[0]].key <= until:
            task = s.heap[0]
            s.counts[HEAP] -= 1
            s.tasks[task].place = -1
            if s.counts[HEAP] > 0:
                s.heap[0] = s.heap[s.counts[HEAP]]
                sift_down(s, 0)
            now = max(now, s.tasks[task].key)
            done += advance(s, task)
        assign_lanes(s, now)
        set_rates(s, now)
    return done
