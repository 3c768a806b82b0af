"""Servers as a baseline sees them: groups of ranks that wide links join, and ways through them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hetesynth.bounds.regions import partitions
from hetesynth.model.topology import Rank
from hetesynth.synthesis.copy_problem import CopyProblem
from hetesynth.synthesis.routes import Load, NoRoute, arcs_between

MAX_TRIES = 20_000  # partial paths looked at before a path through all ranks is given up


class Ground:
    """A problem's graph with its servers and what its resources carry so far."""

    def __init__(self, tables: CopyProblem) -> None:
        self.tables = tables
        self.between: Mapping[tuple[int, int], list[int]] = arcs_between(tables)
        self.load = Load(tables)
        self.servers = servers(tables)
        self.server_of = {r: s for s, ranks in enumerate(self.servers) for r in ranks}

    def arc(self, src: Rank, dst: Rank) -> int | None:
        """The least loaded arc from ``src`` to ``dst``."""
        return min(self.between.get((src, dst), ()), key=lambda a: (self.load.after(a), a), default=None)

    def need(self, src: Rank, dst: Rank) -> int:
        """The same, or NoRoute when no link joins the two."""
        arc = self.arc(src, dst)
        if arc is None:
            raise NoRoute(f"no link from rank {src} to rank {dst}")
        return arc

    def bridge(self, here: Sequence[Rank], there: Sequence[Rank], avoid: frozenset[Rank] = frozenset()) -> int:
        """The least loaded arc from one group of ranks to another, not from ``avoid``; NoRoute when none is."""
        found = [a for u in here if u not in avoid for v in there for a in self.between.get((u, v), ())]
        if not found:
            raise NoRoute(f"no link from ranks {list(here)} to ranks {list(there)}")
        return min(found, key=lambda a: (self.load.after(a), a))

    def path_through(self, ranks: Sequence[Rank], first: Rank, last: Rank | None) -> list[int]:
        """Arcs of a path over all of ``ranks`` from ``first`` (to ``last``), the least loaded first."""
        tries = 0
        wanted = set(ranks)
        path: list[int] = []
        seen = {first}

        def extend(at: Rank) -> bool:
            nonlocal tries
            tries += 1
            if len(seen) == len(wanted):
                return last is None or at == last
            if tries > MAX_TRIES or (at == last and len(seen) < len(wanted)):
                return False
            steps = [self.arc(at, to) for to in sorted(wanted - seen)]
            for arc in sorted((a for a in steps if a is not None), key=lambda a: (self.load.after(a), a)):
                to = self.tables.problem.arcs[arc].dst
                seen.add(to)
                path.append(arc)
                if extend(to):
                    return True
                path.pop()
                seen.remove(to)
            return False

        if not extend(first):
            raise NoRoute(f"no path through ranks {list(ranks)}")
        return path


def servers(tables: CopyProblem) -> list[tuple[Rank, ...]]:
    """The coarsest groups of ranks that links of some width join; all ranks when there is one such group only."""
    found = [parts for parts in partitions(tables.problem) if len(parts) < tables.problem.ranks]
    return found[-1] if found else [tuple(range(tables.problem.ranks))]
