"""Overlapping phases: an allreduce sends each chunk as soon as it can, and not when a phase begins.

In: a schedule of reductions to one rank and copies from there, phase after phase. Out: the same transfers over the
same links in order, each as soon as what it carries is there and its resources have room: a chunk that is complete
early is copied while others are still added up. Then all are placed backwards in time and forwards again (Li and
Willis 1992), while that saves steps.
"""

from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule
from hetesynth.search.copy_problem import CopyProblem
from hetesynth.search.list_scheduling import Task, Tasks
from hetesynth.search.search import Search


def overlapped(problem: Problem, schedule: Schedule) -> Schedule:
    """Return ``schedule`` with its phases overlapping, in as many steps or fewer."""
    transfers = schedule.transfers
    tasks = Tasks(CopyProblem(problem), [Task(t.chunk, t.link, t.reduce, t.start) for t in transfers])
    kept = [t.start for t in transfers]
    begin = tasks.early(kept)
    while max(begin, default=0) < max(kept, default=0):
        kept, begin = begin, tasks.early(tasks.late(begin))
    return tasks.schedule(kept)


def improve(search: Search) -> None:
    """Offer the best schedule with its phases overlapping."""
    if search.best is not None:
        search.offer(overlapped(search.problem, search.best), "overlap")
