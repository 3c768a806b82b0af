"""Which file a call runs: the rule of each runtime, written once more from its source, against ours."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from support.deployments import cell, deployment, program

from hetesynth.deploy.folder.cells import ProgramFile, check_selection
from hetesynth.errors import HetesynthError
from hetesynth.model.target import target

BLOCKS = {"allgather": 8, "reducescatter": 8, "alltoall": 8}


def rccl_takes(p: ProgramFile, collective: str, count: int, element: int, in_place: bool) -> bool:
    """As mscclInternalSchedulerSelectAlgo does; ``count`` is that of the call."""
    multiplier = BLOCKS.get(collective, 1)
    size = count * element * multiplier
    valid = count > 0 and (count * multiplier) % p.chunks == 0 and size >= p.min_bytes
    valid = valid and (p.max_bytes == 0 or size <= p.max_bytes)
    return valid and p.collective == collective and (p.in_place if in_place else p.out_of_place)


@pytest.mark.parametrize("collective", ["allgather", "allreduce", "scatter"])
def test_the_rule_is_that_of_rccl(collective) -> None:
    rng = random.Random(collective)
    programs = [
        program(f"{n}.xml", collective, low, high, plan=False, chunks=chunks, in_place=in_place)
        for n, (low, high, chunks, in_place) in enumerate(
            [(0, 4095, 8, False), (4096, 0, 24, False), (0, 0, 16, True), (0, 1000, 1, True)]
        )
    ]
    taken = 0
    for _ in range(3000):
        count, element, in_place = rng.randrange(1, 3000), rng.choice((1, 2, 4, 8)), rng.random() < 0.5
        whole = count * element * (8 if collective in (*BLOCKS, "gather", "scatter") else 1)
        fitting = [p for p in programs if (p.in_place if in_place else p.out_of_place) and p.fits(whole, element)]
        names = [p.name for p in programs if rccl_takes(p, collective, count, element, in_place)]
        taken += bool(names)
        assert [p.name for p in fitting] == names
    assert 300 < taken < 3000


@pytest.mark.parametrize("collective", ["allgather", "reducescatter", "gather", "alltoall"])
@pytest.mark.parametrize("plan", [False, True])
def test_multiples_of_the_unit_always_fit(collective, plan: bool) -> None:
    for chunks in (1, 3, 7, 40):
        one = program("p", collective, 0, 0, plan=plan, chunks=1 if plan else chunks)
        one = replace(one, input_chunks=chunks, output_chunks=2 * chunks) if plan else one
        for element in (1, 2, 4, 8):
            for n in (1, 2, 5):
                assert one.fits(n * one.unit, element)


@pytest.mark.parametrize("runtime", ["rccl-6", "mscclpp"])
def test_two_cells_for_the_same_calls_are_refused(runtime: str) -> None:
    one, other = cell(runtime, "allgather", 1000, 5000), cell(runtime, "allgather", 5000, 9000)
    with pytest.raises(HetesynthError) as caught:
        deployment(runtime, one, other)
    assert caught.value.code == "HS870" and one.name in caught.value.message
    deployment(runtime, one, cell(runtime, "allgather", 5001, 9000))


def test_roots_are_kept_apart_by_plans_only() -> None:
    def cells(runtime: str):
        return [
            replace(c, name=f"{c.name}, root {n}")
            for n in (0, 1)
            for c in [cell(runtime, "broadcast", 1, 0, root=n)]
        ]

    for runtime, code in (("rccl-6", "HS870"), ("mscclpp", None)):
        rows = [
            (c.name, [replace(p, title=f"{p.title}{n}", name=f"{n}{p.name}") for p in c.programs])
            for n, c in enumerate(cells(runtime))
        ]
        if code is None:
            check_selection(rows, target(runtime))
        else:
            with pytest.raises(HetesynthError) as caught:
                check_selection(rows, target(runtime))
            assert caught.value.code == code
