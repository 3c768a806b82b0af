"""``hetesynth topo calibrate``: from files of measurements to a topology that predicts them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from hetesynth.cli.main import run
from hetesynth.topology.language import load_topology

DATA = Path(__file__).resolve().parents[1] / "fitting" / "data"
BOX = """node box {{
  gpus 4
  switch sw {{ ports gpu*; bandwidth {rate}; latency {latency}; kind nvlink }}
}}
cluster c {{ instance a = box }}
"""
GOOD = [(2**e, 2 + 2**e / 400e3) for e in range(10, 30)]


@pytest.fixture
def box(tmp_path: Path) -> Path:
    path = tmp_path / "box.dsl"
    path.write_text(BOX.format(rate="450 GB/s", latency="0.7 us"))
    return path


def calibrated(box: Path, rows: Iterable[tuple[float, float]], *options: str, write: bool = True) -> int:
    """The exit code for a table of bytes and microseconds."""
    table = box.with_name("m.csv")
    table.write_text("size,us\n" + "".join(f"{size},{time:.15f}\n" for size, time in rows))
    return run(["topo", "calibrate", str(box), str(table), *options, *(["-o", str(box)] if write else [])])


def test_a_calibrated_topology_predicts_what_was_measured(
    tmp_path: Path, box: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rings on a slower box, simulated by the program's simulator, stand for the machine."""
    true, prefix = tmp_path / "true.dsl", tmp_path / "ag"
    true.write_text(BOX.format(rate="371 GB/s", latency="1.9 us"))
    assert run(["synth", str(true), "--coll", "allgather", "--strategy", "ring", "-o", str(prefix)]) == 0

    def simulated(topology: Path) -> list[tuple[float, float]]:
        capsys.readouterr()
        options = ["--size", "64KB..1GB", "--no-runtime-costs", "--json"]
        assert run(["simulate", f"{prefix}.schedule.json", str(topology), *options]) == 0
        return [(p["size"], p["predicted_us"]) for p in json.loads(capsys.readouterr().out)["results"]]

    measured = simulated(true)
    assert calibrated(box, measured, "--operation", "allgather", "--ranks", "4", "--start", "0us") == 0
    link = load_topology(box).links[0]
    assert float(link.bandwidth) == pytest.approx(371e9, rel=0.01)
    assert float(link.latency) == pytest.approx(1.9e-6, rel=0.03)
    assert [time for _, time in simulated(box)] == pytest.approx([time for _, time in measured], rel=0.02)


def test_nothing_is_written_without_output_or_in_a_dry_run(
    tmp_path: Path, box: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = box.read_text()
    call = ["topo", "calibrate", str(box), str(DATA / "all_reduce_perf.txt")]
    assert run(call) == 0
    assert "nothing is written" in capsys.readouterr().out
    assert run([*call, "-o", str(box), "--dry-run"]) == 0
    assert box.read_text() == before
    plot = tmp_path / "off.svg"
    assert run([*call, "--plot", str(plot), "--json"]) == 0
    assert plot.read_text().startswith("<svg") and "predicted</text>" in plot.read_text()


def test_a_single_channel_tells_what_a_thread_block_copies(box: Path) -> None:
    assert calibrated(box, [(1 << e, 2.0 + (1 << e) / 30e9 * 1e6) for e in range(16, 28)], "--channels", "1") == 0
    topology = load_topology(box)
    assert {float(rate or 0) for rate in topology.copy_bandwidth} == {30e9}
    assert float(topology.links[0].bandwidth) == 450e9


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["no/such.csv"], "HS840"),
        ([str(DATA / "osu_allgather.txt")], "HS841"),
        ([str(DATA / "all_reduce_perf.txt"), "--class", "pcie"], "HS846"),
        ([str(DATA / "osu_bw.txt"), "--sizes", "2GB..4GB"], "HS848"),
        ([str(DATA / "osu_bw.txt"), "--sizes", "4GB..1KB"], "HS001"),
    ],
)
def test_what_is_refused(box: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], code: str) -> None:
    assert run(["topo", "calibrate", str(box), *arguments]) == 2
    assert code in capsys.readouterr().err


@pytest.mark.parametrize(
    ("rows", "code", "words"),
    [
        ([(2**e, 2 + 2**e / 590e3) for e in range(12, 31)], "HS826", ("590", "450 GB/s", "NVLS")),
        ([(2**e, 2e3 / (e - 10)) for e in range(12, 31)], "HS825", ("times fall",)),
        ([(1024, 1e-9), (1 << 30, 1e-6)], "HS826", ("the fastest point", "line ")),
        (
            [(size, size / 1e12 if size == 2**20 else time) for size, time in GOOD],
            "HS826",
            ("line 12, 1048576 bytes", "450 GB/s at most"),
        ),
    ],
)
def test_impossible_measurements_are_refused(
    box: Path, capsys: pytest.CaptureFixture[str], rows: list[tuple[int, float]], code: str, words: tuple[str, ...]
) -> None:
    assert calibrated(box, rows) == 2
    said = capsys.readouterr().err
    assert [word for word in (code, *words) if word not in said] == []


def test_one_absurdly_slow_point_is_named(box: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert calibrated(box, [(s, time * (1e4 if place == 7 else 1)) for place, (s, time) in enumerate(GOOD)]) == 0
    assert "farthest from the fit" in (said := capsys.readouterr().out) and "line 9, 131072 bytes" in said
    assert float(load_topology(box).links[0].bandwidth) == pytest.approx(400e9, rel=0.01)


@pytest.mark.parametrize(
    ("model", "stated", "measured", "limit"),
    [("H100", 900, 590, "data sheet of H100"), ("A100", 450, 400, "data sheet of A100"), ("H100", 900, 440, "")],
)
def test_the_model_limits_what_is_stated_too_high(
    box: Path, capsys: pytest.CaptureFixture[str], model: str, stated: int, measured: int, limit: str
) -> None:
    text = BOX.format(rate=f"{stated} GB/s", latency="0.7 us").replace("gpus 4", f'model "{model}"\n  gpus 4')
    box.write_text(text)
    rows = [(2**e, 2 + 2**e / measured / 1e3) for e in range(12, 31)]
    assert calibrated(box, rows) == (2 if limit else 0)
    assert limit in (said := capsys.readouterr().err) and (not limit or "HS826" in said)


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        # a rate and an alpha that no link has
        (
            [(2**e, (0.001 + 2**e / 453e3) * (1.01 if e % 2 else 0.99)) for e in range(4, 30)],
            ("rate, 4.53e+11, is more than these links can have", "alpha, "),
        ),
        ([(1024, 2), (1 << 30, 2700)], ("uncertain by any amount",)),
        (
            [(2**e, (2 + 2**e / 200e3) * (1.8 if e % 2 else 0.6)) for e in range(10, 31)] * 20,
            ("the points spread by",),
        ),
    ],
)
def test_what_is_not_sure_is_told_and_not_written(
    box: Path, capsys: pytest.CaptureFixture[str], rows: list[tuple[int, float]], words: tuple[str, ...]
) -> None:
    before = box.read_text()
    assert calibrated(box, rows) == 0
    said = capsys.readouterr().out
    assert [word for word in words if word not in said] == [] and box.read_text() == before
