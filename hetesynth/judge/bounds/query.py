"""Rechecking a solver's query: every assertion must follow from the problem.

In: a copying problem and an unsat witness. Out: nothing when each assertion holds in every schedule of
``steps`` steps, read as send_k_a_t (chunk k leaves over link a in step t), has_k_r_t (rank r holds chunk k before
step t) and met_r_p_1 (rank r sends to peer p; 0: receives from it); ``Refuted`` otherwise. Whether the query is
unsatisfiable is for a solver to say: both together prove that no schedule exists. Transfers that bring a rank
what it has, or has already got, are left out of the schedule first, which keeps it valid; a transfer that takes
longer counts as if it arrived after its first step.
"""

from __future__ import annotations

from collections import defaultdict

from hetesynth.judge.bounds.laws import NEVER, Refuted, demand, hops_over
from hetesynth.judge.bounds.smtlib import AtMost, Clause, assertions
from hetesynth.judge.bounds.symmetry import Symmetries
from hetesynth.model.bound import UnsatWitness
from hetesynth.model.problem import Problem

Place = tuple[int, int, int]  # chunk, link or rank, step; of met: rank, peer, whether it sends
KINDS = ("send", "has", "met")
MAX_QUERY = 256 * 1024 * 1024


def query_steps(problem: Problem, claim: UnsatWitness) -> int:
    """The steps an unsatisfiable query proves to be needed, once it is known to be about the problem."""
    demand(not problem.collective.reduces, "a query must be about a collective that copies")
    demand(claim.steps >= 0, "the number of steps is negative")
    demand(len(claim.query) <= MAX_QUERY, "the query is too large")
    facts = _Facts(problem, claim.steps)
    stated = False
    for assertion in assertions(claim.query):
        stated = True
        if isinstance(assertion, AtMost):
            facts.check_count(assertion)
        else:
            facts.check_clause(assertion)
    demand(stated, "the query asserts nothing")
    return claim.steps + 1


