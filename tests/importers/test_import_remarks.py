"""What import says is one thing everywhere: in the text, on the terminal, by lint."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest
from support.topology_files import cpu, gpu, peers, system

from hetesynth.cli.main import run
from hetesynth.topology.import_topology import MAX_FILE_BYTES
from hetesynth.topology.language.source import Source
from hetesynth.topology.lint import lint


def imported(tmp_path: Path, data: bytes, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """The text and what was printed beside it."""
    (tmp_path / "x.xml").write_bytes(data)
    assert run(["topo", "import", str(tmp_path / "x.xml"), "--net", "none", "-o", str(tmp_path / "x.dsl")]) == 0
    return (tmp_path / "x.dsl").read_text(), capsys.readouterr().err


@pytest.mark.parametrize(
    ("pairs", "doubtful"),
    [({(0, 1): 4, (2, 3): 4, (0, 2): 1, (1, 3): 2}, False), ({(0, 1): 4, (2, 3): 4, (0, 2): 1}, False),
     ({(0, 1): 2, (1, 2): 2, (2, 3): 2, (0, 3): 1}, False), ({(0, 1): 1, (1, 2): 1, (0, 2): 1, (2, 3): 1}, True)],
)  # fmt: skip
def test_unequal_links_are_a_wiring_or_a_warning(
    pairs: dict[tuple[int, int], int], doubtful: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """MI250X: half of the GPUs have a link less than the others. One among many is doubtful."""
    counts: dict[int, dict[int, int]] = {i: {} for i in range(4)}
    for (a, b), count in pairs.items():
        counts[a][b] = counts[b][a] = count
    gpus = [gpu(i, peers(i, counts[i], "xgmi", "0x038000")) for i in range(4)]
    text, told = imported(tmp_path, system(cpu(0, *gpus)), capsys)
    assert ("# suspicious: GPUs of" in text) == doubtful == ("warning: GPUs of" in told)
    assert "different numbers of links" in text


DUAL = """node box { gpus 2; nic nic[0-1] { bandwidth 100 Gbps }
  pcie slot { ports nic[0-1]; bandwidth 15.75 GB/s; latency 0.3 us }
  cpu cpu0 { ports gpu[0-1]; bandwidth 31.5 GB/s; port slot 15.75 GB/s; latency 0.3 us }
  pcie other { ports OTHER; bandwidth 15.75 GB/s; latency 0.3 us } }
cluster c { instance n = box }
"""


def test_lint_leaves_the_slot_of_two_ports_alone() -> None:
    """It limits them as soon as there is a second server. A switch beside it is idle all the same."""

    def codes(text: str) -> list[str]:
        return [f.code + f.message for f in lint(Source("<text>", text))[0]]

    alone = DUAL.replace("  pcie other { ports OTHER; bandwidth 15.75 GB/s; latency 0.3 us } }", "}")
    assert codes(alone) == []
    assert [code[:5] for code in codes(DUAL.replace("OTHER", "gpu0"))] == ["HS245"]
    two = alone.replace("instance n = box", "instance n[0-1] = box; fabric net { join *.nic0; latency 1 us }")
    assert "`n0.nic1`, `n1.nic1`: no link" in "".join(codes(two))


def test_standard_input_that_is_too_long_is_not_cut(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    long = io.TextIOWrapper(io.BytesIO(b" " * (MAX_FILE_BYTES + 1)))
    monkeypatch.setattr(sys, "stdin", long)
    assert run(["topo", "import", "-"]) == 2
    assert "error[HS737]: cannot read -: it is too large" in capsys.readouterr().err
