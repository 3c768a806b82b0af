"""Servers as strategies see them, and paths through them: the servers of the topology; where it tells none apart,
or every GPU is a server of its own, groups of ranks that wide links join."""

from collections.abc import Mapping, Sequence

from hetesynth.model.problem import Problem
from hetesynth.model.topology import Rank
from hetesynth.search.bounds.regions import partitions
from hetesynth.search.copy_problem import CopyProblem, Load, NoRoute, arcs_between, grouped


class ServerGraph:
    """A problem's ranks and arcs with its servers, and the load of its resources so far."""

    def __init__(self, tables: CopyProblem) -> None:
        self.tables = tables
        self.between: Mapping[tuple[int, int], list[int]] = arcs_between(tables)
        self.load = Load(tables)
        self.servers = servers(tables.problem)
        self.server_of = {r: s for s, ranks in enumerate(self.servers) for r in ranks}

    def arc(self, src: Rank, dst: Rank) -> int | None:
        """Return the least loaded arc from ``src`` to ``dst``, or None."""
        return min(self.between.get((src, dst), ()), key=lambda a: (self.load.after(a), a), default=None)

    def need(self, src: Rank, dst: Rank) -> int:
        """Return the least loaded arc from ``src`` to ``dst``. NoRoute: no link joins the two."""
        arc = self.arc(src, dst)
        if arc is None:
            raise NoRoute(f"no link from rank {src} to rank {dst}")
        return arc

    def take(self, src: Rank, dst: Rank) -> int:
        """Return the least loaded arc from ``src`` to ``dst`` and add a chunk to its load. NoRoute: no link."""
        arc = self.need(src, dst)
        self.load.take(arc)
        return arc

    def bridge(self, sources: Sequence[Rank], targets: Sequence[Rank]) -> int:
        """Return the least loaded arc from ``sources`` to ``targets``. NoRoute: there is none."""
        arcs = [a for u in sources for v in targets for a in self.between.get((u, v), ())]
        if not arcs:
            raise NoRoute(f"no link from ranks {list(sources)} to ranks {list(targets)}")
        return min(arcs, key=lambda a: (self.load.after(a), a))

    def path_through(self, ranks: Sequence[Rank], first: Rank) -> list[int]:
        """Return arcs of a path over all ``ranks`` from ``first``, the least loaded first. NoRoute: none found."""
        arcs, tries = self.tables.problem.arcs, 0
        stack: list[tuple[tuple[Rank, ...], list[int]]] = [((first,), [])]
        while stack:
            seen, path = stack.pop()
            if len(seen) == len(ranks):
                return path
            tries += 1
            if tries <= 20_000:
                steps = [self.arc(seen[-1], to) for to in sorted(set(ranks).difference(seen))]
                onward = sorted((a for a in steps if a is not None), key=lambda a: (self.load.after(a), a))
                stack += [((*seen, arcs[a].dst), [*path, a]) for a in reversed(onward)]
        raise NoRoute(f"no path through ranks {list(ranks)}")


def servers(problem: Problem) -> list[tuple[Rank, ...]]:
    """The servers that the topology tells apart; where it tells none, groups by the width of links."""
    return told_apart(problem.servers) or by_width(problem)


def ring_servers(problem: Problem) -> list[tuple[Rank, ...]]:
    """Return the servers that rings pass in turn; one server, or GPUs that are one each, are a single group."""
    if any(problem.servers):
        return told_apart(problem.servers) or [tuple(range(problem.ranks))]
    return by_width(problem)


def told_apart(names: Sequence[str]) -> list[tuple[Rank, ...]]:
    """Return the ranks of each server in order of appearance; none if there is one, or each has one GPU."""
    members = grouped(names)
    return [tuple(ranks) for ranks in members.values()] if 1 < len(members) < len(names) else []


def by_width(problem: Problem) -> list[tuple[Rank, ...]]:
    """The coarsest groups of ranks that links of some width join; all ranks when there is one such group only."""
    groups = [parts for parts in partitions(problem) if len(parts) < problem.ranks]
    return groups[-1] if groups else [tuple(range(problem.ranks))]
