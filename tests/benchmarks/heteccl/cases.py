"""What is measured for the page: syntheses by steps, programs by time, compositions of pods.

Out: cases. Each is one process; what it says is an object of JSON with the fields that ``measuring.py`` names.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from benchmarks.heteccl import clusters
from benchmarks.heteccl.training import MODELS
from hetesynth.model.collective import CollectiveName

Table = Literal["Table 1", "flood", "chunks", "eq. 8", "6-7", "8", "9", "13", "15", "16", "17", "section 7"]
KB, MB, GB = 10**3, 10**6, 10**9
H20_SIZES = (16 * MB, GB)
V100_SIZES = (4 * MB, 128 * MB, 2 * GB)  # the paper's span, and one between
FLOOD_MOST = 24  # GPUs up to which a flood is repaired
BOTH: tuple[CollectiveName, ...] = ("allgather", "allreduce")


@dataclass(frozen=True, slots=True)
class SynthesisCase:
    """A search for the fewest steps. ``first``: what CEGIS begins with."""

    table: Table
    cluster: str
    collective: CollectiveName
    chunks: int
    strategy: str
    first: str = "greedy"

    @property
    def name(self) -> str:
        """For patterns and the journal."""
        how = f"{self.strategy} from {self.first}" if self.strategy == "cegis" else self.strategy
        return f"{self.table}: {self.cluster} {self.collective} c={self.chunks} {how}"


@dataclass(frozen=True, slots=True)
class ProgramCase:
    """The default command's program at sizes, the rings and the models of the others."""

    table: Table
    cluster: str
    collective: CollectiveName
    sizes: tuple[int, ...]

    @property
    def name(self) -> str:
        """For patterns and the journal."""
        return f"{self.table}: {self.cluster} {self.collective} {','.join(map(str, self.sizes))}"


@dataclass(frozen=True, slots=True)
class CompositionCase:
    """The whole command on a cluster of pods."""

    table: Table
    cluster: str
    collective: CollectiveName

    @property
    def name(self) -> str:
        """For patterns and the journal."""
        return f"{self.table}: {self.cluster} {self.collective}"


Case = SynthesisCase | ProgramCase | CompositionCase


def all_cases() -> tuple[Case, ...]:
    """Every case in the order of the page."""
    return (*_syntheses(), *_programs(), *_compositions())


def chosen(patterns: tuple[str, ...]) -> tuple[Case, ...]:
    """Those with a pattern in their name; all without patterns."""
    return tuple(c for c in all_cases() if not patterns or any(p in f"{c.name}$" for p in patterns))


def _syntheses() -> Iterator[Case]:
    for cluster in clusters.SCALE.values():
        yield SynthesisCase("Table 1", cluster, "allgather", 1, "cegis")
        yield SynthesisCase("Table 1", cluster, "allgather", 1, "auto")
    flooded = (*clusters.H20, *(name for ranks, name in clusters.SCALE.items() if ranks <= FLOOD_MOST))
    for cluster in flooded:
        yield SynthesisCase("flood", cluster, "allgather", 1, "cegis", "flood")
    for chunks in (1, 2, 4):
        for cluster in clusters.H20:
            yield SynthesisCase("chunks", cluster, "allgather", chunks, "cegis")
    reductions: tuple[CollectiveName, ...] = ("reducescatter", "allreduce")
    for collective in reductions:
        for cluster in clusters.H20:
            yield SynthesisCase("eq. 8", cluster, collective, 1, "auto")


def _programs() -> Iterator[Case]:
    for collective in BOTH:
        for cluster in clusters.H20:
            yield ProgramCase("6-7", cluster, collective, H20_SIZES)
    for collective in BOTH:
        for cluster in clusters.V100.values():
            yield ProgramCase("8", cluster, collective, V100_SIZES)
    for gpus, cluster in clusters.TRAINING.items():
        sizes = tuple(model.size for model in MODELS if model.gpus == gpus)
        yield ProgramCase("9", cluster, "allreduce", sizes)
    others: tuple[tuple[Table, tuple[str, ...]], ...] = (
        ("13", clusters.HOMOGENEOUS), ("15", tuple(clusters.FAILURES)), ("16", tuple(clusters.SLOW)),
        ("17", (clusters.MIXED_A100,)),
    )  # fmt: skip
    for table, names in others:
        for cluster in names:
            for collective in BOTH:
                yield ProgramCase(table, cluster, collective, (GB,))


def _compositions() -> Iterator[Case]:
    for collective in BOTH:
        yield CompositionCase("section 7", clusters.PODS, collective)
