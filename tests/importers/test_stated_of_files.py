"""``--model`` and ``--nic-rate``: what holds where files do not tell, and what is stated of one file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from importers.tool_outputs import IB_FABRIC, amd_smi, listed, topo_m

from hetesynth.cli.main import run
from hetesynth.topology.language import load_topology

NVIDIA = topo_m(4, ["mlx5_0"], lambda a, b: "NV18" if a[0] == b[0] == "G" else "PIX")
DUMP = """<system version="1"><cpu numaid="0" arch="x86_64" vendor="AuthenticAMD" familyid="1" modelid="1">
<pci busid="0000:01:00.0" class="0x030200" vendor="0x10de" device="0x20b2" link_speed="16.0 GT/s PCIe"
 link_width="16"><gpu dev="0" sm="80" rank="0" gdr="1"/></pci>
<pci busid="0000:02:00.0" class="0x020000" link_speed="16.0 GT/s PCIe" link_width="16">
<nic><net name="mlx5_0" dev="0" speed="{speed}" port="1" guid="0x1" maxconn="1" gdr="1"/></nic></pci>
</cpu></system>"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("n1.txt").write_text(NVIDIA + listed(4, "NVIDIA H100 80GB HBM3"))
    Path("n2.json").write_text(json.dumps(amd_smi([[0, 1], [1, 0]])))
    Path("sub").mkdir()
    Path("sub/n3.xml").write_text(DUMP.format(speed=200000))
    Path("n4.xml").write_text(DUMP.format(speed=0))


def imported(*arguments: str) -> tuple[set[str], dict[str, float]]:
    """The models, and the Gb/s of the first NIC of each server."""
    assert run(["topo", "import", *arguments, "-o", "x.dsl"]) == 0
    topology = load_topology("x.dsl")
    rates = {
        topology.vertices[wire.src].server: float(wire.bandwidth * 8 / 10**9)
        for wire in reversed(topology.wires)
        if wire.bandwidth and topology.vertices[wire.src].kind == "nic"
        if topology.vertices[wire.dst].kind != "gpu"
    }
    return {vertex.model for vertex in topology.vertices if vertex.kind == "gpu"}, rates


def test_rates_and_models_of_one_file() -> None:
    """Two vendors in one cluster."""
    stated = ["--model", "n2.json=MI300X", "--model", "n3.xml=A800", "--nic-rate", "100Gbps"]
    files = ["n1.txt", "n2.json", "sub/n3.xml"]
    models, rates = imported(*files, *stated, "--nic-rate", "n1.txt=400Gbps")
    assert models == {"H100", "MI300X", "A800"} and rates == {"n0": 400, "n1": 100, "n2": 200}
    assert imported(*files, *stated, "--nic-rate", "sub/n3.xml=50Gbps")[1] == {"n0": 100, "n1": 100, "n2": 50}


def test_without_a_file_only_what_no_file_tells(capsys: pytest.CaptureFixture[str]) -> None:
    assert imported("sub/n3.xml", "n4.xml", "--nic-rate", "100Gbps")[1] == {"n0": 200, "n1": 100}
    assert "--nic-rate is not used" not in capsys.readouterr().err
    models, rates = imported("sub/n3.xml", "sub/n3.xml*2", "--nic-rate", "100Gbps", "--model", "H20")
    assert models == {"A100"} and set(rates.values()) == {200}
    told = capsys.readouterr().err
    assert "--nic-rate is not used" in told and "--model is not used" in told


@pytest.mark.parametrize(
    ("stated", "code"),
    [(["--model", "n9.txt=H20"], "HS736"), (["--model", "n1.txt=A100", "--model", "n1.txt=H100"], "HS736"),
     (["--model", "H20", "--model", "H100"], "HS736"), (["--model", 'n1.txt="'], "HS736"),
     (["--nic-rate", "n1.txt=fast"], "HS307")],
)  # fmt: skip
def test_wrong_values(stated: list[str], code: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["topo", "import", "n1.txt", *stated, "--nic-rate", "400Gbps"]) != 0
    assert code in capsys.readouterr().err


def test_the_rate_of_a_port_goes_before_what_is_stated_for_all(capsys: pytest.CaptureFixture[str]) -> None:
    table = topo_m(2, ["mlx5_0", "mlx5_1"], lambda a, b: "NV18" if a[0] == b[0] == "G" else "PIX")
    for host in ("node01", "node02"):
        Path(f"{host}.txt").write_text(table + listed(2, "NVIDIA H20"))
    Path("ib.txt").write_text(IB_FABRIC)
    assert set(imported("ib.txt", "node01.txt", "node02.txt", "--nic-rate", "400Gbps")[1].values()) == {200}
    assert "by its dump" not in capsys.readouterr().err


def test_models_of_a_list_of_edges() -> None:
    gpus = [{"id": 0, "server": 0}, {"id": 1, "server": 1, "model": "A100"}]
    links = [{"src": a, "dst": 1 - a, "GBps": 50} for a in (0, 1)]
    Path("edges.json").write_text(json.dumps({"nodes": gpus, "links": links}))
    assert imported("edges.json", "--model", "H20")[0] == {"H20", "A100"}
    assert imported("edges.json", "--model", "edges.json=H20")[0] == {"H20"}