class _Facts:
    """What holds in every schedule of a problem within a number of steps."""

    def __init__(self, problem: Problem, steps: int) -> None:
        self.problem = problem
        self.steps = steps
        self.into: list[list[int]] = [[] for _ in range(problem.ranks)]
        self.beside: list[set[int]] = [set() for _ in range(problem.ranks)]
        for a, arc in enumerate(problem.arcs):
            self.into[arc.dst].append(a)
            self.beside[arc.src].add(arc.dst)
        self.resources_of: dict[int, set[int]] = defaultdict(set)
        for r, resource in enumerate(problem.resources):
            for a in resource.arcs:
                self.resources_of[a].add(r)
        self.symmetries = Symmetries(problem, steps, lambda k, a, t: not self._nothing_to_send(k, a, t))
        self._hops: dict[frozenset[int], list[int]] = {}
        self._places: dict[str, tuple[str, Place]] = {}

    def hops(self, chunk: int) -> list[int]:
        """The first step before which each rank can hold ``chunk``."""
        pre = self.problem.collective.pre[chunk]
        if pre not in self._hops:
            self._hops[pre] = hops_over(self.beside, sorted(pre))
        return self._hops[pre]

    def place(self, name: str) -> tuple[str, Place]:
        """What a variable is about."""
        if name not in self._places:
            kind, *numbers = name.split("_")
            if kind not in KINDS or len(numbers) != 3 or not all(n.isascii() and n.isdigit() for n in numbers):
                raise Refuted(f"the query has a variable that is not about this problem: {name[:40]}")
            first, second, third = (int(n) for n in numbers)
            ranks, chunks = self.problem.ranks, len(self.problem.collective.chunks)
            exists = {
                "send": first < chunks and second < len(self.problem.arcs),
                "has": first < chunks and second < ranks,
                "met": first < ranks and second < ranks and third in (0, 1),
            }[kind]
            demand(exists, f"the query speaks of a chunk, link or rank that does not exist: {name[:40]}")
            self._places[name] = kind, (first, second, third)
        return self._places[name]

    def check_clause(self, clause: Clause) -> None:
        """Refuted unless a law of motion implies ``clause``, or it picks the first of equivalent schedules."""
        yes: dict[str, set[Place]] = {kind: set() for kind in KINDS}
        no: dict[str, set[Place]] = {kind: set() for kind in KINDS}
        for name, positive in clause.literals:
            kind, place = self.place(name)
            (yes if positive else no)[kind].add(place)
        if not (
            any(self._delivered(place) for place in yes["has"])
            or any(self._sent(place, yes["has"], no["has"]) for place in no["send"])
            or any(self._meets(place, yes["met"]) for place in no["send"])
            or any(self._held(place, yes) for place in no["has"])
            or (not clause.literals and self._hopeless())
            or self.symmetries.allow(yes["send"], no["send"])
        ):
            shown = " or ".join(name if positive else f"not {name}" for name, positive in clause.literals[:4])
            raise Refuted(f"the query asserts what does not follow from the problem: {shown or 'false'}")

    def _delivered(self, has: Place) -> bool:
        """Start and end: holders hold from the start, targets at the end."""
        chunk, rank, step = has
        collective = self.problem.collective
        return rank in collective.pre[chunk] or (step >= self.steps and rank in collective.post[chunk])

    def _sent(self, send: Place, has: set[Place], lacks: set[Place]) -> bool:
        """A sender holds, a receiver lacks before and holds after (eq. 2, 3); nobody sends before it can hold."""
        chunk, link, step = send
        arc = self.problem.arcs[link]
        return (
            (chunk, arc.src, step) in has
            or (chunk, arc.dst, step) in lacks
            or (chunk, arc.dst, step + 1) in has
            or self._nothing_to_send(chunk, link, step)
        )

    def _meets(self, send: Place, met: set[Place]) -> bool:
        """Who sends has its receiver for a peer, and the other way round."""
        arc = self.problem.arcs[send[1]]
        return (arc.src, arc.dst, 1) in met or (arc.dst, arc.src, 0) in met

    def _nothing_to_send(self, chunk: int, link: int, step: int) -> bool:
        arc = self.problem.arcs[link]
        too_early = self.hops(chunk)[arc.src] > step
        return too_early or step >= self.steps or arc.dst in self.problem.collective.pre[chunk]

    def _held(self, has: Place, yes: dict[str, set[Place]]) -> bool:
        """What is held was held before or has just arrived (eq. 3); what is held stays."""
        chunk, rank, step = has
        if self.hops(chunk)[rank] > step or (chunk, rank, step + 1) in yes["has"]:
            return True
        before = step - 1
        if step == 0:
            return False
        if self.hops(chunk)[rank] <= before and (chunk, rank, before) not in yes["has"]:
            return False
        return all(
            (chunk, a, before) in yes["send"] or self._nothing_to_send(chunk, a, before) for a in self.into[rank]
        )

    def _hopeless(self) -> bool:
        """Whether some target is farther than the steps reach, so that anything follows."""
        posts = enumerate(self.problem.collective.post)
        return any(self.hops(k)[rank] > self.steps for k, post in posts for rank in sorted(post))

    def check_count(self, count: AtMost) -> None:
        """Refuted unless a law implies it: a resource, single receipt, exclusion (eq. 4, 5; 6; 8), few peers."""
        sends = [self.place(name) for name in count.names]
        places = [place for _, place in sends]
        if len(places) <= count.limit:
            return
        if all(kind == "met" for kind, _ in sends):
            of_one = len({(rank, sending) for rank, _, sending in places}) == 1
            limit = self.problem.max_peers
            demand(
                of_one and limit is not None and count.limit >= limit,
                "the query limits peers as nothing else does",
            )
            return
        demand(all(kind == "send" for kind, _ in sends), "the query counts something that is not sent")
        step = places[0][2]
        demand(all(place[2] == step for place in places), "the query counts sends of different steps together")
        if count.limit >= 1 and self._one_at_a_time(places):
            return
        common: set[int] | None = None
        for link in {place[1] for place in places}:
            resources = self.resources_of[link]
            common = set(resources) if common is None else common & resources
        widths = [self.problem.resources[r].capacity for r in common or ()]
        least = min(widths, default=NEVER)
        shown = ", ".join(count.names[:3])
        demand(count.limit >= least, f"the query limits to {count.limit} what no law of the problem does: {shown}")

    def _one_at_a_time(self, places: list[Place]) -> bool:
        """Eq. 6, and eq. 8 where the problem has it: one chunk to one rank, or from one rank."""
        if len({chunk for chunk, _, _ in places}) > 1:
            return False
        arcs = [self.problem.arcs[link] for _, link, _ in places]
        to_one = len({arc.dst for arc in arcs}) == 1
        return to_one or (self.problem.exclusive_reduction and len({arc.src for arc in arcs}) == 1)
