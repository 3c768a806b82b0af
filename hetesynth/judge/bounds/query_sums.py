"""Rechecking a solver's query about an allreduce: every assertion must hold in every schedule of so many steps.

Read as: ``send_k_a_t`` (chunk k leaves over link a in step t), ``part_k_c_r_t`` (before step t the value of chunk
k at rank r has the contribution of rank c), ``copied_k_r_t`` (in step t a value replaces that of rank r),
``new_k_c_r_t`` (part before step t + 1 and not before step t), ``brings_k_c_a_t`` (chunk k leaves over link a with
the contribution of c), ``met_r_p_1`` (rank r sends to peer p; 0: receives). A message takes one step. Chunks that
start and end alike may be said to be numbered in the order in which they first come to one rank.
"""

from collections import defaultdict
from collections.abc import Iterator

from hetesynth.judge.bounds.laws import NEVER, AtMost, Clause, Refuted, demand, hops_over, is_count, shown
from hetesynth.model.problem import Problem

Fact = tuple[str, tuple[int, ...]]  # a kind and what it is about, as above
Law = tuple[list[Fact], list[Fact]]  # one of the first fails, or one of the second holds
FIELDS = {"send": "kat", "part": "kcrt", "copied": "krt", "new": "kcrt", "brings": "kcat", "met": "rrd"}


