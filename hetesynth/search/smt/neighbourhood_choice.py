"""Which deliveries a neighbourhood frees next, and which ranks may relay its chunks.

In: where deliveries are frozen, the schedule they come from, a core. Out: deliveries. Ties are broken at random
from the seed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from functools import cached_property
from random import Random

from hetesynth.model.schedule import Schedule
from hetesynth.policy.smt import SmtPolicy
from hetesynth.search.copy_problem import CopyProblem
from hetesynth.search.smt.neighbourhood_model import Delivery, Place


class Neighbourhood:
    """The neighbourhoods that begin with one step removed from ``schedule``."""

    def __init__(
        self,
        tables: CopyProblem,
        schedule: Schedule,
        placed: Mapping[Delivery, Place],
        rng: Random,
        policy: SmtPolicy,
    ) -> None:
        self.policy = policy
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
        most = max(self.policy.neighbourhood_growth, len(free))
        blamed = list(core or ())
        self.rng.shuffle(blamed)
        added = set(blamed[:most])
        for k, rank in [*free, *added]:
            at = rank
            while (k, at) in self.source:
                added.add((k, at))
                at = self.tables.problem.arcs[self.source[k, at]].src
        added -= free
        lacking = self.policy.neighbourhood_growth - len(added)
        if lacking > 0:
            near = [d for d in self._sharers(blamed or sorted(free)) if d not in free]
            added.update(near[:lacking])
        return added

    def _sharers(self, blamed: list[Delivery]) -> list[Delivery]:
        """Frozen ones on the scarcest resource of each of ``blamed``, in random order."""
        scarce = {
            min(resources, key=lambda r: self.idle[r])
            for d in blamed
            if (resources := self.tables.resources_of[self.source[d]])
        }
        deliveries = [d for r in sorted(scarce) for d in self.users[r]]
        self.rng.shuffle(deliveries)
        return deliveries

    def relays(self, free: set[Delivery]) -> set[Delivery]:
        """Ranks that could pass on what they do not want, where the way around has more room than the direct."""
        return {relay for delivery in sorted(free) for relay in self._ways_around(*delivery)}

    def everyone(self) -> set[Delivery]:
        """Every delivery there could be."""
        problem = self.tables.problem
        starts = enumerate(problem.collective.pre)
        return {(k, rank) for k, pre in starts for rank in range(problem.ranks) if rank not in pre}

    def _ways_around(self, k: int, rank: int) -> list[Delivery]:
        """Through which ranks chunk ``k`` could reach ``rank`` past what is fullest on its way now."""
        problem, of = self.tables.problem, self.tables.resources_of
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
        return [
            (k, middle)
            for room, middle in sorted(detours, reverse=True)[: self.policy.neighbourhood_relays]
            if room > fullest
        ]

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
