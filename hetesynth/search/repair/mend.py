"""From an old schedule to one that keeps every law: its trees mended, then every delivery in a step with room.

In: a problem that copies, or an allreduce, and the transfers of an old schedule on its chunks and links. Out:
schedules, shorter and shorter. The first goes by the order of the old starts: no delivery that still holds comes
later than it did for those that were before it. Those that follow push everything late and early again, by turns
(forward-backward improvement; Li and Willis 1992).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.policy.repair import RepairPolicy
from hetesynth.search.copy_problem import CopyProblem
from hetesynth.search.repair.forest import Forest, Loads, Tree, old_trees, under
from hetesynth.search.repair.placing import Task, Tasks


def mended(
    problem: Problem, transfers: Sequence[Transfer], limit: int, policy: RepairPolicy
) -> Iterator[Schedule]:  # fmt: skip
    """Schedules of ``problem`` along the trees of ``transfers``; none where some rank cannot be reached.

    ``limit``: steps that the load of every resource is to fit in.
    """
    tables = CopyProblem(problem)
    forest = Forest(Loads(tables, max(1, limit), policy), old_trees(problem, transfers))
    if not forest.mend():
        return
    ordered = [task for pair in _by_chunk(forest.trees) for task in _tasks(problem, pair)]
    tasks = Tasks(tables, ordered)
    begins = [
        tasks.early([float(task.start) for task in ordered]),
        tasks.early([-float(height) for height in tasks.heights()]),
    ]
    begin = min(begins, key=max) if ordered else []
    yield tasks.schedule(begin)
    for _ in range(policy.justifications):
        late = tasks.late([float(b) for b in begin])
        again = tasks.early([float(b) for b in late])
        if max(again, default=0) >= max(begin, default=0):
            return
        begin = again
        yield tasks.schedule(begin)


def _by_chunk(trees: Sequence[Tree]) -> Iterator[list[Tree]]:
    """The tree of each chunk, or both, inward first."""
    pair: list[Tree] = []
    for tree in trees:
        pair.append(tree)
        if not tree.inward:
            yield pair
            pair = []


def _tasks(problem: Problem, trees: Sequence[Tree]) -> list[Task]:
    """The deliveries of one chunk, senders before receivers. ``start``: that of the old schedule, or the first
    step in which it could go."""
    tasks: list[Task] = []
    ready: dict[int, int] = {}
    for tree in trees:
        from_root = [rank for rank in under(tree.children(problem), sorted(tree.roots)) if rank in tree.arc]
        for rank in reversed(from_root) if tree.inward else from_root:
            arc = problem.arcs[tree.arc[rank]]
            start = max(ready.get(arc.src, 0), tree.start.get(rank, 0))
            ready[arc.dst] = max(ready.get(arc.dst, 0), start + 1)
            tasks.append(Task(tree.chunk, tree.arc[rank], tree.inward, start))
    return tasks
