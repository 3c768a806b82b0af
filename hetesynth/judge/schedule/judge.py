"""The first judge: replays a schedule transfer by transfer and says what is wrong with it.

In: a problem and a schedule. Out: violations, none for a good schedule. Knows nothing of how the schedule was
found and uses none of that code. Values are sets of contributing ranks (model/collective.py), so a value added
twice is caught as an overlap and a lost one as an incomplete set.

Laws: capacity of links and groups at every tick (HeteCCL eq. 4, 5), no chunk received twice by a rank of a
copying collective (eq. 6) nor sent to one that holds it (eq. 2), causality (eq. 2, 3), at most one addition
to the same chunk at a rank in a tick where the problem asks for it (eq. 8), no copy landing together with an
addition, delivery (post).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.model.verdict import Violation, ViolationKind
from hetesynth.policy import DEFAULT
from hetesynth.policy.verify import VerifyPolicy

Values = dict[tuple[int, int], int]  # (rank, chunk) -> bit set of the ranks whose input the value holds


def schedule_violations(
    problem: Problem, schedule: Schedule, policy: VerifyPolicy = DEFAULT.verify
) -> list[Violation]:  # fmt: skip
    """Everything wrong with ``schedule``; transfers that name no link or chunk end the check early."""
    if len(schedule.transfers) >= policy.array_transfers and _surely_clean(problem, schedule):
        return []
    malformed = list(_malformed(problem, schedule))
    if malformed:
        return malformed
    return [
        *_overloads(problem, schedule),
        *_not_exclusive(problem, schedule),
        *_undefined_order(problem, schedule),
        *_too_many_peers(problem, schedule),
        *_Replay(problem).run(schedule),
    ]


def _surely_clean(problem: Problem, schedule: Schedule) -> bool:
    from hetesynth.judge.schedule.arrays import surely_clean

    return surely_clean(problem, schedule)


def _malformed(problem: Problem, schedule: Schedule) -> Iterator[Violation]:
    """Transfers over links, or of chunks, that do not exist."""
    for t in schedule.transfers:
        if not 0 <= t.link < len(problem.arcs):
            yield Violation(
                "no-such-link", f"step {t.start}: there is no link {t.link}", step=t.start, link=t.link
            )
        if not 0 <= t.chunk < len(problem.collective.chunks):
            message = f"step {t.start}: there is no chunk {t.chunk}"
            yield Violation("no-such-chunk", message, step=t.start, chunk=t.chunk)
        if t.end > schedule.makespan:
            message = f"chunk {t.chunk}: arrives at {t.end}, after the end of the schedule"
            yield Violation("wrong-tick", message, step=t.start, chunk=t.chunk)


def _overloads(problem: Problem, schedule: Schedule) -> Iterator[Violation]:
    """Eq. 4 and 5: at every tick, no resource carries more chunks than its capacity."""
    load: dict[int, Counter[int]] = defaultdict(Counter)
    for t in schedule.transfers:
        for tick in range(t.start, t.end):
            load[tick][t.link] += 1
    of_arc: dict[int, list[int]] = defaultdict(list)
    for r, resource in enumerate(problem.resources):
        for a in resource.arcs:
            of_arc[a].append(r)
    for tick in sorted(load):
        carried: Counter[int] = Counter()
        for a, count in load[tick].items():
            for r in of_arc[a]:
                carried[r] += count
        for r in sorted(carried):
            resource = problem.resources[r]
            if carried[r] > resource.capacity:
                over = f"{carried[r]} chunks, its capacity is {resource.capacity}"
                message = f"step {tick}: {resource.name} carries {over}"
                yield Violation("overloaded", message, step=tick, resource=resource.name)


def _not_exclusive(problem: Problem, schedule: Schedule) -> Iterator[Violation]:
    """Eq. 8: in one step a rank adds at most one arriving value to the same chunk; in a copying problem, which
    then stands for a reversed reduction, it sends the chunk to at most one peer."""
    if not problem.exclusive_reduction:
        return
    if not problem.collective.reduces:
        sends = Counter((t.start, problem.arcs[t.link].src, t.chunk) for t in schedule.transfers)
        for (start, rank, chunk), count in sorted(sends.items()):
            if count > 1:
                message = f"step {start}: rank {rank} sends chunk {chunk} to {count} peers at once"
                yield Violation("not-exclusive", message, step=start, rank=rank, chunk=chunk)
        return
    additions = Counter((t.end, problem.arcs[t.link].dst, t.chunk) for t in schedule.transfers if t.reduce)
    for (end, rank, chunk), count in sorted(additions.items()):
        if count > 1:
            message = f"step {end - 1}: rank {rank} adds {count} values to chunk {chunk} at once"
            yield Violation("not-exclusive", message, step=end - 1, rank=rank, chunk=chunk)


def _undefined_order(problem: Problem, schedule: Schedule) -> Iterator[Violation]:
    """Copies of a reduction that land together with another value of the same chunk.

    Which of the two stays is not defined. (A copying collective forbids the second arrival anyway.)
    """
    if not problem.collective.reduces:
        return
    landing: dict[tuple[int, int, int], list[Transfer]] = defaultdict(list)
    for t in schedule.transfers:
        landing[t.end, problem.arcs[t.link].dst, t.chunk].append(t)
    for (end, rank, chunk), together in sorted(landing.items()):
        if len(together) > 1 and not all(t.reduce for t in together):
            message = f"step {end - 1}: rank {rank} copies over chunk {chunk} while another value of it arrives"
            yield Violation("not-exclusive", message, step=end - 1, rank=rank, chunk=chunk)


def _too_many_peers(problem: Problem, schedule: Schedule) -> Iterator[Violation]:
    """A rank has at most ``max_peers`` peers to send to, and as many to receive from."""
    if problem.max_peers is None:
        return
    sends_to: dict[int, set[int]] = defaultdict(set)
    receives_from: dict[int, set[int]] = defaultdict(set)
    for t in schedule.transfers:
        arc = problem.arcs[t.link]
        sends_to[arc.src].add(arc.dst)
        receives_from[arc.dst].add(arc.src)
    for verb, peers in (("sends to", sends_to), ("receives from", receives_from)):
        for rank in sorted(peers):
            if len(peers[rank]) > problem.max_peers:
                message = f"rank {rank} {verb} {len(peers[rank])} others, its limit is {problem.max_peers}"
                yield Violation("too-many-peers", message, rank=rank)


class _Replay:
    """The state of every (rank, chunk) as the schedule runs."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.values: Values = {}
        self.complete: list[int] = []
        for k, holders in enumerate(problem.collective.pre):
            self.complete.append(sum(1 << r for r in holders))
            for r in holders:
                self.values[r, k] = 1 << r

    def run(self, schedule: Schedule) -> list[Violation]:
        violations: list[Violation] = []
        departures: dict[int, list[Transfer]] = defaultdict(list)
        arrivals: dict[int, list[tuple[Transfer, int]]] = defaultdict(list)
        for t in schedule.transfers:
            departures[t.start].append(t)
        for tick in range(schedule.makespan + 1):
            for t, value in arrivals.pop(tick, []):
                violations.extend(self._arrive(t, value))
            for t in departures.pop(tick, []):
                source = self.problem.arcs[t.link].src
                value = self.values.get((source, t.chunk), 0)
                if not value:
                    message = f"step {t.start}: rank {source} sends chunk {t.chunk} before it holds it"
                    violations.append(
                        Violation("not-held", message, step=t.start, rank=source, chunk=t.chunk, link=t.link)
                    )
                arrivals[t.end].append((t, value))
        return violations + list(self._undelivered(schedule.makespan))

    def _arrive(self, t: Transfer, value: int) -> Iterator[Violation]:
        rank = self.problem.arcs[t.link].dst
        before = self.values.get((rank, t.chunk), 0)
        kind: ViolationKind | None = None
        if t.reduce and before & value:
            kind, what = "contribution-twice", f"adds to chunk {t.chunk} what it already holds"
        elif not t.reduce and before and before | value == before:
            owner = rank in self.problem.collective.pre[t.chunk]
            kind = "already-held" if owner else "received-twice"
            what = f"receives chunk {t.chunk}, which it already holds"
        if kind is not None:
            message = f"step {t.start}: rank {rank} {what}"
            yield Violation(kind, message, step=t.start, rank=rank, chunk=t.chunk, link=t.link)
        self.values[rank, t.chunk] = before | value if t.reduce else value

    def _undelivered(self, end: int) -> Iterator[Violation]:
        for k, targets in enumerate(self.problem.collective.post):
            for rank in sorted(targets):
                value = self.values.get((rank, k), 0)
                if value == self.complete[k]:
                    continue
                missing = (self.complete[k] & ~value).bit_count()
                lacks = f"{missing} of {self.complete[k].bit_count()} contributions to chunk {k}"
                message = f"after step {end}: rank {rank} lacks {lacks}"
                yield Violation("not-delivered", message, step=end, rank=rank, chunk=k)
