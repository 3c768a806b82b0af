"""Mistakes that operators make in topology files: each is found, with the figure that is wrong and a way out."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path

import pytest

from hetesynth.errors import HetesynthError
from hetesynth.model.diagnostics import Diagnostic
from hetesynth.topology.import_topology import ImportTopologyRequest, import_topology
from hetesynth.topology.importers.reading import ReadOptions
from hetesynth.topology.language.source import Source
from hetesynth.topology.lint import lint


def server(
    model: str = "H100", inside: str = "450 GB/s", nic: str = "400 Gbps", attach: str = "", gpus: int = 8
) -> str:
    """A node type `box` with NVSwitch and a NIC for each GPU."""
    last = gpus - 1
    behind = f" {{ bandwidth {attach} }}" if attach else ""
    return (
        f'node box {{ model "{model}"; gpus {gpus}\n'
        f"switch nvswitch {{ ports gpu[0-{last}]; bandwidth {inside}; latency 0.9 us; kind nvlink }}\n"
        f"nic nic[0-{last}] {{ bandwidth {nic} }}\nattach gpu[0-{last}] -> nic[0-{last}]{behind} }}\n"
    )


def mesh(model: str, link: str, nic: str = "100 Gbps", gpus: int = 4) -> str:
    return server(model, nic=nic, gpus=gpus).replace(
        f"switch nvswitch {{ ports gpu[0-{gpus - 1}]; bandwidth 450 GB/s; latency 0.9 us; kind nvlink }}",
        f"mesh gpu[0-{gpus - 1}] {{ bandwidth {link}; latency 0.7 us }}",
    )


def two(more: str = "") -> str:
    return f"cluster c {{ instance a[0-1] = box; fabric ib {{ join *.nic*; latency 1.3 us {more} }} }}\n"


def rails(servers: str, more: str = "") -> str:
    return f"cluster c {{ {servers} {more} }}\n"


EIGHT_RAILS = "instance a[0-3] = box\n"
SWAPPED = (
    "fabric rail0 { join a[0-2].nic0, a3.nic1 } fabric rail1 { join a[0-2].nic1, a3.nic0 }\n"
    "fabric rail[2-7] { join a*.nic[2-7] }"
)
LEAVES = "cluster c { instance a[0-3] = box; fabric leaf0 { join a[0-1].nic* } fabric leaf1 { join a[2-3].nic* }\n"
TWO_LANES = "link gpu0 <-> gpu1 { bandwidth 25 GB/s x 2; kind nvlink }\n"
RING = (
    'node box { model "V100"; gpus 4; ring gpu[0-3] { bandwidth 25 GB/s x 2; kind nvlink }\n'
    "nic nic[0-3] { bandwidth 100 Gbps } attach gpu[0-3] -> nic[0-3] MORE }\n"
)

NAMED = {  # the nine of the report
    "both directions of H100 together": server(inside="900 GB/s") + two(),
    "A100 with NVLink of H100": server("A100", nic="200 Gbps") + two(),
    "50 Gbps for 50 GB/s": server(nic="50 Gbps") + two(),
    "a NIC of 800 Gbps behind PCIe 4": server("B200", "900 GB/s", "800 Gbps", "31.5 GB/s") + two(),
    "a NIC of 800 Gbps behind two lanes": server("B200", "900 GB/s", "800 Gbps", "3.94 GB/s") + two(),
    "a fabric with the rate of a NIC": server() + two("; bandwidth 50 GB/s"),
    "a pair linked twice": RING.replace("MORE", TWO_LANES) + two(),
    "rails swapped on one server": server() + rails(EIGHT_RAILS, SWAPPED),
    "spine ports narrower than leaves": server() + LEAVES + "switch spine { ports leaf*; bandwidth 50 GB/s } }",
}  # fmt: skip

MINE = {
    "a GPU without its NIC": server().replace("gpu[0-7] -> nic[0-7]", "gpu[0-6] -> nic[0-6]").replace(
        "nic nic[0-7]", "nic nic[0-6]"
    ) + two(),
    "one NIC on another's rail": server() + rails(
        EIGHT_RAILS,
        "fabric rail0 { join a*.nic0, a3.nic1 } fabric rail1 { join a[0-2].nic1 }\n"
        "fabric rail[2-7] { join a*.nic[2-7] }",
    ),
    "NVLink of one pair for all": mesh("H100", "25 GB/s x 18; kind nvlink", "400 Gbps", 8) + two(),
    "an oversubscription upside down": server() + (
        "cluster c { instance a[0-3] = box\n"
        "leafspine L { join a*.nic*; servers 2; spines 2; oversubscription (1/4) } }"
    ),
    "a link to a spine in one direction": server() + LEAVES + (
        "switch s0 { ports leaf*; bandwidth 400 GB/s } switch s1 { ports leaf0; bandwidth 400 GB/s }\n"
        "link leaf1 -> s1 { bandwidth 400 GB/s } }"
    ),
    "a fabric at sixteen to one": server() + LEAVES.replace(
        "fabric leaf0 {", "fabric leaf0 { bandwidth 50 GB/s;"
    ) + "switch spine { ports leaf*; bandwidth 800 GB/s } }",
    "the way back takes ten times as long": RING.replace("ring", "mesh").replace(
        "mesh gpu[0-3] { bandwidth 25 GB/s x 2;",
        "link gpu[0-2] -> gpu[1-3] { bandwidth 50 GB/s; latency 0.7 us }\n"
        "link gpu[1-3] -> gpu[0-2] { bandwidth 50 GB/s; latency 7 us;",
    ).replace("MORE", "") + two(),
    "trays of a rack without its NVSwitch":
        "import gb200\ncluster c { instance a[0-1] = gb200_tray; fabric ib { join *.nic* } }",
    "a server left out of the fabric": server() + (
        "cluster c { instance a[0-2] = box; fabric ib { join a[0-1].nic*, a2.nic[0-6] } }"
    ),
}  # fmt: skip


def findings(text: str) -> list[Diagnostic]:
    return lint(Source("<text>", text))[0]


@pytest.mark.parametrize("name", [*NAMED, *MINE])
def test_mistakes_are_found(name: str) -> None:
    assert findings((NAMED | MINE)[name])


def test_a_good_server_of_each_model_is_clean() -> None:
    """What the mistakes begin with, in the data sheet's figures and in those that libraries count."""
    for model, rates, nic in (
        ("H100", ("450 GB/s", "370.8 GB/s", "478.1 GB/s", "400 GB/s"), "400 Gbps"),
        ("H200", ("450 GB/s",), "400 Gbps"),
        ("H800", ("200 GB/s", "164.8 GB/s"), "400 Gbps"),
        ("A100-SXM4-80GB", ("300 GB/s", "240 GB/s", "25 GB/s x 12"), "200 Gbps"),
        ("A100", ("300 GB/s",), "100 Gbps"),
        ("A800", ("200 GB/s",), "200 Gbps"),
        ("V100", ("150 GB/s", "120 GB/s", "125 GB/s"), "100 Gbps"),
        ("B200", ("900 GB/s", "721.8 GB/s"), "800 Gbps"),
        ("an accelerator of next year", ("3600 GB/s",), "1600 Gbps"),
    ):
        for rate in rates:
            text = server(model, rate, nic) + two()
            assert not findings(text), (model, rate)
    for model, link in (
        ("V100", "25 GB/s x 2; kind nvlink"),
        ("A100", "25 GB/s x 4"),
        ("L40S", "24 GB/s; kind pcie"),
    ):
        text = mesh(model, link, "100 Gbps" if model == "V100" else "200 Gbps") + two()
        assert not findings(text), model