class SumFacts:
    """The facts that hold in every schedule of an allreduce within a number of steps."""

    def __init__(self, problem: Problem, steps: int) -> None:
        self.problem, self.steps = problem, steps
        self.into: list[list[int]] = [[] for _ in range(problem.ranks)]
        beside: list[set[int]] = [set() for _ in range(problem.ranks)]
        for a, arc in enumerate(problem.arcs):
            self.into[arc.dst].append(a)
            beside[arc.src].add(arc.dst)
        self.hops = [hops_over(beside, [c]) for c in range(problem.ranks)]
        self.ordered_at: int | None = None  # the rank that the order of chunks is about
        self.resources_of: dict[int, set[int]] = defaultdict(set)
        for r, resource in enumerate(problem.resources):
            for a in resource.arcs:
                self.resources_of[a].add(r)
        self.alike = len(set(problem.collective.ends)) == 1
        self._facts: dict[str, Fact] = {}

    def fact(self, name: str) -> Fact:
        """Return the fact that a variable states. Refuted where it names what does not exist."""
        if name not in self._facts:
            kind, *words = name.split("_")
            fits = len(words) == len(FIELDS.get(kind, "")) and all(map(is_count, words))
            demand(
                fits and kind in FIELDS, f"the query has a variable that is not about this problem: {name[:40]}"
            )
            numbers = tuple(int(n) for n in words)
            chunks, ranks, arcs = len(self.problem.collective.chunks), self.problem.ranks, len(self.problem.arcs)
            ends = {"k": chunks, "c": ranks, "r": ranks, "a": arcs, "t": self.steps + (kind == "part"), "d": 2}
            exists = all(n < ends[field] for n, field in zip(numbers, FIELDS[kind], strict=True))
            demand(exists, f"the query speaks of a chunk, link, rank or step that does not exist: {name[:40]}")
            self._facts[name] = kind, numbers
        return self._facts[name]

    def certain(self, kind: str, *place: int) -> bool | None:
        """Return the truth of a fact where distance, the start or the end decides it; else None."""
        if kind == "part":
            _, c, r, t = place
            if t in (0, self.steps):
                return t > 0 or c == r
            return False if self.hops[c][r] > t else None
        if kind == "new":
            k, c, r, t = place
            never = self.certain("part", k, c, r, t) is True or self.certain("part", k, c, r, t + 1) is False
            return False if never else None
        if kind == "brings":
            k, c, a, t = place
            return False if self.certain("part", k, c, self.problem.arcs[a].src, t) is False else None
        return None

    def check_clause(self, clause: Clause) -> None:
        """Raise Refuted unless ``clause`` has each literal of some law that is not known to fail."""
        said = [(self.fact(name), positive) for name, positive in clause]
        if any(hops > self.steps for row in self.hops for hops in row):
            return  # there is no schedule, so anything holds
        if any(self.certain(kind, *place) is positive for (kind, place), positive in said):
            return
        yes = {fact for fact, positive in said if positive}
        no = {fact for fact, positive in said if not positive}

        def implied(law: Law) -> bool:
            fails, holds = law
            return all(fact in no or self.certain(fact[0], *fact[1]) is True for fact in fails) and all(
                fact in yes or self.certain(fact[0], *fact[1]) is False for fact in holds
            )

        if not any(implied(law) for law in self._laws(yes, no)) and not self._in_order(yes, no):
            raise Refuted(f"the query asserts what does not follow from the problem: {shown(clause)}")

    def _laws(self, yes: set[Fact], no: set[Fact]) -> Iterator[Law]:
        """Yield the laws about the facts that a clause states (``yes``) or denies (``no``)."""
        arcs = self.problem.arcs
        parts = {place[1] for kind, place in yes | no if kind in ("part", "new", "brings")}
        contributions = sorted(parts) or range(self.problem.ranks)
        for fact in sorted(yes | no):
            match fact:
                case "send", (k, a, t):
                    yield from self._message_laws(k, a, t, no)
                    for c in contributions:
                        yield from self._part_laws(k, a, t, c)
                        yield from self._value_laws(k, c, arcs[a].dst, t)
                case "brings", (k, c, a, t):
                    yield from self._part_laws(k, a, t, c)
                    yield from self._value_laws(k, c, arcs[a].dst, t)
                case (("part" | "new"), (k, c, r, t)):
                    for step in (t, t - 1):
                        if 0 <= step < self.steps:
                            yield from self._value_laws(k, c, r, step)
                case "copied", (k, r, t):
                    yield [fact], [("send", (k, a, t)) for a in self.into[r]]
                    # a replacement brings something new
                    yield [fact], [("new", (k, c, r, t)) for c in range(self.problem.ranks)]

    def _message_laws(self, k: int, a: int, t: int, no: set[Fact]) -> Iterator[Law]:
        """Yield the laws of a message: it makes peers, and no other value lands together with a replacement."""
        arc, send = self.problem.arcs[a], ("send", (k, a, t))
        yield [send], [("met", (arc.src, arc.dst, 1))]
        yield [send], [("met", (arc.dst, arc.src, 0))]
        for other in self.into[arc.dst]:
            if other != a and ("send", (k, other, t)) in no:
                yield [send, ("send", (k, other, t)), ("copied", (k, arc.dst, t))], []

    def _part_laws(self, k: int, a: int, t: int, c: int) -> Iterator[Law]:
        """Yield the laws of a contribution in a message: the value had none of it, or is replaced."""
        arc = self.problem.arcs[a]
        send, brings, copied = ("send", (k, a, t)), ("brings", (k, c, a, t)), ("copied", (k, arc.dst, t))
        sent, had, has = (("part", (k, c, *at)) for at in ((arc.src, t), (arc.dst, t), (arc.dst, t + 1)))
        yield [send, sent], [has]
        yield [send, sent, had], [copied]
        yield [send, copied, has], [sent]
        if self.problem.exclusive_reduction:  # nothing else lands
            yield [send, has], [sent, had]
        yield [brings], [send]
        yield [brings], [sent]
        yield [send, sent], [brings]

    def _value_laws(self, k: int, c: int, r: int, t: int) -> Iterator[Law]:
        """Yield the laws of a contribution: it stays until the value is replaced, and comes with a message."""
        had, has, new = ("part", (k, c, r, t)), ("part", (k, c, r, t + 1)), ("new", (k, c, r, t))
        yield [had], [has, ("copied", (k, r, t))]
        yield [new], [has]
        yield [new, had], []
        yield [has], [had, *(("send", (k, a, t)) for a in self.into[r])]
        yield [has], [had, *(("brings", (k, c, a, t)) for a in self.into[r])]

    def _in_order(self, yes: set[Fact], no: set[Fact]) -> bool:
        """Return True if a clause says that a chunk comes to a rank no sooner than the chunk before it."""
        if len(no) != 1 or not self.alike:
            return False
        ((kind, place),) = no
        if kind != "send" or place[0] == 0:
            return False
        k, a, t = place
        rank = self.problem.arcs[a].dst
        if not all(("send", (k - 1, b, u)) in yes for b in self.into[rank] for u in range(t + 1)):
            return False
        if self.ordered_at is None:
            self.ordered_at = rank
        return self.ordered_at == rank

    def check_count(self, count: AtMost) -> None:
        """Raise Refuted unless a law implies ``count``: resource, exclusion (eq. 8), disjoint sums, peers."""
        facts = [self.fact(name) for name in count.names]
        if len(facts) <= count.limit:
            return
        kinds, places = {kind for kind, _ in facts}, [place for _, place in facts]
        demand(len(kinds) == 1, "the query counts different things together")
        if kinds == {"met"}:
            limit = self.problem.max_peers
            of_one = len({(rank, sending) for rank, _, sending in places}) == 1
            demand(
                of_one and limit is not None and count.limit >= limit,
                "the query limits peers as nothing else does",
            )
            return
        demand(kinds <= {"send", "brings"}, "the query counts something that is not sent")
        demand(len({place[-1] for place in places}) == 1, "the query counts sends of different steps together")
        links = {place[-2] for place in places}
        alike = len({place[:-2] for place in places}) == 1  # of one chunk, or one contribution to it
        to_one = alike and len({self.problem.arcs[a].dst for a in links}) == 1
        if count.limit >= 1 and to_one and (kinds == {"brings"} or self.problem.exclusive_reduction):
            return
        demand(kinds == {"send"}, "the query limits contributions as nothing does")
        common = set.intersection(*(self.resources_of[link] for link in links))
        least = min((self.problem.resources[r].capacity for r in common), default=NEVER)
        first = ", ".join(count.names[:3])
        demand(count.limit >= least, f"the query limits to {count.limit} what no law of the problem does: {first}")
