"""What HeteCCL (NSDI 2026) reports, each figure with the sentence that it comes from.

The bars of Figures 6 to 8, 13 and 15 to 17 have no numbers in the text; the text gives ranges over clusters or
buffer sizes, and these are taken. Facts, no behaviour.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from hetesynth.model.collective import CollectiveName

Rival = Literal["NCCL", "TACCL", "TE-CCL"]
SECONDS: dict[int, tuple[str, str, float]] = {
    16: ("30", "2.2", 0.9), 32: ("time-out", "24.7", 6.9), 48: ("time-out", "497", 5.5),
    64: ("time-out", "33990", 105.3),
}  # fmt: skip
"""Table 1: GPUs: seconds of TACCL, TE-CCL and HeteCCL."""


@dataclass(frozen=True, slots=True)
class Claim:
    """How many times as fast as ``rival`` HeteCCL is said to be, from ``least`` to ``most`` over the clusters and
    sizes of a figure; ``least`` None: only the most, or one number, is stated. ``collective`` None: the paper does
    not say which. ``average``: the number is a mean. ``sentence``: its words, with x for the sign."""

    figure: str
    collective: CollectiveName | None
    rival: Rival
    least: float | None
    most: float
    sentence: str
    average: bool = False

    @property
    def numbers(self) -> tuple[float, ...]:
        """Each is one figure of the scorecard."""
        return (self.most,) if self.least is None else (self.least, self.most)


_COMPLETION = "section 6.3, algorithm completion time"
_BANDWIDTH = "section 6.3, algorithm bandwidth"
CLAIMS = (
    Claim("6", "allgather", "NCCL", 1.5, 2.5, f"outperforms NCCL by 1.5x-2.5x ({_COMPLETION})"),
    Claim("6", "allgather", "TE-CCL", 2.0, 2.6, f"TE-CCL by 2x-2.6x ({_COMPLETION})"),
    Claim("6", "allgather", "TACCL", 2.2, 4.4, f"TACCL by 2.2x-4.4x ({_COMPLETION})"),
    Claim("7", "allreduce", "NCCL", 1.2, 2.8, f"improves over NCCL by 1.2x-2.8x ({_COMPLETION})"),
    Claim("7", "allreduce", "TE-CCL", 1.3, 1.5, f"TE-CCL by 1.3x-1.5x ({_COMPLETION})"),
    Claim("7", "allreduce", "TACCL", 1.3, 3.6, f"TACCL by 1.3x-3.6x ({_COMPLETION})"),
    Claim("8a", "allgather", "NCCL", 1.1, 2.3, f"1.1x to 2.3x over NCCL ({_BANDWIDTH})"),
    Claim("8a", "allgather", "TACCL", 1.1, 1.6, f"1.1x to 1.6x over TACCL ({_BANDWIDTH})"),
    Claim("8b", "allgather", "NCCL", 1.4, 2.6, f"outperformed NCCL by 1.4x to 2.6x ({_BANDWIDTH})"),
    Claim(
        "8b", "allgather", "TACCL", None, 1.4, f"on average 1.4x faster than TACCL ({_BANDWIDTH})", average=True
    ),
    Claim("8c", "allgather", "NCCL", 1.17, 1.62, f"17% to 62% better performance than NCCL ({_BANDWIDTH})"),
    Claim("8c", "allgather", "TACCL", 1.04, 1.28, f"4% to 28% improvements over TACCL ({_BANDWIDTH})"),
    Claim("8d", "allgather", "NCCL", None, 2.1, f"outperforms NCCL by 2.1x ({_BANDWIDTH})"),
    Claim("8d", "allgather", "TACCL", None, 1.2, f"TACCL by 1.2x ({_BANDWIDTH})"),
    Claim("8e", "allreduce", "NCCL", None, 1.4, f"outperforms NCCL and TACCL by 1.4x ({_BANDWIDTH})"),
    Claim("8e", "allreduce", "TACCL", None, 1.4, f"outperforms NCCL and TACCL by 1.4x ({_BANDWIDTH})"),
    Claim("8f-h", "allreduce", "NCCL", 1.8, 2.8, f"outperforms NCCL by 1.8x to 2.8x ({_BANDWIDTH})"),
    Claim("8f-h", "allreduce", "TACCL", None, 1.6, f"TACCL by up to 1.6x ({_BANDWIDTH})"),
    Claim("15", None, "TACCL", None, 6.5, "increases bandwidth by up to 6.5x over TACCL (appendix E)"),
    Claim("15", None, "NCCL", None, 3.25, "and 3.25x over NCCL (appendix E)"),
    Claim("16", None, "NCCL", None, 2.61, "2.61x the bandwidth of NCCL (appendix E)"),
    Claim("16", None, "TACCL", None, 1.92, "and 1.92x that of TACCL (appendix E)"),
    Claim("17", None, "TACCL", None, 1.78, "a 1.78x improvement over TACCL (appendix G)"),
    Claim("17", None, "NCCL", None, 1.95, "and a 1.95x improvement over NCCL (appendix G)"),
)
TRAINING: dict[Rival, tuple[float, float]] = {"TACCL": (10, 37), "TE-CCL": (7, 23)}
"""Figure 9: percent by which iterations are shorter, from 1.3B to 45B (section 6.4)."""