# what is there and must not be told
POWER = (
    'node box { model "V100"; gpus 4; link gpu[0,2] <-> gpu[1,3] { bandwidth 75 GB/s; kind nvlink }\n'
    "cpu cpu0 { ports gpu[0-1], nic0; bandwidth 75 GB/s; kind KIND }\n"
    "cpu cpu1 { ports gpu[2-3]; bandwidth 75 GB/s; kind KIND }\n"
    "upi cpu0 <-> cpu1 { bandwidth 32 GB/s } nic nic0 { bandwidth 100 Gbps } }\n"
)
RIGHT = {
    "NVLink of V100 to POWER9": POWER.replace("KIND", "nvlink") + two(),
    "NVLink-C2C to Grace": POWER.replace("KIND", "c2c") + two(),
    "four lanes of PCIe 3 beside sixteen of PCIe 4":
        'node box { model "A10"; gpus 4; nic nic0 { bandwidth 25 Gbps }\n'
        "cpu cpu0 { ports gpu[0-1]; bandwidth 31.5 GB/s; port nic0 3.9375 GB/s }\n"
        "cpu cpu1 { ports gpu[2-3]; bandwidth 31.5 GB/s } upi cpu0 <-> cpu1 { bandwidth 16 GB/s } }\n" + two(),
    "MI50 by its data sheet": mesh("MI50", "46 GB/s; kind xgmi").replace("mesh gpu", "ring gpu") + two(),
    "MI355X by its data sheet": mesh("MI355X", "76.8 GB/s; kind xgmi", "400 Gbps", 8) + two(),
    "p5":
        "import h100\n"
        "cluster c { instance a[0-1] = h100x8(nics = 32, rate = 100 Gbps); fabric f { join *.nic* } }",
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_machines_that_there_are_are_not_told(name: str) -> None:
    assert not findings(RIGHT[name])


@pytest.mark.parametrize(
    "slow",
    [
        "degrade a0.nvswitch to 50 GB/s", "degrade *.gpu* to 10 %", "degrade a0.nic* to 50 Gbps",
        "set a1.nic* { bandwidth 50 Gbps }", "degrade ib to 5 %", "without a0.gpu7", "down a0.gpu3 -> a0.nic3",
    ],
)  # fmt: skip
def test_slow_on_purpose_is_not_told(slow: str) -> None:
    fabric = "fabric ib { join *.nic*; bandwidth 800 GB/s }"
    text = server() + f"cluster c {{ instance a[0-1] = box; {fabric} {slow} }}\n"
    assert not findings(text)


# what is told of real files: where, and why it is right
TOLD = {
    ("rccl__topo_4p3l", "HS253"): "a NIC of 10 Gbps stands in a slot of one lane of the first generation",
    ("rccl__topo_4p3l", "HS241"): "the same slot: 0.25 GB/s, which its import warns of too",
    ("rccl__topo_4p4h", "HS253"): "NICs of 200 Gbps stand in slots of PCIe 3, which carry 126",
    ("nvsmi__a100_h100_compact_spacing", "HS252"): "one of its tables is of A100, while the model given is H100",
}
MODELS = {  # of tables that do not name them
    "nvsmi__2gpu_variants": "RTX 3090", "nvsmi__dgx1_v100_mlx5_cols": "V100", "nvsmi__gb200_4gpu_8nic": "GB200",
    "nvsmi__k80_legacy_SOC_legend": "K80", "nvsmi__a100_h100_compact_spacing": "H100",
}  # fmt: skip
SKELETONS = {
    "aws__topology_p4d-24xl-topo": "a100x8", "azure__topology_ndv4-topo": "a100x8",
    "azure__topology_ndv5-topo": "h100x8", "azure__topology_ndv2-topo": "v100x8",
}  # fmt: skip
DATA = Path(
    os.environ.get("HETESYNTH_CONFORMANCE", Path(__file__).resolve().parents[2].parent / "shared" / "data")
)
REAL = [
    path
    for pattern in ("nccl_topo/*.xml", "topologies/*.json", "smi/*.txt")
    for path in sorted(DATA.glob(pattern))
    if path.parent.name != "smi" or path.stem in MODELS
]


@pytest.mark.parametrize("path", REAL, ids=lambda path: path.stem)
def test_of_real_files_only_what_is_explained_is_told(path: Path) -> None:
    options = ReadOptions(
        node_type=SKELETONS.get(path.stem, ""),
        model=MODELS.get(path.stem, ""),
        nic_rate=Fraction(12_500_000_000) if path.stem in MODELS else None,
    )
    try:
        text = import_topology(ImportTopologyRequest((str(path),), options=options)).text
    except HetesynthError as error:
        assert path.stem.endswith("graph_dump") and error.code == "HS732"
        return
    warned = {(path.stem, finding.code) for finding in findings(text)}
    assert warned == {told for told in TOLD if told[0] == path.stem}
