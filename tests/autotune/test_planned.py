"""To how many others a rank sends where every chunk is for one rank, and what becomes of the program."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pytest

from hetesynth.engine.choice import steady
from hetesynth.engine.choice.choice import CandidateSpecs, choose
from hetesynth.engine.choice.program_ranking import Ranked
from hetesynth.engine.choice.steady import numbers_of_peers
from hetesynth.engine.request import Request
from hetesynth.judge.schedule.judge import schedule_violations
from hetesynth.model.problem import Budget
from hetesynth.model.target import TARGETS
from hetesynth.model.topology import Topology
from hetesynth.topology.language import load_topology

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def servers(*sizes: int) -> list[str]:
    return [f"s{i}" for i, size in enumerate(sizes) for _ in range(size)]


@pytest.mark.parametrize(
    ("sizes", "blocks", "numbers"),
    [
        ((4, 8), 63, (None,)),  # 11 others: sends and receives to and from all have thread blocks
        ((8, 8, 8, 8), 63, (None, 18)),
        ((8,) * 5, 63, (None, 18)),  # 39 others: they share thread blocks
        ((8,) * 8, 63, (18,)),  # 63 others: not all can share
        ((4,) * 20, 63, (22,)),  # 3 in the server, one of each of 19 others
        ((2,) * 40, 63, (None,)),  # 40 relays are too many as well: as before
        ((8, 8), 20, (None,)),
    ],
)
def test_numbers_of_peers(sizes: tuple[int, ...], blocks: int, numbers: tuple[int | None, ...]) -> None:
    assert numbers_of_peers(servers(*sizes), blocks, 18) == numbers


def test_relays_are_used_where_thread_blocks_do_not_suffice(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 22 thread blocks 24 ranks cannot each send to 23 others, though these share blocks; with 10 peers they
    can."""
    target = replace(TARGETS["portable"], max_thread_blocks=22)
    monkeypatch.setattr(steady, "PEERS", 10)
    path = EXAMPLES / "h20_4x2p8x2" / "topo.dsl"
    request = Request(path, "alltoall", budget=Budget(effort=1.0), targets=(target,))
    topology = load_topology(request.topology)
    best = quickest_in_steady_state(topology, request)
    assert best.candidate.label == "steady-state, c=1, 10 peers" and best.seconds is not None
    problem, schedule = best.candidate.problem, best.candidate.solution.schedule
    assert problem.max_peers is None and not schedule_violations(problem, schedule)
    peers = defaultdict(set)
    for t in schedule.transfers:
        peers[problem.arcs[t.link].src].add(problem.arcs[t.link].dst)
    assert max(map(len, peers.values())) <= 10
    monkeypatch.setattr(steady, "PEERS", 99)
    with pytest.raises(StopIteration):  # to all others at once it does not fit
        quickest_in_steady_state(topology, request)


def quickest_in_steady_state(topology: Topology, request: Request) -> Ranked:
    ranked = choose(CandidateSpecs(topology, request, 1 << 30)).ranked
    return next(r for r in ranked if r.candidate.name == "steady-state")


FAR_APART = """
node centre {
  gpus 2
  link gpu0 <-> gpu1 { bandwidth 50 GB/s; latency 0.7 us }
}

cluster far_apart {
  instance a[0-1] = centre
  link a0.gpu[0-1] <-> a1.gpu[0-1] { bandwidth 12.5 GB/s; latency 250 us; kind wan }
}
"""
