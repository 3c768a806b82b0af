"""What is near a window: whom to free next, and who might help as a relay.

In: where deliveries are frozen, the schedule they come from, a core. Out: deliveries. Takes chances with the seed.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from functools import cached_property
from random import Random

from hetesynth.model.schedule import Schedule
from hetesynth.synthesis.copy_problem import CopyProblem
from hetesynth.synthesis.smt.neighbourhood_model import Delivery, Place

LEAST_GROWTH = 8  # deliveries by which a window grows at least
RELAYS = 4  # ranks that may pass a free chunk on although they do not want it


class Neighbourhood:
    """Of the windows that begin with one step cut out of ``schedule``."""

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

    def wider(self, free: set[Delivery], core: list[Delivery] | None) -> set[Delivery]:
        """What to free next: what the core blames, what draws from the same resources, and what leads there."""
        most = max(LEAST_GROWTH, len(free))
        blamed = list(core or ())
        self.rng.shuffle(blamed)
        chosen = set(blamed[:most])
        for k, rank in [*free, *chosen]:
            at = rank
            while (k, at) in self.source:
                chosen.add((k, at))
                at = self.tables.problem.arcs[self.source[k, at]].src
        chosen -= free
        if len(chosen) < LEAST_GROWTH:
            near = [d for d in self._sharers(blamed or sorted(free)) if d not in free]
            chosen.update(near[: LEAST_GROWTH - len(chosen)])
        return chosen

    def _sharers(self, deliveries: list[Delivery]) -> list[Delivery]:
        """Frozen ones on the scarcest resource of each of ``deliveries``, in random order."""
        scarce = {
            min(resources, key=lambda r: self.idle[r])
            for d in deliveries
            if (resources := self.tables.resources_of[self.source[d]])
        }
        found = [d for r in sorted(scarce) for d in self.users[r]]
        self.rng.shuffle(found)
        return found

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
        source, here = problem.arcs[link].src, set(of[link])
        wanted = problem.collective.post[k] | problem.collective.pre[k]
        fullest = max(0, min((self.idle[r] for r in here), default=problem.arcs[link].capacity))
        ways: list[tuple[int, int]] = []
        for middle in range(problem.ranks):
            first, second = self.roomiest.get((source, middle)), self.roomiest.get((middle, rank))
            if middle in wanted or first is None or second is None:
                continue
            others = {*of[first], *of[second]} - here  # what both ways use does not tell them apart
            ways.append((min((self.idle[r] for r in others), default=fullest), middle))
        return [(k, middle) for room, middle in sorted(ways, reverse=True)[:RELAYS] if room > fullest]

    @cached_property
    def roomiest(self) -> dict[tuple[int, int], int]:
        """For each pair of ranks, the link between them that has most left."""
        found: dict[tuple[int, int], int] = {}
        room = [min((self.idle[r] for r in of), default=0) for of in self.tables.resources_of]
        for a, arc in enumerate(self.tables.problem.arcs):
            known = found.setdefault((arc.src, arc.dst), a)
            if room[a] > room[known]:
                found[arc.src, arc.dst] = a
        return found
