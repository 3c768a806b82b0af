"""Logs of nccl-tests as launchers, releases and failed runs leave them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hetesynth.errors import HetesynthError
from hetesynth.topology.calibrate.calibrate_topology import CalibrationRequest, calibrate
from hetesynth.topology.calibrate.readers import Series, read_file, read_measurements

ROOT = Path(__file__).resolve().parents[2]
REPORTS = Path(os.environ.get("HETESYNTH_CONFORMANCE", ROOT.parent / "shared" / "data")) / "reports4"
SIZES = [1 << power for power in range(20, 31)]

NEW = "#       size         count      type   redop    root" + 2 * "     time   algbw   busbw #wrong"
OLD = "#       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error"
OLDEST = "#       size         count    type   redop    time   algbw   busbw     time   algbw   busbw"


def log(
    ranks: int,
    share: float,
    *,
    header: str = NEW,
    name: str = "",
    prefix: str = "",
    wrong: tuple[int, ...] = (),
    devices: int = 0,
    bus: float = 200e9,
) -> bytes:
    """A log of both places, ``share`` being bus over algorithm bandwidth; rows of sizes in ``wrong`` are wrong."""
    lines = [
        f"# {name}",
        *(f"#  Rank {i:2} Group  0 Pid 7 on node0 device {i} [0x1b] NVIDIA A100" for i in range(devices)),
    ]
    lines += [header, "#        (B)    (elements)                     (us)  (GB/s)  (GB/s)"]
    for size in SIZES:
        microseconds = size * share / bus * 1e6 + 20
        algorithm = size / microseconds / 1e3
        bad = ("1234" if header == NEW else "8e+00") if size in wrong else ("0" if header == NEW else "N/A")
        place = f"{microseconds:9.1f} {algorithm:7.2f} {algorithm * share:7.2f} {bad if header != OLDEST else ''}"
        root = "-1" if header == NEW else ""
        lines.append(f"{size:12} {size // 4:12}     float     sum {root}  {place}  {place}")
    return "\n".join(prefix + line for line in (*lines, "# Out of bounds values : 0 OK", "#")).encode()


def read(data: bytes, name: str = "run.log") -> Series:
    outside, inside = read_measurements(data, name)
    assert (outside.name, inside.name) == ("out of place", "in place")
    assert outside.points == inside.points
    return outside


PREFIXES = [
    "", "[1,0]<stdout>:", "0: ", "  0: ", "node-17: ", "[0]: ", "2026-11-27 10:11:12,123 INFO ",
    "2026-11-27T10:11:12Z ",
    "nccl-test-launcher-x7k2p ", "\x1b[36m(worker, pid=4132)\x1b[0m ", "[rank0]:", "| ", "[1,15]<stdout>:  ",
]  # fmt: skip


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("header", [NEW, OLD, OLDEST])
def test_what_stands_before_a_row_is_a_prefix(prefix: str, header: str) -> None:
    series = read(log(8, 1.75, header=header, prefix=prefix, name="all_reduce_perf"))
    assert series.operation == "allreduce" and series.ranks == 8
    assert [point.size for point in series.points] == SIZES
    assert series.points[-1].seconds == pytest.approx(SIZES[-1] * 1.75 / 200e9 + 20e-6, rel=1e-3)


@pytest.mark.parametrize("ranks", [2, 3, 4, 8, 12, 16, 64, 96])
def test_the_ratio_of_both_bandwidths_tells_the_ranks(ranks: int) -> None:
    share = 2 * (ranks - 1) / ranks
    if ranks > 2:  # at two it is 1, as for a broadcast
        series = read(log(ranks, share))
        assert (series.operation, series.ranks) == ("allreduce", ranks)
    assert read(log(ranks, share, name="all_reduce_perf")).ranks == ranks
    assert read(log(ranks, share / 2), "reduce_scatter_perf.log").ranks == ranks


def test_listed_devices_tell_the_ranks_before_the_ratio() -> None:
    assert read(log(8, 1.75, devices=4, name="all_reduce_perf")).ranks == 4


@pytest.mark.parametrize("header", [NEW, OLD])
def test_rows_with_wrong_values_are_no_measurement(header: str) -> None:
    series = read(log(8, 1.75, header=header, wrong=tuple(SIZES[2:]), name="all_reduce_perf"))
    assert [point.size for point in series.points] == SIZES[:2]


FAILED = {
    "node1:77:91 [0] NCCL WARN Error: network not found": "NCCL WARN Error: network not found",
    "node1: Test NCCL failure common.cu:1005 'unhandled system error'": "Test NCCL failure",
    "CUDA error: out of memory": "CUDA error: out of memory",
    "[node1:77] *** Process received signal *** Segmentation fault (11)": "Segmentation fault",
}


@pytest.mark.parametrize("line", FAILED)
def test_a_run_without_rows_says_its_error(line: str) -> None:
    with pytest.raises(HetesynthError) as caught:
        read_measurements(f"# all_reduce_perf\n{NEW}\n{line}\n".encode(), "run.log")
    assert caught.value.code == "HS841" and FAILED[line] in caught.value.message


@pytest.mark.skipif(not REPORTS.exists(), reason="the larger set of files is not there")
class TestReports:
    """Logs of users, with the right answers."""

    def test_rows_with_wrong_data(self) -> None:
        for series in read_file(REPORTS / "logs__nccl1184_wrong.log"):
            assert series.ranks == 2 and [point.size for point in series.points] == [8, 262144]

    def test_prefixes_of_mpirun(self) -> None:
        for series in read_file(REPORTS / "logs__aws_p5x2_mpirun_tagged_all_reduce.log"):
            assert (series.operation, series.ranks, len(series.points)) == ("allreduce", 16, 6)

    def test_a_log_without_a_name_fits_nvlink(self, tmp_path: Path) -> None:
        file = REPORTS / "logs__sb-nccl_allreduce.log"
        assert {(s.operation, s.ranks) for s in read_file(file)} == {("allreduce", 8)}
        topology = ROOT / "examples" / "measured" / "a100x8.dsl"
        result = calibrate(CalibrationRequest(topology, (file,), "nvlink"))
        assert result.fit.rate.value == pytest.approx(230e9, rel=0.03) and result.fit.rate.error < 0.05

    def test_many_servers_fit_their_nics(self, tmp_path: Path) -> None:
        servers = tmp_path / "h100x8_12.dsl"
        text = (ROOT / "examples" / "measured" / "h100x8_2.dsl").read_text()
        servers.write_text(text.replace("a[0-1]", "a[0-11]"))
        for name in ("nodes.dsl",):
            if (source := ROOT / "examples" / "measured" / name).exists():
                (tmp_path / name).write_bytes(source.read_bytes())
        result = calibrate(
            CalibrationRequest(servers, (REPORTS / "logs__cw_allreduce_h100x64.log",), "infiniband")
        )
        assert result.fit.rate.value == pytest.approx(48.3e9, rel=0.02)
