"""``hetesynth.torch`` on ranks that are processes (``torch_ranks.py``), and in training."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
from support.tables import table_of, write_tables

from hetesynth.errors import HetesynthError
from hetesynth.programs.tables.writer import write_table

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed (the extra `torch`)")
Ends = list[tuple[int, str, float]]


def python(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=300
    )


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    write_tables(folder / "a", "2x2")
    write_tables(folder / "b", "2x2", pieces=1)
    (folder / "c" / "deeper").mkdir(parents=True)
    table = table_of("2x2", "allreduce")
    longer = replace(table, min_bytes=401, max_bytes=1000)
    (folder / "c" / "short.json").write_bytes(write_table(replace(table, max_bytes=400)))
    (folder / "c" / "deeper" / "long.json").write_bytes(write_table(longer))
    (folder / "c" / "index.json").write_text("{}")
    return folder


@pytest.fixture(scope="module")
def ends(folder: Path) -> dict[str, Ends]:
    """Of each scenario."""
    ended = python(Path(__file__).with_name("torch_ranks.py"), folder)
    assert ended.returncode == 0, ended.stderr
    scenarios: dict[str, Ends] = {}
    for line in ended.stdout.splitlines():
        scenarios |= json.loads(line)
    return scenarios


def said(ends: Ends) -> list[str]:
    assert {code for code, _, _ in ends} == {0}, ends
    return [text for _, text, _ in ends]


@pytest.mark.parametrize("scenario", ["right", "asynchronous"])
def test_eight_collectives_are_right(ends: dict[str, Ends], scenario: str) -> None:
    assert said(ends[scenario]) == ["right"] * 4


def test_a_group_of_some_ranks(ends: dict[str, Ends]) -> None:
    words = said(ends["sub_group"])
    assert [words[rank] for rank in (1, 2, 4, 5)] == ["right"] * 4
    assert words[0] == words[3] == "HS816 the group has 2 ranks, the tables are for 4"


def test_what_no_table_is_for_goes_by_the_backend(ends: dict[str, Ends]) -> None:
    (reasons,) = set(said(ends["falls_back"]))
    assert reasons.split(" | ") == [
        "RedOpType.SUM of torch.complex64",
        "no table of broadcast with root 1",
        "not cut into 2 chunks",
        "not cut into 8 chunks",
        "table",
    ]


def test_the_table_of_a_size_is_taken_and_always_the_nearest(ends: dict[str, Ends]) -> None:
    (words,) = set(said(ends["chosen"]))
    assert words.split(" | ") == ["table", "table", "no table of this size", "table", "table", "table"]


def test_a_thousand_calls_without_growth(ends: dict[str, Ends]) -> None:
    for text in said(ends["grows"]):
        interpreter, process = json.loads(text)
        assert interpreter < 40 and process < 4096, (interpreter, process)  # kilobytes


def test_other_tables_are_refused(ends: dict[str, Ends]) -> None:
    assert set(said(ends["other_tables"])) == {"HS817 other tables or options than those of rank 0: rank 2"}


def test_other_sizes_and_calls_are_refused(ends: dict[str, Ends]) -> None:
    what = "elements of torch.float32, root None, RedOpType.SUM"
    words = said(ends["other_sizes"])
    assert words[0] == f"HS818 rank 0 calls allreduce of 288 {what}; another call, of 192: rank 1"
    assert words[1] == f"HS818 rank 1 calls allreduce of 192 {what}; another call, of 288: ranks 0, 2, 3"
    assert all(word.startswith("HS818 rank ") for word in said(ends["other_calls"]))


def test_a_killed_peer_is_an_error_in_time(ends: dict[str, Ends]) -> None:
    for rank, (code, text, seconds) in enumerate(ends["killed"]):
        if rank == 2:
            assert code == 9
            continue
        assert code == 0 and text.startswith("HS819 round ") and seconds < 120, (code, text, seconds)
    assert any("rank 2: " in text for _, text, _ in ends["killed"])


def test_what_is_loaded_is_judged(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from hetesynth.torch import load

    with pytest.raises(HetesynthError, match="no table in"):
        load(tmp_path)
    table = table_of("2x2", "allreduce")
    (tmp_path / "wrong.json").write_bytes(write_table(replace(table, rounds=table.rounds[1:])))
    with pytest.raises(HetesynthError, match="rank 0 ends with"):
        load(tmp_path)
    load(tmp_path / "wrong.json", judge=False)


def test_a_model_is_trained(folder: Path) -> None:
    ended = python(ROOT / "examples" / "train_torch.py", folder / "a", "--ranks", "4")
    assert ended.returncode == 0, ended.stderr
    ddp, fsdp, calls = ended.stdout.splitlines()
    assert ddp.startswith("DDP: loss") and fsdp.startswith("FSDP: loss") and "'table'" in calls
