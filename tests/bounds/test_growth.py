"""The growth bound by hand: how fast a broadcast reaches all servers."""

from __future__ import annotations

import pytest
from support.certificates import recheck
from support.graphs import full, problem, servers

from hetesynth.policy import DEFAULT
from hetesynth.search.bounds.lower import growth_bound


@pytest.mark.parametrize(
    ("sizes", "steps"),
    [
        ([4, 8], 2),  # across and along at once, then the rest
        ([8] * 8, 4),  # 1, 2, 7 servers reached; the last has 8 GPUs behind 4 NICs
        ([4] * 8 + [8] * 4, 4),  # 1, 2, 7 reached; five servers of four cannot all be served in step 3
        ([4] * 2, 2),
    ],
)
def test_servers_reached_in_time(sizes: list[int], steps: int) -> None:
    instance = problem(servers(sizes), "broadcast")
    bound = growth_bound(instance, DEFAULT.bounds)
    assert bound is not None and bound.steps == steps
    recheck(instance, bound)


def test_where_everybody_is_one_link_away_one_step_is_all_it_asks() -> None:
    bound = growth_bound(problem(full(5), "broadcast"), DEFAULT.bounds)
    assert bound is not None and bound.steps == 1


def test_it_is_silent_where_no_chunk_goes_to_everybody() -> None:
    assert growth_bound(problem(full(4), "alltoall"), DEFAULT.bounds) is None
