"""Neighbourhood search: CEGIS (HeteCCL 5.2) on a part of a schedule, where the monolithic model is too large.

In: a search that has a verified schedule. Out: shorter schedules, offered one after the other. A step is removed
from the schedule; its deliveries are free, all others frozen where they are. Z3 sees the free ones only: a frozen
delivery is a literal that uses up room and lets its receiver hold. An unsatisfiable core over these literals says
which of them were to blame; they are freed as well, with the deliveries their chunk took on its way, until a
schedule is found, the neighbourhood is too large, or the budget is spent. Proves nothing: a neighbourhood
without a schedule says nothing of the problem.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from functools import cached_property
from random import Random

from hetesynth.errors import InternalError
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.verdict import Violation
from hetesynth.search.copy_problem import CopyProblem, without_useless
from hetesynth.search.effort import scaled
from hetesynth.search.interrupts import deferred
from hetesynth.search.list_scheduling import Room
from hetesynth.search.search import OutOfTime, Search
from hetesynth.search.smt.clauses import Answer, Clauses
from hetesynth.search.smt.step_model import Law, Sending


def pushed(tables: CopyProblem, schedule: Schedule, *, late: bool) -> Schedule:
    """Every delivery as early as its chunk and the room allow, in the order of the schedule; or as late as
    possible, in the reverse order."""
    room = Room([resource.capacity for resource in tables.resources])
    ready: dict[tuple[int, int], int] = defaultdict(int)  # (chunk, rank) -> first step that what follows may take
    moved: list[Transfer] = []
    for t in schedule.transfers[::-1] if late else schedule.transfers:
        arc = tables.problem.arcs[t.link]
        begin, end = (arc.dst, arc.src) if late else (arc.src, arc.dst)
        sharing = (t.chunk, arc.src) if tables.problem.exclusive_reduction else None  # eq. 8
        at = room.take(tables.resources_of[t.link], ready[t.chunk, begin], sharing)
        ready[t.chunk, end] = max(ready[t.chunk, end], at + 1)
        start = schedule.makespan - at - 1 if late else at
        moved.append(Transfer(start, start + 1, t.chunk, t.link))
    return Schedule.of(moved, schedule.makespan)


def without_step(
    problem: Problem, schedule: Schedule, step: int
) -> tuple[dict[tuple[int, int], tuple[int, int]], set[tuple[int, int]]]:
    """Where each (chunk, rank) is delivered, as (link, step), when ``step`` is cut out; and what it delivered."""
    placed: dict[tuple[int, int], tuple[int, int]] = {}
    cut: set[tuple[int, int]] = set()
    for t in schedule.transfers:
        delivery = (t.chunk, problem.arcs[t.link].dst)
        if t.start == step:
            cut.add(delivery)
        else:
            placed[delivery] = (t.link, t.start - (t.start > step))
    return placed, cut


Delivery = tuple[int, int]  # chunk, rank it is brought to
Place = tuple[int, int]  # link, step


class NeighbourhoodModel:
    """``free`` deliveries within ``steps`` steps, beside those that are ``placed``.

    ``ready``: from when on a rank can hold a chunk, see ``first_steps``. A free delivery to a rank that does not
    want the chunk may be left out: it is a relay.

    Free deliveries have the Send and Has variables of the step model (HeteCCL eq. 2, 3); a frozen one, while its
    literal is assumed, uses capacity (eq. 4, 5), and its sender must hold the chunk in time. Capacity, exclusion
    (eq. 8) and limits of peers are told by resource and by rank.
    """

    def __init__(
        self,
        tables: CopyProblem,
        steps: int,
        placed: Mapping[Delivery, Place],
        free: set[Delivery],
        ready: Mapping[Delivery, int],
        stop_check: Callable[[], None],
        stop: threading.Event,
    ) -> None:
        self.tables = tables
        self.steps = steps
        self.placed = placed
        self.free = free
        self.clauses = Clauses(stop)
        self.laws: set[Law] = set()
        self.send: dict[Sending, int] = {}
        self._has: dict[tuple[int, int, int], int] = {}
        self._fixed: dict[Delivery, int] = {}  # only those that some law told so far speaks of
        clause, problem = self.clauses.clause, tables.problem
        for k, rank in sorted(free):
            stop_check()
            # Send and Has variables, as far as the chunk can be there
            for t in range(ready.get((k, rank), steps + 1), steps + 1):
                self._has[k, rank, t] = self.clauses.variable(f"has_{k}_{rank}_{t}")
            for a in tables.into[rank]:
                for t in range(ready.get((k, problem.arcs[a].src), steps), steps):
                    self.send[k, a, t] = self.clauses.variable(f"send_{k}_{a}_{t}")
        for k, rank in sorted(free):
            stop_check()
            self._motion(k, rank)
        # a frozen delivery from a free one needs it before it starts
        for delivery, (a, t) in sorted(placed.items()):
            source = (delivery[0], problem.arcs[a].src)
            if source in free:
                clause(-self._frozen(delivery), *self._holds(*source, t))
        self._sends_by_resource: dict[tuple[int, int], list[int]] = defaultdict(list)
        for (_, a, t), send in self.send.items():
            for r in tables.resources_of[a]:
                self._sends_by_resource[r, t].append(send)
        self._placed_by_resource: dict[tuple[int, int], list[Delivery]] = defaultdict(list)
        for delivery, (a, t) in placed.items():
            for r in tables.resources_of[a]:
                if (r, t) in self._sends_by_resource:
                    self._placed_by_resource[r, t].append(delivery)

    def _motion(self, k: int, rank: int) -> None:
        """Eq. 2, 3 and single receipt (eq. 6) of one free delivery, and that it is made where it is wanted."""
        clause = self.clauses.clause
        every: list[int] = []
        for t in range(self.steps):
            now, then = self._has.get((k, rank, t)), self._has.get((k, rank, t + 1))
            causes: list[int] = []
            for a in self.tables.into[rank]:
                send = self.send.get((k, a, t))
                if send is None:
                    continue
                causes.append(send)
                source = self.tables.problem.arcs[a].src
                if (k, source) in self.free:
                    clause(-send, self._has[k, source, t])
                if now is not None:
                    clause(-send, -now)
            every += causes
            if then is not None:
                if now is not None:
                    causes.append(now)
                clause(-then, *causes)
                for cause in causes:
                    clause(-cause, then)
        if len(every) > 1:
            self.clauses.at_most(every, 1)
        if rank in self.tables.problem.collective.post[k]:
            clause(*self._holds(k, rank, self.steps))

    def _holds(self, k: int, rank: int, t: int) -> tuple[int, ...]:
        variable = self._has.get((k, rank, t))
        return () if variable is None else (variable,)

    def _frozen(self, delivery: Delivery) -> int:
        if delivery not in self._fixed:
            self._fixed[delivery] = self.clauses.variable(f"frozen_{delivery[0]}_{delivery[1]}")
        return self._fixed[delivery]

    def full(self) -> list[Law]:
        """The capacity laws of resources that frozen deliveries alone fill in some step."""
        resources = self.tables.resources
        full = {r for (r, t), placed in self._placed_by_resource.items() if len(placed) >= resources[r].capacity}
        return [Law("capacity", r) for r in sorted(full)]

    def add(self, law: Law) -> bool:
        """Tell the solver ``law``; False when it knew. ``capacity``: ``law.a`` indexes the binding resources."""
        if law in self.laws:
            return False
        self.laws.add(law)
        resources, arcs = self.tables.resources, self.tables.problem.arcs
        if law.kind == "peers":
            self._peers(law.a, sending=True)
            self._peers(law.a, sending=False)
        elif law.kind == "capacity":
            for t in range(self.steps):
                sends, placed = (
                    self._sends_by_resource.get((law.a, t), []),
                    self._placed_by_resource.get((law.a, t), []),
                )
                self._at_most(sends, placed, resources[law.a].capacity)
        else:  # exclusive
            k, leaving = law.a, self.tables.out_of[law.b]
            for t in range(self.steps):
                sends = [self.send[k, a, t] for a in leaving if (k, a, t) in self.send]
                deliveries = [(k, arcs[a].dst) for a in leaving]
                here = {(a, t) for a in leaving}
                self._at_most(sends, [d for d in deliveries if self.placed.get(d) in here], 1)
        return True

    def _peers(self, rank: int, *, sending: bool) -> None:
        """A rank sends to, or receives from, few others over the whole schedule."""
        arcs = self.tables.problem.arcs
        around = set(self.tables.out_of[rank] if sending else self.tables.into[rank])
        met: dict[int, int] = {}

        def peer(a: int) -> int:
            other = arcs[a].dst if sending else arcs[a].src
            if other not in met:
                met[other] = self.clauses.variable(f"met_{rank}_{other}_{int(sending)}")
            return met[other]

        for (_, a, _), send in self.send.items():
            if a in around:
                self.clauses.clause(-send, peer(a))
        for delivery, (a, _) in self.placed.items():
            if a in around:
                self.clauses.clause(-self._frozen(delivery), peer(a))
        self._at_most([met[other] for other in sorted(met)], [], self.tables.problem.max_peers or len(met))

    def _at_most(self, free: list[int], placed: list[Delivery], limit: int) -> None:
        if free and len(free) + len(placed) > limit:
            frozen = [self._frozen(delivery) for delivery in placed]
            self.clauses.at_most([*free, *frozen], limit)

    def check(self, rlimit: int, seconds: float | None) -> Answer:
        """Solve with everything frozen; ``unknown`` after ``rlimit`` resource units or ``seconds``."""
        return self.clauses.check([self._fixed[d] for d in sorted(self._fixed)], rlimit, seconds)

    def core(self) -> list[Delivery]:
        """The frozen deliveries that the last ``unsat`` blames."""
        names = self.clauses.core()
        return [d for d in sorted(self._fixed) if f"frozen_{d[0]}_{d[1]}" in names]

    def transfers(self) -> list[Transfer]:
        """Frozen and free ones together, by the last model."""
        true = set(self.clauses.true(self.send.values()))
        sends = [s for s, variable in self.send.items() if variable in true]
        sends += [(k, a, t) for (k, _), (a, t) in self.placed.items()]
        return sorted(Transfer(t, t + 1, k, a) for k, a, t in sends)


def size(tables: CopyProblem, steps: int, free: set[Delivery], ready: Mapping[Delivery, int]) -> int:
    """How many Send variables the model has, before it is built."""
    arcs = tables.problem.arcs
    return sum(max(0, steps - ready.get((k, arcs[a].src), steps)) for k, rank in free for a in tables.into[rank])


def first_steps(
    tables: CopyProblem, placed: Mapping[Delivery, Place], free: set[Delivery]
) -> dict[tuple[int, int], int]:
    """The first step before which a rank can hold a chunk that is free somewhere; absent: never."""
    problem = tables.problem
    chunks = sorted({k for k, _ in free})
    ready: dict[tuple[int, int], int] = {(k, r): 0 for k in chunks for r in problem.collective.pre[k]}
    free_chunks = set(chunks)
    for (k, rank), (_, t) in placed.items():
        if k in free_chunks:
            ready[k, rank] = t + 1
    waiting = sorted(free)
    changed = True
    while changed:
        changed = False
        for k, rank in waiting:
            senders = [
                ready[k, problem.arcs[a].src] for a in tables.into[rank] if (k, problem.arcs[a].src) in ready
            ]
            if senders and min(senders) + 1 < ready.get((k, rank), 1 << 30):
                ready[k, rank] = min(senders) + 1
                changed = True
    return ready


class Neighbourhood:
    """The neighbourhoods that begin with one step removed from ``schedule``."""

    def __init__(
        self, tables: CopyProblem, schedule: Schedule, placed: Mapping[Delivery, Place], rng: Random
    ) -> None:
        self.tables = tables
        self.rng = rng
        self.source = {(t.chunk, tables.problem.arcs[t.link].dst): t.link for t in schedule.transfers}
        used = Counter(r for t in schedule.transfers for r in tables.resources_of[t.link])
        steps = schedule.makespan - 1
        self.idle = [resource.capacity * steps - used[r] for r, resource in enumerate(tables.resources)]
        self.users: dict[int, list[Delivery]] = defaultdict(list)
        for delivery, (a, _) in placed.items():
            for r in tables.resources_of[a]:
                self.users[r].append(delivery)

    def grown_by(self, free: set[Delivery], core: list[Delivery] | None) -> set[Delivery]:
        """What to free next: what the core blames, what draws from the same resources, and what leads there."""
        blamed = list(core or ())
        self.rng.shuffle(blamed)
        added = set(blamed[: max(8, len(free))])
        for k, rank in [*free, *added]:
            at = rank
            while (k, at) in self.source:
                added.add((k, at))
                at = self.tables.problem.arcs[self.source[k, at]].src
        added -= free
        lacking = 8 - len(added)
        if lacking > 0:  # frozen ones on the scarcest resource of each of those blamed
            uses = [self.tables.resources_of[self.source[d]] for d in blamed or sorted(free)]
            scarce = {min(resources, key=lambda r: self.idle[r]) for resources in uses if resources}
            sharers = [d for r in sorted(scarce) for d in self.users[r]]
            self.rng.shuffle(sharers)
            added.update([d for d in sharers if d not in free][:lacking])
        return added

    def everyone(self) -> set[Delivery]:
        """Every delivery there could be."""
        problem = self.tables.problem
        starts = enumerate(problem.collective.pre)
        return {(k, rank) for k, pre in starts for rank in range(problem.ranks) if rank not in pre}

    def relays(self, free: set[Delivery]) -> set[Delivery]:
        """Ranks that could pass on what they do not want, where the way around has more room than the direct: for
        each chunk the four past which what is fullest on its way now is farthest."""
        problem, of = self.tables.problem, self.tables.resources_of
        relays: set[Delivery] = set()
        for k, rank in free:
            link = self.source[k, rank]
            source, direct = problem.arcs[link].src, set(of[link])
            holders = problem.collective.post[k] | problem.collective.pre[k]  # at the end
            fullest = max(0, min((self.idle[r] for r in direct), default=problem.arcs[link].capacity))
            detours: list[tuple[int, int]] = []
            for middle in range(problem.ranks):
                first, second = self.roomiest.get((source, middle)), self.roomiest.get((middle, rank))
                if middle in holders or first is None or second is None:
                    continue
                others = {*of[first], *of[second]} - direct  # what both detours use does not tell them apart
                detours.append((min((self.idle[r] for r in others), default=fullest), middle))
            relays |= {(k, middle) for room, middle in sorted(detours, reverse=True)[:4] if room > fullest}
        return relays

    @cached_property
    def roomiest(self) -> dict[tuple[int, int], int]:
        """For each pair of ranks, the link between them that has most left."""
        link: dict[tuple[int, int], int] = {}
        room = [min((self.idle[r] for r in of), default=0) for of in self.tables.resources_of]
        for a, arc in enumerate(self.tables.problem.arcs):
            best = link.setdefault((arc.src, arc.dst), a)
            if room[a] > room[best]:
                link[arc.src, arc.dst] = a
        return link


def improve(search: Search, *, rlimit: int | None = None, share: float = 1.0) -> None:
    """Cut the best schedule by a step as often as that succeeds, until the bound is met, ``rlimit`` units of the
    solver are spent or ``share`` of the time left is over."""
    units = scaled(40_000_000, search.policy.smt.units) if rlimit is None else rlimit
    with deferred() as interrupted:
        shared = _Shared(search, interrupted, units, share)
        try:
            shared.stop_check()
            while not search.done and shared.shorten():
                pass
        except OutOfTime:
            return


class _Shared:
    """What the neighbourhoods of one search share. ``until``: seconds of the search at which its share of time is
    used up."""

    def __init__(self, search: Search, stop: threading.Event, rlimit: int, share: float) -> None:
        self.search, self.stop, self.rlimit = search, stop, rlimit
        left = search.remaining()
        self.until = None if left is None else search.elapsed() + share * left
        self.stop_check = search.stop_check(stop)
        self.tables = CopyProblem(search.problem)
        self.exhausted = False
        self.rng = Random(search.budget.seed)

    def _stop_if_due(self) -> None:
        """OutOfTime or KeyboardInterrupt when the search is to end."""
        self.stop_check()
        if self.until is not None and self.search.elapsed() >= self.until:
            self.search.clock_decisions.note("lns")
            raise OutOfTime

    def shorten(self) -> bool:
        """Whether a schedule with a step less was found."""
        best = self.search.best
        if best is None or best.makespan < 2:
            return False
        first = pushed(self.tables, best, late=False)
        if self.search.offer(Schedule.of(first.transfers), "lns"):
            return True
        # steps to remove: the ends first, then where least is delivered
        counted = sorted((len(step), t) for t, step in enumerate(first.steps()[:-1]))
        removed = [(first, best.makespan - 1), (pushed(self.tables, first, late=True), 0)]
        for schedule, step in [*removed, *((first, t) for _, t in counted[:4])]:
            self.search.progress(f"lns: {best.makespan - 1} steps?", best.makespan)
            shorter = self._shorter(schedule, step)
            if shorter is not None:
                return self.search.offer(shorter, "lns")
            if self.rlimit <= 0 or self.exhausted:
                self.search.solver_spent = not self.exhausted
                return False
        return False

    def _shorter(self, schedule: Schedule, step: int) -> Schedule | None:
        """A schedule without ``step`` of ``schedule``, looked for in ever larger neighbourhoods of the step."""
        steps = schedule.makespan - 1
        placed, free = without_step(self.tables.problem, schedule, step)
        choice = Neighbourhood(self.tables, schedule, placed, self.rng)
        unanswered = 0
        while unanswered < 2:
            neighbourhood = free | (choice.relays(free) - placed.keys() if placed else choice.everyone())
            ready = first_steps(self.tables, placed, neighbourhood)
            if size(self.tables, steps, neighbourhood, ready) > 40_000:
                return None
            self._stop_if_due()
            model = NeighbourhoodModel(
                self.tables, steps, placed, neighbourhood, ready, self._stop_if_due, self.stop
            )
            for law in model.full():
                model.add(law)
            answer = self._refine(model)
            self.rlimit -= model.clauses.spent
            if isinstance(answer, Schedule):
                return answer
            if self.rlimit <= 0:
                return None
            unanswered += answer is None
            if not placed and answer is not None:
                self.exhausted = True  # everything was free: there is no such schedule
                return None
            added = choice.grown_by(free, answer) or set(placed)
            free = free | added
            placed = {d: place for d, place in placed.items() if d not in added}
        return None

    def _refine(self, model: NeighbourhoodModel) -> Schedule | list[Delivery] | None:
        """CEGIS on one neighbourhood: a schedule, the deliveries to blame, or None when the budget ended first.

        A check may spend 3 million units: a larger neighbourhood is often easier than a hard one."""
        problem = self.tables.problem
        while True:
            self._stop_if_due()
            units = max(1, min(3_000_000, self.rlimit - model.clauses.spent))
            answer = model.check(units, None if self.until is None else self.until - self.search.elapsed())
            if answer == "unknown":
                if model.clauses.timed_out:
                    self.search.clock_decisions.note("lns")
                return None
            if answer == "unsat":
                return model.core()
            proposal = without_useless(problem, model.transfers(), model.steps)
            violations = self.search.oracle(problem, proposal)
            if not violations:
                return proposal
            laws = [law for violation in violations if (law := _law(self.tables, violation)) is not None]
            if not sum(model.add(law) for law in laws):
                raise InternalError(f"the solver broke a law it was told: {violations[0].message}")


def _law(tables: CopyProblem, violation: Violation) -> Law | None:
    """The law that ``violation`` broke, resources as ``tables`` numbers them; None: another one implies it."""
    if violation.kind == "overloaded":
        for r, resource in enumerate(tables.resources):
            if resource.name == violation.resource:
                return Law("capacity", r)
        return None
    if violation.kind == "too-many-peers" and violation.rank is not None:
        return Law("peers", violation.rank)
    if violation.kind == "not-exclusive" and violation.chunk is not None and violation.rank is not None:
        return Law("exclusive", violation.chunk, violation.rank)
    raise InternalError(f"the neighbourhood model allowed what it must not: {violation.message}")
