"""The clusters of the paper's figures: examples, and those that are text made here.

In: a name, the folder of examples. Out: a source in the topology language.
"""

from __future__ import annotations

from pathlib import Path

from benchmarks import clusters

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

_FABRIC = "  fabric ib { join *.nic*; latency 1.3 us }\n"
_TEXTS = {
    "v100_4p8_nic18G": (
        "# V100 (4+8), one NIC of the 4-GPU server at 18 Gbps: HeteCCL, Appendix E, read "
        "differently.\n\nimport v100\n\n"
        "cluster v100_4p8_nic18G {\n  instance a = v100x4 {\n    set nic[0-2] { bandwidth 64 Gbps }\n"
        f"    set nic3 {{ bandwidth 18 Gbps }}\n  }}\n  instance b = v100x8\n{_FABRIC}}}\n"
    ),
    "a100_4p8": (
        "# One 4-GPU and one 8-GPU A100 server: HeteCCL, Appendix G.\n\nimport a100\n\n"
        f"cluster a100_4p8 {{\n  instance a = a100x4\n  instance b = a100x8\n{_FABRIC}}}\n"
    ),
} | {
    f"a100_8x{servers}": (
        f"# {servers} 8-GPU A100 servers: HeteCCL, Appendix D.\n"
        "# Assumed: their number, one fabric.\n\nimport a100\n\n"
        f"cluster a100_8x{servers} {{\n  instance a[0-{servers - 1}] = a100x8\n{_FABRIC}}}\n"
    )
    for servers in (2, 4)
}  # fmt: skip


def source(name: str, examples: Path) -> str:
    """The text of a cluster. HetesynthError HS901: there is none of that name."""
    text = _TEXTS.get(name) or clusters.source(name)
    if text is not None:
        return text
    example = examples / name if name.endswith(".dsl") else examples / name / "topo.dsl"
    if not example.is_file():
        raise clusters.no_example(name, examples)
    return example.read_text(encoding="utf-8")
