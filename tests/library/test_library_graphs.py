"""Rings, trees and NVLS heads are those that NCCL's and RCCL's searches give; logs agree where there are some."""

from __future__ import annotations

from pathlib import Path

import pytest

from hetesynth.library.machine import Machine, machine_of
from hetesynth.library.times import chosen, ring_graph
from hetesynth.topology.language import load_topology

MACHINES = Path(__file__).resolve().parents[2] / "examples" / "measured"


def machine(name: str) -> Machine:
    machine = machine_of(load_topology(MACHINES / f"{name}.dsl"))
    assert machine is not None
    return machine


@pytest.mark.parametrize(
    ("name", "channels", "rate", "launched"),
    [
        ("a100x8", 12, 20, 24),
        ("a100x4", 12, 20, 24),
        ("a100x8_2", 8, 24, 16),
        ("p4d_2", 4, 12, 8),
        ("h100x8", 12, 30, 24),
        ("h100x8_2", 8, 48, 16),
        ("b200x8", 16, 45, 32),
        ("gb200_nvl72", 16, 45, 32),
        ("abci_v_1", 6, 20, 12),
        ("abci_v_2", 2, 12, 4),
        ("mi300x8", 56, 6, 112),
        ("mi300x8_2", 56, 6, 64),
    ],
)
def test_rings(name: str, channels: int, rate: float, launched: int) -> None:
    graph = ring_graph(machine(name))
    assert (graph.channels, graph.inside, graph.launched) == (channels, pytest.approx(rate), launched)


@pytest.mark.parametrize(
    ("name", "size", "label"),
    [
        ("h100x8", 1 << 20, "ring, 24 channels, LL"),  # two logs
        ("h100x8", 1 << 21, "NVLS, 16 channels, Simple"),  # the same
        ("h200x4_of_8", 1 << 33, "ring, 24 channels, Simple"),  # published
        ("h200x5_of_8", 1 << 33, "NVLS, 16 channels, Simple"),  # the same
        ("b200x5_of_8", 1 << 33, "ring, 32 channels, Simple"),  # the same
        ("b200x8", 1 << 33, "NVLS, 24 channels, Simple"),  # the same
        ("h100x8_2", 1 << 33, "NVLSTree, 16 channels, Simple"),
        ("p4d_2", 1 << 31, "tree, 8 channels, Simple"),  # 78 GB/s over NICs of 50
        ("a100x8", 1 << 16, "ring, 2 channels, LL"),
        ("mi300x8_2", 1 << 30, "ring, 64 channels, Simple"),
    ],
)
def test_what_is_chosen(name: str, size: int, label: str) -> None:
    assert chosen(machine(name), "allreduce", size).label == label
