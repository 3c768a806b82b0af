"""The cases of the benchmark and what each is to reach.

One row of a table is one command: a cluster, a collective, chunks per rank, and a goal in steps and seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hetesynth.model.collective import CollectiveName

PAPER = {"h20_4p8": 12, "h20_4x2p8": 16, "h20_4x3": 12, "h20_4x3p8": 20, "h20_8x2p4": 20, "h20_4x2p8x2": 24}
SCALE = {
    "h20_16": 16, "h20_32": 32, "h20_48": 48, "h20_64": 64,
    "h20_8x4": 32, "h20_8x6": 48, "h20_8x8": 64, "h20_4x4p8x6": 64,
}  # fmt: skip
V100 = {
    "v100_4p8": 12, "v100_4x2p8": 16, "v100_4x3": 12, "v100_4x3p8": 20, "v100_8x2p4": 20, "v100_4x2p8x2": 24,
    "v100_fail_one4": 11, "v100_fail_one8": 11, "v100_4p8_slow18G": 12, "v100_4p8_slow18G_sharednic": 12,
    "v100_4p8_sharednic": 12, "v100_4p8_all100": 12,
}  # fmt: skip
LARGE = {"h20_8x32": 256, "h20_8x128": 1024, "torus_32x32": 1024, "mesh_32x32": 1024}
GROWTH = {f"h20_8x{servers}": 8 * servers for servers in (2, 4, 8, 16, 32, 64, 128)}

SECTIONS = {
    "paper": "AllGather on the six H20 clusters of HeteCCL",
    "scale": "AllGather from 16 to 64 H20 GPUs",
    "v100": "AllGather on V100 clusters, with failed GPUs and slow servers",
    "large": "AllGather on 256 and 1024 GPUs",
    "reductions": "ReduceScatter and AllReduce",
    "personal": "AllToAll and Broadcast",
    "cold": "A first run after installation: nothing compiled before",
    "growth": "Growth: AllGather on 8-GPU servers",
}

_SCALE_SECONDS = {16: 1.0, 32: 2.0, 48: 3.0, 64: 5.0}
PROGRAM_RANKS = 64  # the largest cluster for which programs are made
MEMORY = 8000.0  # megabytes, for the large clusters


@dataclass(frozen=True, slots=True)
class Goal:
    """Whole-command seconds, peak megabytes, and how far above the bound the steps may be.

    ``extra``: steps over the bound; ``percent``: of the bound; the larger of the two counts. Both None: any gap
    may remain, as long as it is stated.
    """

    seconds: float
    extra: int | None = None
    percent: int | None = None
    megabytes: float | None = None

    def allowed(self, bound: int) -> int | None:
        """The most steps that reach the goal, None when any number does."""
        if self.extra is None and self.percent is None:
            return None
        return max(bound + (self.extra or 0), bound * (100 + (self.percent or 0)) // 100)

    def __str__(self) -> str:
        parts = [f"{self.seconds:g} s"]
        if self.percent is not None:
            least = f" or +{self.extra}" if self.extra else ""
            parts.insert(0, f"bound +{self.percent} %{least}")
        elif self.extra is not None:
            parts.insert(0, f"bound +{self.extra}" if self.extra else "bound")
        if self.megabytes is not None:
            parts.append(f"{self.megabytes / 1000:g} GB")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class Case:
    """One command to measure. ``goal`` is None for points that only show growth."""

    section: str
    cluster: str
    ranks: int
    collective: CollectiveName
    chunks: int
    goal: Goal | None
    limit: float  # seconds from which the search's time budget is taken
    cold: bool = False
    schedule_only: bool = False

    @property
    def name(self) -> str:
        """``h20_4p8 allgather c=1``."""
        return f"{self.cluster} {self.collective} c={self.chunks}"

    @property
    def command(self) -> tuple[str, str, int, float, bool, bool]:
        """What is run: cases that agree in it are measured once."""
        return (self.cluster, self.collective, self.chunks, self.budget, self.schedule_only, self.cold)

    @property
    def budget(self) -> float:
        """Seconds for the search: the rest of the limit is for starting, reading, bounds, programs and judges."""
        return round(0.7 * self.limit, 2)


def all_cases() -> list[Case]:
    """Every case, in the order of the tables; a command that two tables need stands in both."""
    return [*_paper(), *_scale(), *_v100(), *_large(), *_reductions(), *_personal(), *_cold(), *_growth()]


def chosen(patterns: tuple[str, ...]) -> list[Case]:
    """The cases of a run; a pattern is part of ``section: name``, upper and lower case alike."""
    lower_case = [pattern.lower() for pattern in patterns] or [""]
    return [c for c in all_cases() if any(w in f"{c.section}: {c.name}".lower() for w in lower_case)]


def _case(section: str, cluster: str, ranks: int, collective: CollectiveName, chunks: int, goal: Goal) -> Case:
    large = ranks > PROGRAM_RANKS
    return Case(section, cluster, ranks, collective, chunks, goal, goal.seconds, schedule_only=large)


def _paper(collective: CollectiveName = "allgather", section: str = "paper") -> Iterator[Case]:
    for chunks, goal in ((1, Goal(2, 0)), (2, Goal(5, 0)), (4, Goal(10, 1))):
        for cluster, ranks in PAPER.items():
            yield _case(section, cluster, ranks, collective, chunks, goal)


def _scale(collective: CollectiveName = "allgather", section: str = "scale") -> Iterator[Case]:
    for cluster, ranks in SCALE.items():
        yield _case(section, cluster, ranks, collective, 1, Goal(_SCALE_SECONDS[ranks], 0))
    for cluster, ranks in SCALE.items():
        yield _case(section, cluster, ranks, collective, 4, Goal(30, 1, 2))


def _v100(collective: CollectiveName = "allgather", section: str = "v100") -> Iterator[Case]:
    for cluster, ranks in V100.items():
        yield _case(section, cluster, ranks, collective, 1, Goal(10))


def _large() -> Iterator[Case]:
    for cluster, ranks in LARGE.items():
        goal = Goal(10 if ranks <= 256 else 90, percent=3, megabytes=MEMORY)
        yield _case("large", cluster, ranks, "allgather", 1, goal)


def _reductions() -> Iterator[Case]:
    """ReduceScatter is held to AllGather's goals: with one chunk, and on the paper's clusters with more too."""
    yield from _paper("reducescatter", "reductions")
    yield from (c for c in _scale("reducescatter", "reductions") if c.chunks == 1)
    yield from _v100("reducescatter", "reductions")
    for cluster, ranks in (PAPER | SCALE | V100).items():
        yield _case("reductions", cluster, ranks, "allreduce", 1, Goal(10))


def _personal() -> Iterator[Case]:
    collectives: tuple[CollectiveName, ...] = ("alltoall", "broadcast")
    for collective in collectives:
        for cluster, ranks in (PAPER | SCALE | V100).items():
            yield _case("personal", cluster, ranks, collective, 1, Goal(10, percent=5))


def _cold() -> Iterator[Case]:
    for cluster in ("h20_4p8", "h20_4x3", "v100_4p8"):
        yield Case("cold", cluster, 12, "allgather", 1, Goal(2), 2, cold=True)


def _growth() -> Iterator[Case]:
    for cluster, ranks in GROWTH.items():
        limit = next(s for most, s in ((64, 5.0), (256, 10.0), (1024, 90.0)) if ranks <= most)
        yield Case("growth", cluster, ranks, "allgather", 1, None, limit, schedule_only=True)
