"""The tools of the machine: fakes on the PATH that answer, fail, hang, print rubbish or do not stop printing."""

from __future__ import annotations

import os
import time
from fractions import Fraction
from pathlib import Path

import pytest
from importers.tool_outputs import IB_FABRIC, listed, topo_m

from hetesynth.cli.main import run
from hetesynth.errors import HetesynthError
from hetesynth.topology.importers.detect import detect, nic_rates_of_ports

TABLE = topo_m(2, ["mlx5_0"], lambda a, b: "NV18" if a[0] == b[0] == "G" else "PIX")
TOOLS = (("a", ("nvidia-smi", "topo", "-m")), ("b", ("rocm-smi", "--showtopo")))


def fake(folder: Path, name: str, script: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return tmp_path


def nvidia_smi(folder: Path) -> None:
    (folder / "table").write_text(TABLE)
    (folder / "list").write_text(listed(2, "NVIDIA H20"))
    fake(folder, "nvidia-smi", f'case "$1" in topo) cat {folder}/table;; -L) cat {folder}/list;; *) exit 9;; esac')


def test_the_machine_becomes_a_topology(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nvidia_smi(path)
    target = path / "here.dsl"
    assert run(["topo", "detect", "--nic-rate", "400Gbps", "-o", str(target)]) == 0
    assert "exit code 9" in capsys.readouterr().err, "nvlink -s failed, which is said"
    assert run(["topo", "show", str(target)]) == 0
    text = target.read_text()
    assert "gpus 2" in text and "25 GB/s x 18" in text and "400 Gbps" in text


def test_with_the_fabric_all_its_hosts_are_alike(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nvidia_smi(path)
    (path / "fabric").write_text(IB_FABRIC)
    fake(path, "ibnetdiscover", f"cat {path}/fabric")
    assert run(["topo", "detect", "--fabric"]) == 0
    out = capsys.readouterr().out
    assert "node01" in out and "node02" in out and "200 Gbps" in out


def test_without_tools_it_says_so(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(path))
    assert run(["topo", "detect"]) == 2
    assert "HS745" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("exit 3", "exit code 3"),
        ("sleep 99 & sleep 99", "no answer"),
        ("yes", "more than"),
        ("head -c 99999999 /dev/zero", "more than"),  # it may end between two looks
        ("exit 0", "nothing"),
    ],
)
def test_a_tool_that_misbehaves_is_passed_over(path: Path, script: str, words: str) -> None:
    fake(path, "nvidia-smi", script)
    endless = words == "no answer"
    with pytest.raises(HetesynthError) as caught:
        detect(TOOLS[:1], 0.2 if endless else 600.0)
    assert caught.value.code == "HS745" and words in caught.value.message
    if not endless:  # the limit is one for all tools
        fake(path, "rocm-smi", "echo text")
        sources, remarks = detect(TOOLS, 600.0)
        assert [source.data for source in sources] == [b"text\n"] and words in remarks[0].text


def test_nothing_that_a_tool_started_is_left(path: Path) -> None:
    fake(path, "nvidia-smi", f"sh -c 'echo $$ > {path}/pid; sleep 600' & sleep 600")
    limit = 0.2
    while not (path / "pid").exists() or not (path / "pid").read_text():  # until it had the time to begin
        with pytest.raises(HetesynthError):
            detect(TOOLS[:1], limit)
        limit *= 2
    pid = int((path / "pid").read_text())
    for _ in range(2000):
        stat = Path(f"/proc/{pid}/stat")
        if not stat.exists() or stat.read_text().split()[2] == "Z":
            return
        time.sleep(0.05)
    os.kill(pid, 9)
    pytest.fail("the child of a tool still runs")


def test_rates_of_ports_by_linux(tmp_path: Path) -> None:
    for name, port, text in (
        ("mlx5_0", "1", "10 Gb/sec (4X SDR)\n"),
        ("mlx5_0", "2", "400 Gb/sec (4X NDR)\n"),
        ("mlx5_1", "1", "2.5 Gb/sec (1X SDR)\n"),
        ("mlx5_2", "1", "?"),
    ):
        folder = tmp_path / name / "ports" / port
        folder.mkdir(parents=True)
        (folder / "rate").write_text(text)
    assert nic_rates_of_ports(tmp_path) == {"mlx5_0": Fraction(50 * 10**9), "mlx5_1": Fraction(2_500_000_000, 8)}
    assert nic_rates_of_ports(tmp_path / "absent") == {}


def test_the_cpus_are_told_beside_gpus_only(path: Path) -> None:
    fake(path, "lscpu", "echo 'Vendor ID: AuthenticAMD'")
    tools = (*TOOLS[:1], ("a", ("lscpu",)))
    with pytest.raises(HetesynthError):
        detect(tools, 5.0)
    nvidia_smi(path)
    assert [source.data for source in detect(tools, 5.0)[0]] == [TABLE.encode(), b"Vendor ID: AuthenticAMD\n"]
