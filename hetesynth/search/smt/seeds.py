"""The candidate that CEGIS begins with: valid or not (HeteCCL 5.2, algorithm 1, lines 1 to 3).

``greedy``: the paper's GREEDYHEURISTIC (appendix H), one pass that fills each link up to C(u, v) and knows nothing
of shared resources nor of what others send to the same rank. ``flood``: every rank sends all it holds to all who
lack it, whatever the capacities. ``nothing``: no candidate. Or a schedule that is handed in.
"""

from __future__ import annotations

import numpy as np

from hetesynth.model.problem import Problem
from hetesynth.model.schedule import Schedule, Transfer
from hetesynth.search.search import Candidate


def candidate(problem: Problem, seed: Candidate, most_steps: int) -> Schedule | None:
    """The first candidate, of ``most_steps`` steps at most; None: there is none."""
    if isinstance(seed, Schedule):
        return Schedule.of([t for t in seed.transfers if t.end <= most_steps], min(most_steps, seed.makespan))
    if seed == "nothing":
        return None
    # step by step what each link alone can carry, or with no capacity everything
    by_capacity = seed == "greedy"
    collective = problem.collective
    holds = np.zeros((len(collective.chunks), problem.ranks), dtype=np.bool_)
    lacks = np.zeros_like(holds)
    for k, (pre, post) in enumerate(zip(collective.pre, collective.post, strict=True)):
        holds[k, sorted(pre)] = True
        lacks[k, sorted(post - pre)] = True
    transfers: list[Transfer] = []
    step = 0
    while (lacks & ~holds).any() and step < most_steps:
        after = holds.copy()
        for a, arc in enumerate(problem.arcs):
            chunks = np.flatnonzero(holds[:, arc.src] & ~holds[:, arc.dst])
            if by_capacity:
                chunks = chunks[: arc.capacity]
            after[chunks, arc.dst] = True
            transfers += [Transfer(step, step + 1, int(k), a) for k in chunks]
        if (after == holds).all():
            break
        holds = after
        step += 1
    return Schedule.of(transfers, step)
