"""``hetesynth topo calibrate``: from files of measurements to a topology that predicts them."""

from __future__ import annotations

import json
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


@pytest.fixture
def box(tmp_path: Path) -> Path:
    path = tmp_path / "box.dsl"
    path.write_text(BOX.format(rate="450 GB/s", latency="0.7 us"))
    return path


def test_a_calibrated_topology_predicts_what_was_measured(
    tmp_path: Path, box: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rings on a slower box, simulated by the program's simulator, stand for the machine."""
    true, prefix = tmp_path / "true.dsl", tmp_path / "ag"
    true.write_text(BOX.format(rate="371 GB/s", latency="1.9 us"))
    assert run(["synth", str(true), "--coll", "allgather", "--strategy", "ring", "-o", str(prefix)]) == 0
    simulate = [f"{prefix}.schedule.json", "--size", "64KB..1GB", "--no-runtime-costs", "--json"]
    capsys.readouterr()
    assert run(["simulate", simulate[0], str(true), *simulate[1:]]) == 0
    measured = [(p["size"], p["predicted_us"]) for p in json.loads(capsys.readouterr().out)["results"]]
    table = tmp_path / "m.csv"
    table.write_text("size,us\n" + "".join(f"{size},{time}\n" for size, time in measured))
    options = ["--operation", "allgather", "--ranks", "4", "--start", "0us", "-o", str(box)]
    assert run(["topo", "calibrate", str(box), str(table), *options]) == 0
    link = load_topology(box).links[0]
    assert float(link.bandwidth) == pytest.approx(371e9, rel=0.01)
    assert float(link.latency) == pytest.approx(1.9e-6, rel=0.03)
    capsys.readouterr()
    assert run(["simulate", simulate[0], str(box), *simulate[1:]]) == 0
    predicted = [p["predicted_us"] for p in json.loads(capsys.readouterr().out)["results"]]
    assert predicted == pytest.approx([time for _, time in measured], rel=0.02)


def test_nothing_is_written_without_output_or_in_a_dry_run(
    tmp_path: Path, box: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = box.read_text()
    measurements = str(DATA / "all_reduce_perf.txt")
    assert run(["topo", "calibrate", str(box), measurements]) == 0
    assert "nothing is written" in capsys.readouterr().out
    assert run(["topo", "calibrate", str(box), measurements, "-o", str(box), "--dry-run"]) == 0
    assert box.read_text() == before
    plot = tmp_path / "off.svg"
    assert run(["topo", "calibrate", str(box), measurements, "--plot", str(plot), "--json"]) == 0
    assert plot.read_text().startswith("<svg") and plot.read_text().count("<circle") == 10


def test_a_single_channel_tells_what_a_thread_block_copies(box: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = "".join(f"{size},{2.0 + size / 30e9 * 1e6}\n" for size in (1 << e for e in range(16, 28)))
    table = box.with_name("one.csv")
    table.write_text("size,us\n" + rows)
    assert run(["topo", "calibrate", str(box), str(table), "--channels", "1", "-o", str(box)]) == 0
    topology = load_topology(box)
    assert {float(rate or 0) for rate in topology.copy_bandwidth} == {30e9}
    assert float(topology.links[0].bandwidth) == 450e9


def test_held_out_sizes_are_predicted(box: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = box.with_name("t.csv")
    table.write_text("size,us\n" + "".join(f"{1 << e},{3 + (1 << e) / 40e3}\n" for e in range(10, 26)))
    assert run(["topo", "calibrate", str(box), str(table), "--hold-out", "2", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert sum(not p["fitted"] for p in document["points"]) == 8
    assert document["mean_off_predicted"] < 1e-3


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["no/such.csv"], "HS840"),
        ([str(DATA / "osu_allgather.txt")], "HS841"),
        ([str(DATA / "all_reduce_perf.txt"), "--class", "pcie"], "HS846"),
        ([str(DATA / "all_reduce_perf.txt"), "--algorithm", "direct"], "HS843"),
        ([str(DATA / "all_gather_perf.txt")], "HS844"),
        ([str(DATA / "osu_bw.txt"), "--sizes", "2GB..4GB"], "HS848"),
        ([str(DATA / "osu_bw.txt"), "--sizes", "4GB"], "HS001"),
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
    ],
)
def test_impossible_measurements_are_refused(
    tmp_path: Path,
    box: Path,
    capsys: pytest.CaptureFixture[str],
    rows: list[tuple[int, float]],
    code: str,
    words: tuple[str, ...],
) -> None:
    table = tmp_path / "m.csv"
    table.write_text("size,us\n" + "".join(f"{size},{time:.12f}\n" for size, time in rows))
    assert run(["topo", "calibrate", str(box), str(table), "-o", str(box)]) == 2
    said = capsys.readouterr().err
    assert code in said and all(word in said for word in words)


GOOD = [(2**e, 2 + 2**e / 400e3) for e in range(10, 30)]


@pytest.mark.parametrize("at", [0, 10, 19])
def test_one_impossible_point_among_good_ones_is_refused(
    tmp_path: Path, box: Path, capsys: pytest.CaptureFixture[str], at: int
) -> None:
    rows = [(size, size / 1e12 if place == at else time) for place, (size, time) in enumerate(GOOD)]
    table = tmp_path / "m.csv"
    table.write_text("# measured\nsize,us\n" + "".join(f"{size},{time:.15f}\n" for size, time in rows))
    assert run(["topo", "calibrate", str(box), str(table), "-o", str(box)]) == 2
    said = capsys.readouterr().err
    assert "HS827" in said and f"line {at + 3}, {rows[at][0]} bytes" in said and "450 GB/s at most" in said


def test_one_absurdly_slow_point_is_named(tmp_path: Path, box: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "m.csv"
    rows = [(size, time * (1e4 if place == 7 else 1)) for place, (size, time) in enumerate(GOOD)]
    table.write_text("size,us\n" + "".join(f"{size},{time:.6f}\n" for size, time in rows))
    assert run(["topo", "calibrate", str(box), str(table), "-o", str(box)]) == 0
    assert "farthest from the fit" in (said := capsys.readouterr().out) and "line 9, 131072 bytes" in said
    assert float(load_topology(box).links[0].bandwidth) == pytest.approx(400e9, rel=0.01)


@pytest.mark.parametrize(
    ("model", "stated", "measured", "limit"),
    [("H100", 900, 590, "18 NVLinks of H100"), ("A100", 450, 400, "12 NVLinks of A100"), ("H100", 900, 440, "")],
)
def test_the_model_limits_what_is_stated_too_high(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], model: str, stated: int, measured: int, limit: str
) -> None:
    path, table = tmp_path / "box.dsl", tmp_path / "m.csv"
    box = BOX.format(rate=f"{stated} GB/s", latency="0.7 us").replace("gpus 4", f'model "{model}"\n  gpus 4')
    path.write_text(box)
    table.write_text("size,us\n" + "".join(f"{2**e},{2 + 2**e / measured / 1e3}\n" for e in range(12, 31)))
    assert run(["topo", "calibrate", str(path), str(table), "-o", str(path)]) == (2 if limit else 0)
    assert limit in (said := capsys.readouterr().err) and (not limit or "HS826" in said)


def test_an_nvls_run_given_as_net_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An allreduce on 16 GPUs whose bytes would need 73.8 GB/s of each of eight 400 Gbps NICs."""
    path, table = tmp_path / "two.dsl", tmp_path / "all_reduce.csv"
    path.write_text("import h100\ncluster c { instance a[0-1] = h100x8; fabric f { join *.nic* } }\n")
    rate = 73.8e9 * 8
    rows = [(2**e, 30 + 2**e * 2 * 15 / 16 / rate * 1e6) for e in range(16, 34)]
    table.write_text("size,us\n" + "".join(f"{size},{time}\n" for size, time in rows))
    options = ["--class", "net", "--operation", "allreduce", "--ranks", "16", "--start", "0us", "-o", str(path)]
    before = path.read_text()
    assert run(["topo", "calibrate", str(path), str(table), *options]) == 2
    said = capsys.readouterr().err
    assert "HS826" in said and "net@50GB/s carries 50 GB/s at most" in said and "NVLS" in said
    assert path.read_text() == before


def test_a_rate_or_alpha_that_no_link_has_is_not_written(
    tmp_path: Path, box: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "m.csv"
    rows = [(2**e, (0.001 + 2**e / 453e3) * (1.01 if e % 2 else 0.99)) for e in range(4, 30)]
    table.write_text("size,us\n" + "".join(f"{size},{time:.9f}\n" for size, time in rows))
    before = box.read_text()
    assert run(["topo", "calibrate", str(box), str(table), "-o", str(box)]) == 0
    said = capsys.readouterr().out
    assert "rate is above the 450 GB/s" in said and "no alpha of 0.001 us" in said
    assert box.read_text() == before


def test_two_points_state_no_interval_and_write_nothing(
    tmp_path: Path, box: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "m.csv"
    table.write_text("size,us\n1024,2\n1073741824,2700\n")
    assert run(["topo", "calibrate", str(box), str(table), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["figures"]["rate"]["error"] is None
    assert any("no interval" in remark for remark in shown["remarks"])
    assert run(["topo", "calibrate", str(box), str(table), "-o", str(box)]) == 0
    assert "450 GB/s" in box.read_text()


def test_a_wide_spread_is_told_and_not_written(
    tmp_path: Path, box: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "m.csv"
    rows = [(2**e, (2 + 2**e / 200e3) * (1.8 if e % 2 else 0.6)) for e in range(10, 31)] * 20
    table.write_text("size,us\n" + "".join(f"{size},{time}\n" for size, time in rows))
    assert run(["topo", "calibrate", str(box), str(table), "-o", str(box)]) == 0
    assert "the points spread by" in capsys.readouterr().out
    assert "450 GB/s" in box.read_text()
