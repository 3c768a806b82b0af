"""Tables as releases of nccl-tests and rccl-tests print them, written here from the formats in their sources."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from hetesynth.cli.main import run
from hetesynth.errors import HetesynthError
from hetesynth.topology.calibrate.calibrate_topology import CalibrationRequest, calibrate
from hetesynth.topology.calibrate.readers import read_file, read_measurements

ROOT = Path(__file__).resolve().parents[2]
MACHINES = ROOT / "examples" / "measured"
CONFORMANCE = Path(os.environ.get("HETESYNTH_CONFORMANCE", ROOT.parent / "shared" / "data"))
RUNS, REPORTS = CONFORMANCE / "measured/measured.jsonl", CONFORMANCE / "reports4"
SIZES = [1 << power for power in range(20, 34)]
# An allreduce on eight A100 as published (Azure NDm A100 v4), bytes and microseconds: 234 GB/s at 8 GiB
PUBLISHED = {
    1048576: 37.33, 4194304: 84.77, 16777216: 220.5, 33554432: 353.9, 67108864: 579.2, 134217728: 1157.6,
    268435456: 2169.8, 536870912: 4204.0, 1073741824: 8212.6, 2147483648: 16274, 4294967296: 32200,
    8589934592: 64200,
}  # fmt: skip


def share(collective: str, ranks: int) -> float:
    """Bus over algorithm bandwidth, as doc/PERFORMANCE.md of nccl-tests derives it."""
    if collective in ("broadcast", "reduce", "sendrecv"):
        return 1.0
    return (ranks - 1) / ranks * (2 if collective == "all_reduce" else 1)


@dataclass(frozen=True)
class Log:
    """One run. ``release``: of the tests; ``bus``: GB/s that large sizes reach; ``ranks``: of the run."""

    release: str
    collective: str
    ranks: int
    bus: float
    machine: str
    links: str
    rate: float  # GB/s of one link, by hand
    listed: bool = True
    prefix: str = ""
    named: bool = True

    def times(self) -> dict[int, float]:
        if self.machine == "a100x8" and self.collective == "all_reduce":
            return PUBLISHED
        return {n: 20 + n * share(self.collective, self.ranks) / self.bus / 1e3 for n in SIZES}

    def cells(self, size: int, microseconds: float) -> str:
        """Time and bandwidths of one place."""
        rate = size / microseconds / 1e3
        bus = rate * share(self.collective, self.ranks)
        if self.release == "2017":  # milliseconds
            return f"  {microseconds / 1e3:7.3f}  {rate:5.2f}  {bus:5.2f}  {2e-7:7.0e}"
        decimals = 0 if microseconds >= 10000 else 1 if microseconds >= 100 else 2
        wrong = "5e-07" if self.release in ("2019", "2021") else "    0"
        iterations = "   20.11   31.42   30.98    3.10" if self.release == "per iteration" else ""
        return f"  {microseconds:7.{decimals}f}  {rate:6.2f}  {bus:6.2f}  {wrong}{iterations}"

    def text(self) -> str:
        reduces, rooted = self.collective in ("all_reduce", "reduce_scatter", "reduce"), self.collective in (
            "broadcast", "reduce", "gather", "scatter",
        )  # fmt: skip
        lines = [f"# Collective test starting: {self.collective}_perf"] if self.named else []
        lines.append(f"# nThread 1 nGpus 1 minBytes 1048576 maxBytes {SIZES[-1]} step: 2(factor) warmup iters: 5")
        if self.release.startswith("rccl"):
            lines.append("rccl-tests: Version develop:ae3e635")
        lines.append("# Using devices")
        lines += [
            f"#  Rank {rank:2} Group  0 Pid {rank:6} on node{rank // 8:02} device {rank % 8:2} [0x{rank:02x}]"
            for rank in range(self.ranks if self.listed else 0)
        ]
        before, after = ["size", "count", "type"], ["time", "algbw", "busbw", "#wrong"]
        if self.release == "2017":
            before, after = ["bytes", "N", "type"], ["time", "algbw", "busbw", "res"]
            before += ["op"] if reduces else []
        elif self.release in ("2019", "2021"):
            after[3] = "error"
            # all to all printed an empty reduction
            before += ["redop"] if reduces or self.collective == "alltoall" else []
            before += ["root"] if rooted else []
        else:
            before += ["redop", "root"]
        after += ["i_min", "i_max", "i_p99", "i_cv%"] if self.release == "per iteration" else []
        places = 1 if self.release == "rccl in place" else 2
        titles = "in-place" if places == 1 else "out-of-place                       in-place"
        stamp = "           timestamp" if self.release == "timestamps" else ""
        lines += [f"#{'':50}{titles}", "# " + "  ".join(f"{w:>8}" for w in before + after * places) + stamp]
        lines.append(
            "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)"
        )
        for size, time in self.times().items():
            row = f"{size:12}  {size // 4:12}  {'float':>8}"
            if "redop" in before or "op" in before:
                none = "" if self.release in ("2019", "2021", "2.13") else "none"
                row += f"  {'sum' if reduces else none:>6}"
            if "root" in before:
                row += f"  {0 if rooted else -1:6}"
            row += self.cells(size, time) * places
            lines.append(row + ("  2026-06-01 10:11:12" if stamp else ""))
        lines += ["# Out of bounds values : 0 OK", "# Avg bus bandwidth    : 12.3", "#"]
        return "\n".join(self.prefix + line for line in lines) + "\n"

    def json(self) -> str:
        """As ``--output_file run.json`` of release 2.17 writes it."""
        results = []
        for size, time in self.times().items():
            rate = size / time / 1e3
            bus = rate * share(self.collective, self.ranks)
            place = {"time": time, "alg_bw": rate, "bus_bw": bus, "nwrong": 0.0}
            results.append({"size": size, "count": size // 4, "type": "float", "redop": "sum", "root": "    -1"})
            results[-1] |= {"out_of_place": place, "in_place": place}
        devices = [{"rank": n, "group": 0, "pid": 7, "hostname": "a", "device": n} for n in range(self.ranks)]
        args = [f"./build/{self.collective}_perf", "-J", "run.json"]
        config = {"nthreads": 1, "ngpus": 1, "devices": devices}
        document = {"version": 1, "start_time": "2026-06-01 10:11:12", "args": args, "env": [], "config": config}
        return json.dumps(document | {"results": results}, separators=(",", ":"))


A100, A100_2 = ("a100x8", "nvlink"), ("a100x8_2", "infiniband")
MI300, H100_2 = ("mi300x8", "xgmi"), ("h100x8_2", "infiniband")
# Rates of links: a GPU on a switch has one link of the bus bandwidth (published: as at 1 GiB); on a
# mesh of n GPUs n - 1 links share it; all rings of a server leave it by its eight NICs.
LOGS = [
    Log("2017", "all_reduce", 8, 234, *A100, 228.8),
    Log("2017", "all_gather", 8, 228, *A100, 228),
    Log("2019", "all_reduce", 8, 234, *A100, 228.8),
    Log("2019", "all_gather", 8, 229, *A100, 229),
    Log("2019", "alltoall", 8, 223, *A100, 223),
    Log("2021", "broadcast", 8, 233, *A100, 233),
    Log("2021", "reduce", 8, 231, *A100, 231, prefix="[1,0]<stdout>:"),
    Log("2021", "reduce_scatter", 8, 230, *A100, 230, prefix="0: "),
    Log("2021", "reduce", 4, 112, *A100, 112),
    Log("2.13", "all_gather", 8, 230, *A100, 230),
    Log("2.13", "alltoall", 8, 225, *A100, 225),
    Log("2.13", "all_gather", 16, 181, *A100_2, 181 / 8),
    Log("2.17", "all_reduce", 8, 234, *A100, 228.8, listed=False),
    Log("2.17", "all_reduce", 8, 234, *A100, 228.8, listed=False, named=False, prefix="nccl-launcher-x7 "),
    Log("2.17", "all_gather", 16, 185, *A100_2, 185 / 8, listed=False, prefix="2026-11-27T10:11:12Z "),
    Log("2.17", "all_reduce", 16, 186, *A100_2, 186 / 8, listed=False, named=False),
    Log("2.17", "reduce_scatter", 16, 370, *H100_2, 370 / 8),
    Log("2.17", "sendrecv", 8, 233, *A100, 233),
    Log("timestamps", "all_gather", 8, 231, *A100, 231),
    Log("timestamps", "all_reduce", 8, 234, *A100, 228.8, listed=False),
    Log("per iteration", "reduce_scatter", 8, 230, *A100, 230),
    Log("per iteration", "all_reduce", 8, 234, *A100, 228.8),
    Log("rccl", "all_reduce", 8, 318, *MI300, 318 / 7, prefix="gpu-node[0]: "),
    Log("rccl", "all_gather", 8, 315, *MI300, 315 / 7),
    Log("rccl in place", "all_reduce", 8, 316, *MI300, 316 / 7),
]  # fmt: skip
OPERATIONS = {"all_reduce": "allreduce", "all_gather": "allgather", "reduce_scatter": "reducescatter"}


CASES = [(log, log.text()) for log in LOGS] + [(log, log.json()) for log in LOGS[16:20]]


@pytest.mark.parametrize(("log", "text"), CASES, ids=range(len(CASES)))
def test_a_log_of_each_release_is_read_and_fitted(log: Log, text: str, tmp_path: Path) -> None:
    path = tmp_path / "run.out"
    path.write_text(text)
    series = read_measurements(path.read_bytes(), "run.out")
    operation = OPERATIONS.get(log.collective, log.collective).replace("sendrecv", "transfer")
    names = ["in place"] if log.release == "rccl in place" else ["out of place", "in place"]
    assert [s.name for s in series] == names
    for one in series:
        assert (one.operation, one.remarks) == (operation, ())
        assert one.ranks == (None if operation == "transfer" else log.ranks)
        assert [point.size for point in one.points] == [*log.times()]
        printed = [point.seconds * 1e6 for point in one.points]
        assert printed == pytest.approx([*log.times().values()], rel=0.005, abs=0.51)
    fitted = calibrate(CalibrationRequest(MACHINES / f"{log.machine}.dsl", (path,), log.links)).fit
    assert fitted.rate.value / 1e9 == pytest.approx(log.rate, rel=0.025)
    assert fitted.rate.error < 0.05


PREFIXES = [
    "", "[1,0]<stdout>:", "0: ", "  0: ", "node-17: ", "[0]: ", "2026-11-27 10:11:12,123 INFO ",
    "2026-11-27T10:11:12Z ",
    "nccl-test-launcher-x7k2p ", "\x1b[36m(worker, pid=4132)\x1b[0m ", "[rank0]:", "| ", "[1,15]<stdout>:  ",
]  # fmt: skip


@pytest.mark.parametrize("prefix", PREFIXES)
@pytest.mark.parametrize("release", ["2017", "2021", "2.17"])
def test_what_stands_before_a_row_is_a_prefix(prefix: str, release: str) -> None:
    log = replace(LOGS[12], release=release, prefix=prefix)
    (one, _) = read_measurements(log.text().encode(), "run.log")
    assert (one.operation, one.ranks, [p.size for p in one.points]) == ("allreduce", 8, [*log.times()])


@pytest.mark.parametrize("ranks", [3, 4, 8, 12, 16, 64, 96, 256])
def test_the_ratio_of_both_bandwidths_tells_the_ranks(ranks: int) -> None:
    log = Log("2.17", "all_reduce", ranks, 386, "", "", 0, listed=False, named=False)
    (one, _) = read_measurements(log.text().encode(), "run.log")
    assert (one.operation, one.ranks) == ("allreduce", ranks)
    log = replace(log, collective="reduce_scatter")
    (one, _) = read_measurements(log.text().encode(), "reduce_scatter.log")
    assert (one.operation, one.ranks) == ("reducescatter", ranks)


@pytest.mark.parametrize(("right", "wrong", "log"), [("    0", "   12", LOGS[12]), ("5e-07", "8e+00", LOGS[2])])
def test_rows_with_wrong_values_are_no_measurement(right: str, wrong: str, log: Log) -> None:
    rows = log.text().splitlines()
    rows[-6:] = [row.replace(right + "  ", wrong + "  ") for row in rows[-6:]]
    outside, inside = read_measurements("\n".join(rows).encode(), "run.log")
    assert len(outside.points) == len(log.times()) - 3 and len(inside.points) == len(log.times())


def test_one_file_holds_tables_of_several_runs() -> None:
    runs = [log for log in LOGS if log.release == "2.17" and log.machine == "a100x8" and log.listed]
    runs += [replace(runs[0], collective="all_gather"), replace(runs[0], collective="broadcast", ranks=4)]
    text = "".join(f"{log.text()}# Collective test concluded: {log.collective}_perf\n" for log in runs)
    series = read_measurements(text.encode(), "all.log")
    assert [(s.operation, s.ranks) for s in series[::2]] == [
        ("transfer", None),
        ("allgather", 8),
        ("broadcast", 4),
    ]
    assert len({s.title for s in series}) == 6


def test_what_contradicts_the_bandwidths_is_told() -> None:
    log = LOGS[12]
    (one, _) = read_measurements(log.text().encode(), "run_16ranks.log")
    assert one.ranks == 8 and one.remarks == ("the file's name says 16 ranks, taken are 8",)
    (one, _) = read_measurements(log.text().encode(), "run.log", ranks=4)
    assert one.ranks == 4 and "both bandwidths are those of about 8 ranks" in one.remarks[0]
    (one, _) = read_measurements(replace(log, listed=True).text().replace("Rank  7", "Rank  6").encode(), "x")
    assert one.ranks == 8 and one.remarks == ("the list of devices says 7 ranks, taken are 8",)
    text = log.text().replace("nGpus 1", "nGpus 3")
    assert read_measurements(text.encode(), "x")[0].remarks == ("a process has 3 GPUs, taken are 8 ranks",)
    text = log.text().replace("all_reduce", "all_gather")
    (one, _) = read_measurements(text.encode(), "run.log")
    assert one.operation == "allreduce" and "as no allgather has it" in one.remarks[0]
    text = replace(log, collective="all_gather").text().replace("all_gather", "all_reduce")
    with pytest.raises(HetesynthError, match="as no allreduce has it") as caught:
        read_measurements(text.encode(), "run.log")
    assert "--operation" in caught.value.help
    (one, _) = read_measurements(log.text().encode(), "run.log", "allgather")
    assert one.operation == "allgather" and one.remarks


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (LOGS[12].text().replace("    time ", " cputime "), "no times of the collective"),
        (replace(LOGS[12], ranks=1, machine="one").text(), "one rank"),
        (LOGS[12].text().replace("    0\n", "    7\n").replace("    0  ", "    7  "), "wrong values"),
        ("# nThread 1 nGpus 8\nInvalid number of GPUs: 8 requested but only 4 were found.\n", "only 4 were found"),
        ("# nThread 1 nGpus 8\nmpirun noticed that process rank 3 exited on signal 9 (Killed).\n", "signal 9"),
        ("a: Test CUDA failure common.cu:891 'out of memory'\n", "out of memory"),
        ("a:7:9 [0] NCCL WARN Cuda failure 'peer access'\na: Test NCCL failure all_reduce.cu:4\n", "peer access"),
        ('{"version":1,"start_time":"x","args":[],"config":{"nthreads":1,"ngpus":1,"devices":[]}}', "JSON"),
    ],
)
def test_why_a_log_gives_no_times(text: str, said: str) -> None:
    with pytest.raises(HetesynthError, match=said) as caught:
        read_measurements(text.encode(), "run.log")
    assert caught.value.code == "HS841"


@pytest.mark.parametrize(
    ("machine", "links", "ranks", "bus", "algorithm"),
    [
        ("b200x8", "nvlink", 8, 838, "NVLS"),
        ("h100x8", "nvlink", 5, 414, "NVLS"),
        ("h100x8_2", "infiniband", 16, 380, "NVLSTree"),
    ],
)
def test_an_allreduce_of_the_switch_tells_no_rate(
    machine: str,
    links: str,
    ranks: int,
    bus: float,
    algorithm: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "run.log"
    path.write_text(Log("2.17", "all_reduce", ranks, bus, machine, links, 0).text())
    command = ["topo", "calibrate", str(MACHINES / f"{machine}.dsl"), str(path), "--class", links]
    assert run(command) == 2
    said = capsys.readouterr().err
    assert "HS849" in said and f"goes by {algorithm}," in said and "NCCL_ALGO=Ring" in said
    path.write_text(Log("2.17", "all_reduce", ranks, bus * 0.8, machine, links, 0).text())
    assert run([*command, "--algorithm", "ring"]) == 0


@pytest.mark.skipif(not RUNS.is_file(), reason="the published runs are not here")
def test_published_runs_are_read_back() -> None:
    names = {"allreduce": "all_reduce", "allgather": "all_gather", "reducescatter": "reduce_scatter"}
    told = 0
    for published in map(json.loads, RUNS.read_text().splitlines()):
        ranks = published["machine"]["nodes"] * published["machine"]["gpus_per_node"]
        name = names.get(published["collective"], published["collective"])
        points = {size: time for size, time, *_ in published["points"] if size and time}
        if not points:
            continue
        lines = [
            f"# {name}_perf",
            "#       size         count      type   redop    root     time   algbw   busbw #wrong",
        ]
        for size, time in points.items():
            rate = size / time / 1e3
            bus = rate * share(name, ranks)
            lines.append(f"{size:12} {size // 4:12} float none -1 {time:7} {rate:6.2f} {bus:6.2f} N/A")
        (one,) = read_measurements("\n".join(lines).encode(), "run.log")
        assert one.operation == published["collective"].replace("sendrecv", "transfer"), published["id"]
        assert {p.size: p.seconds * 1e6 for p in one.points} == pytest.approx(points, rel=1e-9), published["id"]
        assert one.remarks == () and one.ranks in (ranks, None), (published["id"], one.ranks)
        told += one.ranks == ranks
    assert told >= 50


@pytest.mark.skipif(not REPORTS.exists(), reason="the larger set of files is not there")
class TestReports:
    """Logs of users, with the right answers."""

    def test_rows_with_wrong_data(self) -> None:
        for series in read_file(REPORTS / "logs__nccl1184_wrong.log"):
            assert series.ranks == 2 and [point.size for point in series.points] == [8, 262144]

    def test_prefixes_of_mpirun(self) -> None:
        for series in read_file(REPORTS / "logs__aws_p5x2_mpirun_tagged_all_reduce.log"):
            assert (series.operation, series.ranks, len(series.points)) == ("allreduce", 16, 6)

    def test_a_log_without_a_name_fits_nvlink(self) -> None:
        file = REPORTS / "logs__sb-nccl_allreduce.log"
        assert {(s.operation, s.ranks) for s in read_file(file)} == {("allreduce", 8)}
        result = calibrate(CalibrationRequest(MACHINES / "a100x8.dsl", (file,), "nvlink"))
        assert result.fit.rate.value == pytest.approx(230e9, rel=0.03) and result.fit.rate.error < 0.05

    def test_many_servers_fit_their_nics(self, tmp_path: Path) -> None:
        servers = tmp_path / "h100x8_12.dsl"
        servers.write_text((MACHINES / "h100x8_2.dsl").read_text().replace("a[0-1]", "a[0-11]"))
        result = calibrate(
            CalibrationRequest(servers, (REPORTS / "logs__cw_allreduce_h100x64.log",), "infiniband")
        )
        assert result.fit.rate.value == pytest.approx(48.3e9, rel=0.02)
