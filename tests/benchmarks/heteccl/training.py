"""Figure 9 as a model of a training step: published model sizes, compute at a stated rate, simulated allreduces.

In: seconds of an allreduce for each model. Out: seconds of an iteration. What is assumed is in ``ASSUMPTIONS``.
"""

from __future__ import annotations

from dataclasses import dataclass

SEQUENCE = 2048  # tokens: Brown et al. 2020, table 2.1
SEQUENCES = 4  # in a micro-batch: assumed
PEAK = 148e12  # FLOP/s of an H20 with BF16: NVIDIA H20 data sheet
UTILIZATION = 0.45  # assumed
BYTES = 2  # of a value, BF16
ALLREDUCES = 4  # a layer: two forward and two backward, Shoeybi et al. 2019, figure 4

ASSUMPTIONS = (
    "GPT-3 layers and hidden sizes are those of Brown et al. 2020 (table 2.1: 1.3B, 6.7B, 13B) and Narayanan et "
    "al. 2021 (table 1: 18.4B, 39.1B); no source states a model of 45B: 48 layers of 8832 are assumed.",
    "Tensor parallelism over all GPUs, as the paper says; up to 39.1B two H20 servers of 8 (16 GPUs), 45B four "
    "(32). These are equal servers: the paper does not say which servers its 16 and 32 GPUs are in.",
    f"A micro-batch of {SEQUENCES} sequences of {SEQUENCE} tokens; one micro-batch an iteration.",
    "Compute: 72 b s L h^2 (1 + s / 6h) FLOP for forward and backward without recomputation (Narayanan et al. "
    f"2021, less the vocabulary), at {UTILIZATION:.0%} of {PEAK / 1e12:g} TFLOP/s a GPU.",
    f"Communication: {ALLREDUCES} allreduces a layer of b s h values of {BYTES} bytes (Shoeybi et al. 2019), none "
    "hidden behind compute; optimizer and data loading are left out.",
)


@dataclass(frozen=True, slots=True)
class Model:
    """A GPT of ``layers`` and ``hidden`` values, on ``gpus`` GPUs."""

    name: str
    layers: int
    hidden: int
    gpus: int

    @property
    def size(self) -> int:
        """Bytes of one allreduce."""
        return SEQUENCES * SEQUENCE * self.hidden * BYTES

    @property
    def compute(self) -> float:
        """Seconds of arithmetic of an iteration."""
        flops = 72.0 * SEQUENCES * SEQUENCE * self.layers * self.hidden**2 * (1 + SEQUENCE / (6 * self.hidden))
        return flops / (self.gpus * PEAK * UTILIZATION)

    def iteration(self, allreduce: float) -> float:
        """Seconds of an iteration with so many seconds for an allreduce."""
        return self.compute + ALLREDUCES * self.layers * allreduce


MODELS = (
    Model("1.3B", 24, 2048, 16), Model("6.7B", 32, 4096, 16), Model("13B", 40, 5140, 16),
    Model("18.4B", 40, 6144, 16), Model("39.1B", 48, 8192, 16), Model("45B", 48, 8832, 32),
)  # fmt: skip
