"""Times grow with size, no algorithm without switch reduction passes a line rate, and what was set is used."""

from __future__ import annotations

from pathlib import Path

import pytest

from hetesynth.library.machine import Machine, machine_of
from hetesynth.library.times import library_times
from hetesynth.model.collective import COLLECTIVE_NAMES
from hetesynth.topology.language import load_topology

MACHINES = Path(__file__).resolve().parents[2] / "examples" / "measured"
NAMES = (
    "a100x8", "a100x4", "a100x8_2", "p4d_2", "abci_v_1", "abci_v_8", "h100x8", "h100x8_2", "p5_2", "a3mega_2",
    "b200x8", "b300x8_2", "gb200_nvl72", "mi300x8", "mi300x8_2", "mi325x8_4", "gb10_2",
)  # fmt: skip


def machine(name: str) -> Machine:
    machine = machine_of(load_topology(MACHINES / f"{name}.dsl"))
    assert machine is not None
    return machine


@pytest.mark.parametrize("name", NAMES)
def test_a_time_grows_with_size(name: str) -> None:
    """Of an algorithm with a protocol, at powers of two; between them a kernel may open another channel."""
    of = machine(name)
    for collective in COLLECTIVE_NAMES:
        last: dict[tuple[str, str], tuple[float, float]] = {}
        for power in range(3, 35):
            for time in library_times(of, collective, 1 << power):
                before = last.get((time.algorithm, time.protocol), (0.0, 0.0))
                assert time.expected >= before[1] * (1 - 1e-9), (collective, power, time)
                if time.algorithm != "Tree":  # whose table has shares by size
                    assert time.tabled >= before[0] * (1 - 1e-9), (collective, power, time)
                last[time.algorithm, time.protocol] = time.tabled, time.expected


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_faster_than_its_links(name: str) -> None:
    of = machine(name)
    several = len(of.nodes) > 1
    for collective in COLLECTIVE_NAMES:
        for power in range(3, 35):
            size = 1 << power
            for time in library_times(of, collective, size):
                if time.algorithm in ("NVLS", "NVLSTree"):
                    continue
                received = size * (of.ranks - 1) / of.ranks * (collective not in ("gather", "scatter"))
                if collective == "allreduce":  # a tree receives its parts and the sum; a ring R - 1 parts of both
                    received *= 2
                for node in of.nodes:
                    rate = node.total * (node.gpus / (node.gpus - 1) if several else 1.0) if node.gpus > 1 else 1e9
                    assert received / time.expected <= rate * 1e9 * (1 + 1e-9), (collective, time)
                    if several and collective != "alltoall":
                        least = size * (1.0 if collective == "allreduce" else node.gpus / of.ranks)
                        of_others = least if time.algorithm == "Tree" else least * (1 - node.gpus / of.ranks)
                        if collective not in ("gather", "scatter"):
                            assert of_others / time.expected <= node.nic_line * 1e9 * (1 + 1e-9), (
                                collective,
                                time,
                            )
