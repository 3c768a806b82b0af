"""The clusters of the paper's figures, by name."""

from __future__ import annotations

H20 = ("h20_4p8", "h20_4x2p8", "h20_4x3", "h20_4x3p8", "h20_8x2p4", "h20_4x2p8x2")
V100 = {"8a": "v100_4p8", "8b": "v100_4x2p8", "8c": "v100_4x3", "8d": "v100_4x3p8"}
"""By figure. The text names the clusters of 8a, 8c and 8d; that of 8b is not named, and (4x2+8) is assumed."""
SCALE = {16: "h20_16", 32: "h20_32", 48: "h20_48", 64: "h20_64"}
FAILURES = {
    "v100_fail_one4": "one GPU of the 4-GPU server",
    "v100_fail_one8": "one GPU of the 8-GPU server",
    "v100_fail_both": "one GPU of each server",
    "v100_fail_each4": "one GPU of each 4-GPU server",
}
SLOW = {
    "v100_4p8_slow18G": "18 Gbps each NIC",
    "v100_4p8_slow18G_sharednic": "18 Gbps all NICs together",
    "v100_4p8_nic18G": "18 Gbps one of its NICs",
}
NOT_THE_PAPERS = frozenset({"v100_4p8_nic18G"})  # shown beside its figures, not scored: it slows a whole server
HOMOGENEOUS = ("a100_8x2", "a100_8x4")
MIXED_A100 = "a100_4p8"
TRAINING = {16: "h20_8x2", 32: "h20_8x4"}
PODS = "h20_pods/512x8.dsl"
