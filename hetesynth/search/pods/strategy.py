"""Composition on the flat problem, in steps: routes between pods and inside them, then list scheduling.

In: a search over a copying problem whose chunks each start at one rank and are for all. Chunks go around a ring of
pods, or by doubling, from one rank of a pod to one of the next over the least loaded link; inside a pod each
goes on along the tree that the pod's own allgather has for the rank at which it enters. Pods that are alike are
solved once. For clusters that are small enough for their links to be listed; ``compose`` is for others.
"""

from collections.abc import Sequence
from dataclasses import replace

from hetesynth.model.problem import Arc, Problem, Resource, Segment
from hetesynth.model.topology import Rank
from hetesynth.policy import Policy
from hetesynth.search.collectives import collective
from hetesynth.search.copy_problem import CopyProblem, Load, arcs_between, grouped
from hetesynth.search.greedy.greedy import STRATEGY as GREEDY
from hetesynth.search.list_scheduling import list_schedule
from hetesynth.search.pods.gates import doubling, ring
from hetesynth.search.search import Search, Strategy
from hetesynth.search.solve import Solution, Solver

Trees = dict[Rank, tuple[int, ...]]  # for each rank of a pod, the arcs by which its chunk reaches the others


def pod_ranks(problem: Problem) -> list[list[Rank]]:
    """The ranks of each pod: of one instance of the cluster, whose name is the first part of a server's."""
    return list(grouped(server.partition(".")[0] for server in problem.servers).values())


def refuses(problem: Problem, policy: Policy) -> str | None:
    """Return the reason why ``problem`` is not composed; None if it is."""
    pods = pod_ranks(problem)
    if len(pods) < 2:
        return "the cluster has one instance, so there is nothing to compose"
    if problem.collective.name != "allgather":
        return f"{problem.collective.name} is not composed"
    between = {(arc.src, arc.dst) for arc in problem.arcs}
    for mine, others in ((p, q) for p in pods for q in pods if p is not q):
        lonely = next((u for u in mine if not any((u, v) in between for v in others)), None)
        if lonely is not None:
            return f"rank {lonely} has no link to the pod of rank {others[0]}"
    return None


def improve(search: Search) -> None:
    """Offer the schedules of a ring and of doubling between pods, along trees inside each."""
    problem = search.problem
    pods = pod_ranks(problem)
    trees = _trees(search, pods)
    if trees is None:
        return
    tables = CopyProblem(problem)
    pod_of = {rank: p for p, ranks in enumerate(pods) for rank in ranks}
    origins: list[list[int]] = [[] for _ in pods]  # the chunks that start in each pod, one of each rank in turn
    for chunk in sorted(problem.collective.chunks, key=lambda chunk: (chunk.part, chunk.index)):
        origins[pod_of[min(problem.collective.pre[chunk.index])]].append(chunk.index)
    counts, order = [len(chunks) for chunks in origins], range(len(pods))
    blocks = [(sum(counts[:p]), counts[p]) for p in order]  # positions count the chunks of pod after pod
    chunk_at = [k for chunks in origins for k in chunks]
    for name, rounds in (("ring", ring(blocks, order, max(counts))), ("doubling", doubling(blocks, order))):
        load, between = Load(tables), arcs_between(tables)
        routes: list[list[int]] = []
        at: dict[tuple[int, int], Rank] = {}  # pod, chunk -> where it entered
        for k, (origin,) in enumerate(problem.collective.pre):
            at[pod_of[origin], k] = origin
            routes.append([*trees[pod_of[origin]][origin]])
        for move in (move for moves in rounds for move in moves):
            for k in chunk_at[move.first : move.first + move.chunks]:
                src = at[move.src, k]
                arcs = [a for dst in pods[move.dst] for a in between.get((src, dst), ())]
                arc = min(arcs, key=lambda a: (load.after(a), a))
                load.take(arc)
                entry = at[move.dst, k] = problem.arcs[arc].dst
                routes[k] += [arc, *trees[move.dst][entry]]
        schedule = list_schedule(tables, routes, lambda: search.budget.strict_deadline and search.out_of_time())
        if schedule is not None:
            search.offer(schedule, f"composition, {name}")


def _trees(search: Search, pods: Sequence[Sequence[Rank]]) -> list[Trees] | None:
    """Return for each pod the trees of its own allgather; None if the search inside one finds none."""
    budget = search.budget.part(0.5)
    solver = Solver(GREEDY, budget, search.oracle, search.progress, search.policy)
    solved: dict[Problem, Solution | None] = {}
    trees: list[Trees] = []
    for ranks in pods:
        if len(ranks) == 1:
            trees.append({ranks[0]: ()})
            continue
        inside, arcs = _inside(search.problem, ranks)
        if inside not in solved:
            answer = solver.solve(inside)
            solved[inside] = answer if isinstance(answer, Solution) else None
        solution = solved[inside]
        if solution is None:
            return None
        of_rank: dict[Rank, tuple[int, ...]] = dict.fromkeys(ranks, ())
        for t in solution.schedule.transfers:
            of_rank[ranks[t.chunk]] += (arcs[t.link],)
        trees.append(of_rank)
    return trees


def _inside(problem: Problem, ranks: Sequence[Rank]) -> tuple[Problem, list[int]]:
    """Return an allgather inside the pod of ``ranks``, and the arc of ``problem`` that each of its arcs is."""
    number = {rank: i for i, rank in enumerate(ranks)}
    arcs = [a for a, arc in enumerate(problem.arcs) if arc.src in number and arc.dst in number]
    local = {a: i for i, a in enumerate(arcs)}
    crossed = sorted({s for a in arcs for s in problem.arcs[a].segments})
    segment_of = {s: i for i, s in enumerate(crossed)}
    segments = []
    for i, segment in enumerate(problem.segments[s] for s in crossed):
        src, dst = (number.setdefault(vertex, len(number)) for vertex in (segment.src, segment.dst))
        segments.append(Segment(src, dst, segment.capacity, f"{i}"))
    inner = (
        Arc(number[arc.src], number[arc.dst], arc.capacity, tuple(segment_of[s] for s in arc.segments))
        for arc in (problem.arcs[a] for a in arcs)
    )
    members = [(tuple(local[a] for a in group.arcs if a in local), group.capacity) for group in problem.groups]
    groups = ((used, capacity) for used, capacity in members if used)
    inside = replace(
        problem,
        ranks=len(ranks),
        vertices=len(number),
        collective=collective("allgather", len(ranks), 1),
        segments=tuple(segments),
        arcs=tuple(inner),
        groups=tuple(Resource(f"group {i}", used, capacity) for i, (used, capacity) in enumerate(groups)),
        servers=(),
    )
    return inside, arcs


STRATEGY = Strategy("composition", improve, refuses)
