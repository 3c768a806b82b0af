"""What each tool's output says, and that none of it makes a reader fall over."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from importers.tool_outputs import mutated

from hetesynth.errors import HetesynthError
from hetesynth.topology.calibrate.readers import FORMATS, Series, read_file, read_measurements

DATA = Path(__file__).parent / "data"
FILES = sorted(DATA.iterdir())


def _one(series: list[Series]) -> Series:
    (one,) = series
    return one


def test_nccl_tests_has_both_places_and_counts_devices() -> None:
    outside, inside = read_file(DATA / "all_reduce_perf.txt")
    assert (outside.operation, outside.ranks, outside.name) == ("allreduce", 4, "out of place")
    assert [(p.size, p.seconds) for p in outside.points][:2] == [(1 << 20, 24.1e-6), (2 << 20, 31.2e-6)]
    assert inside.points[-1].seconds == pytest.approx(74.2e-6)


def test_nccl_tests_takes_the_collective_from_its_name_that_of_the_file_or_the_user() -> None:
    assert {s.operation for s in read_file(DATA / "all_gather_perf.txt", ranks=4)} == {"allgather"}
    text = (DATA / "all_gather_perf.txt").read_text().replace("all_gather_perf", "").encode()
    assert read_measurements(text, "runs/reduce_scatter_perf.txt", ranks=4)[0].operation == "reducescatter"
    with pytest.raises(HetesynthError, match="which collective") as caught:
        read_measurements(text, "x", ranks=4)
    assert "--operation" in caught.value.help
    assert {s.operation for s in read_measurements(text, "x", "reducescatter", 4)} == {"reducescatter"}


def test_osu_has_latencies_streams_and_blocks() -> None:
    series = _one(read_file(DATA / "osu_latency.txt"))
    assert series.operation == "transfer"
    assert [(p.size, p.seconds) for p in series.points] == [(1024, 3.1e-6), (1 << 20, 90.2e-6)]
    stream = _one(read_file(DATA / "osu_bw.txt"))
    assert stream.operation == "stream"
    assert stream.points[1].size / stream.points[1].seconds == pytest.approx(12e9)
    with pytest.raises(HetesynthError, match="one block"):
        read_file(DATA / "osu_allgather.txt")
    assert [p.size for p in _one(read_file(DATA / "osu_allgather.txt", ranks=8)).points] == [8192, 32768]


def test_perftest_in_gigabits_and_microseconds() -> None:
    stream = _one(read_file(DATA / "ib_write_bw.txt"))
    assert stream.points[0].size / stream.points[0].seconds == pytest.approx(49e9)
    mebibytes = (DATA / "ib_write_bw.txt").read_text().replace("Gb/sec", "MB/sec")
    point = _one(read_measurements(mebibytes.encode(), "x")).points[0]
    assert point.size / point.seconds == pytest.approx(392 * 2**20)
    latency = _one(read_file(DATA / "ib_write_lat.txt"))
    assert (latency.operation, latency.points[1].seconds) == ("transfer", pytest.approx(2.65e-6))


def test_nvbandwidth_reads_copies_between_devices_only() -> None:
    series = _one(read_file(DATA / "nvbandwidth.json"))
    assert [p.size / p.seconds for p in series.points] == pytest.approx([390.1e9, 391.3e9])


def test_csv_has_a_series_for_each_column() -> None:
    one, two = read_measurements(b"size;one;two\n8K;10;20\n1M;100;200\n", "x")
    assert (one.name, two.name) == ("one", "two")
    assert [(p.size, p.seconds) for p in two.points] == [
        (8192, pytest.approx(20e-6)),
        (1 << 20, pytest.approx(2e-4)),
    ]
    assert _one(read_measurements(b"1024,5\n2048,6\n", "x")).points[1].seconds == pytest.approx(6e-6)


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"", "HS842"), (b"\xff\xfe", "HS840"), (b"a\0b", "HS840"), (b"size,us\n", "HS841"),
        (b"size,us\nten,5\n", "HS841"), (b"size,us\n8K\n", "HS841"), (b"size,us\n8K,-1\n", "HS841"),
        (b"size,us\n8K,1e300\n", "HS841"), (b'{"nvbandwidth": {"testcases": [1, {}]}}', "HS841"),
        (b'{"nvbandwidth": ' + b"[" * 50_000, "HS841"), (b"# OSU Teapot Test\n", "HS841"),
    ],
)  # fmt: skip
def test_what_is_refused(content: bytes, code: str) -> None:
    with pytest.raises(HetesynthError) as caught:
        read_measurements(content, "x")
    assert caught.value.code == code


def _fuzz(rounds: int, seed: int) -> int:
    rng = random.Random(seed)
    texts = [path.read_text() for path in FILES]
    read = 0
    for _ in range(rounds):
        content = mutated(rng.choice(texts), rng).encode("utf-8", "surrogatepass")
        try:
            read += bool(read_measurements(content, "x", ranks=rng.choice([None, 4])))
        except HetesynthError as error:
            assert error.code in ("HS840", "HS841", "HS842", "HS844"), error.render()
    return read


def test_mutated_output_is_read_or_refused() -> None:
    assert _fuzz(500, 1) > 50


@pytest.mark.slow
def test_much_mutated_output_is_read_or_refused() -> None:
    assert _fuzz(20_000 * len(FORMATS), 2) > 10_000


@pytest.mark.parametrize("wrong", [True, False])
def test_nccl_tests_without_in_place_columns(wrong: bool) -> None:
    text = "# all_reduce_perf\n# size count type redop root time algbw busbw" + " #wrong" * wrong + "\n"
    text += "1024 256 float sum -1 10.5 0.1 0.2" + " 0" * wrong + "\n"
    (series,) = read_measurements(text.encode(), "x", ranks=4)
    assert [(p.size, p.seconds) for p in series.points] == [(1024, pytest.approx(10.5e-6))]
