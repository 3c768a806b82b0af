"""From an old schedule to one that keeps every law: its trees mended, then every delivery as early as possible.

In: a problem that copies, or an allreduce, and the transfers of an old schedule on its chunks and links. Out:
schedules, one for each rule of which delivery goes first. In the order of the old starts no delivery that still
holds comes later than it did, whatever was added: what is placed before it was before it in the old schedule, or
fills room that this left (serial schedule generation; Kolisch 1996).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.policy.repair import RepairPolicy
from hetesynth.synthesis.copy_problem import CopyProblem
from hetesynth.synthesis.repair.forest import Forest, Loads, Tree, old_trees, under
from hetesynth.synthesis.steady.carried import Delivery, EarliestSteps


def mended(
    problem: Problem, transfers: Sequence[Transfer], limit: int, policy: RepairPolicy
) -> Iterator[Schedule]:  # fmt: skip
    """Schedules of ``problem`` along the trees of ``transfers``; none where some rank cannot be reached.

    ``limit``: steps that the load of every resource is to fit in.
    """
    forest = Forest(Loads(CopyProblem(problem), max(1, limit), policy), old_trees(problem, transfers))
    if not forest.mend():
        return
    deliveries = [d for pair in _by_chunk(forest.trees) for d in _deliveries(problem, pair)]
    last = max((d.order for d in deliveries), default=0)
    orders = (
        lambda d: (d.order, -d.height, d.chunk, d.arc),  # as the old schedule did
        lambda d: (-d.height, d.order, d.chunk, d.arc),  # what has the longest path behind it first
        lambda d: (max(d.order, last + 1 - d.height), -d.height, d.chunk, d.arc),  # what can wait, later
    )
    for order in orders:
        yield Schedule.of(EarliestSteps(problem).placed(sorted(deliveries, key=order)))


def _by_chunk(trees: Sequence[Tree]) -> Iterator[list[Tree]]:
    """The tree of each chunk, or both, inward first."""
    pair: list[Tree] = []
    for tree in trees:
        pair.append(tree)
        if not tree.inward:
            yield pair
            pair = []


def _deliveries(problem: Problem, trees: Sequence[Tree]) -> list[Delivery]:
    """Of one chunk. ``order``: the step of the old schedule, or the first in which it could go; ``height``:
    deliveries on the longest path from here on."""
    ordered: list[tuple[Tree, int]] = []  # senders before receivers
    for tree in trees:
        from_root = [rank for rank in under(tree.children(problem), sorted(tree.roots)) if rank in tree.arc]
        ordered += [(tree, rank) for rank in (reversed(from_root) if tree.inward else from_root)]
    ready: dict[int, int] = {}
    order: list[int] = []
    for tree, rank in ordered:
        arc = problem.arcs[tree.arc[rank]]
        step = max(ready.get(arc.src, 0), tree.start.get(rank, 0))
        order.append(step)
        ready[arc.dst] = max(ready.get(arc.dst, 0), step + 1)
    behind: dict[int, int] = {}
    deliveries: list[Delivery] = []
    for (tree, rank), step in zip(reversed(ordered), reversed(order), strict=True):
        arc = problem.arcs[tree.arc[rank]]
        height = behind.get(arc.dst, 0) + 1
        if tree.inward:
            behind[arc.src] = height
        else:
            behind[arc.src] = max(behind.get(arc.src, 0), height)
        deliveries.append(Delivery(tree.chunk, tree.arc[rank], tree.inward, height, step))
    return deliveries[::-1]
