"""Clusters that nobody tuned for, drawn at random once for each of some seeds, as text of the topology language.

1 to 8 servers of 2 to 16 GPUs, at most 64 together, of one to three types; GPUs in full meshes, on switches, in
rings or on PCIe trees; NICs of unequal rates, own or shared; one fabric, rails, or leaves under an oversubscribed
spine; stated limits and degraded links. The files say what they have.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "data" / "generated"


@dataclass(frozen=True, slots=True)
class GeneratedCluster:
    """A cluster: its name, which tells its sizes and what is special, and its text."""

    name: str
    text: str


def generated_cluster(seed: int) -> GeneratedCluster:
    """The cluster of that seed."""
    (path,) = FOLDER.glob(f"gen{seed:03}_*.dsl")
    return GeneratedCluster(path.stem, path.read_text(encoding="utf-8"))


def generated_clusters(seeds: Iterable[int]) -> tuple[GeneratedCluster, ...]:
    """The clusters of these seeds."""
    return tuple(map(generated_cluster, seeds))
