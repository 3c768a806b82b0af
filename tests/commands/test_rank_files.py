"""Which rank runs where: the places, the files for launchers, and what schedules and programs say of it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hetesynth.cli.main import run
from hetesynth.deploy.rank_files import FORMATS, rank_order, rankfile, table, visible_devices
from hetesynth.errors import HetesynthError
from hetesynth.model.rank_places import RankPlace, places_comment, places_document, rank_places
from hetesynth.topology.language import parse_topology

TEXT = """
import h20
cluster c {
  instance b = h20x4 { host "node17" disable gpu1, gpu3 }
  instance a[0-1] = h20x4 { host "gpu-[08-09].x" disable gpu[1-3] }
  fabric ib { join *.nic*; latency 1.3 us }
}
"""
TOPOLOGY = parse_topology(TEXT)


def test_ranks_are_the_working_gpus_in_the_order_of_the_instances() -> None:
    assert rank_places(TOPOLOGY) == (
        RankPlace(0, "node17", "b", 0),
        RankPlace(1, "node17", "b", 2),
        RankPlace(2, "gpu-08.x", "a0", 0),
        RankPlace(3, "gpu-09.x", "a1", 0),
    )


def test_each_file_by_hand() -> None:
    order = rank_order(TOPOLOGY)
    assert FORMATS["hostfile"][1](order) == "node17 slots=2\ngpu-08.x slots=1\ngpu-09.x slots=1\n"
    assert FORMATS["machinefile"][1](order) == "node17:2\ngpu-08.x:1\ngpu-09.x:1\n"
    assert FORMATS["slurm"][1](order) == "node17\nnode17\ngpu-08.x\ngpu-09.x\n"
    assert rankfile(order) == (
        "rank 0=node17 slot=0\nrank 1=node17 slot=1\nrank 2=gpu-08.x slot=0\nrank 3=gpu-09.x slot=0\n"
    )
    assert visible_devices(order).splitlines()[:3] == [
        "node17 CUDA_VISIBLE_DEVICES=0,2",
        "node17 HIP_VISIBLE_DEVICES=0,2",
        "gpu-08.x CUDA_VISIBLE_DEVICES=0",
    ]
    assert table(order).splitlines()[2].split() == ["1", "node17", "b", "gpu2", "1"]
    assert order.unnamed == ()


@pytest.mark.parametrize(
    ("wrong", "code"), [('host "b" ', "HS642"), ('host "a:b" ', "HS641"), ('host "-oProxyCommand" ', "HS641")]
)
def test_a_name_that_launchers_could_misread(wrong: str, code: str) -> None:
    text = TEXT.replace('host "gpu-[08-09].x" ', "").replace("a[0-1] = h20x4 {", f"a = h20x4 {{ {wrong}")
    with pytest.raises(HetesynthError) as refused:
        rank_order(parse_topology(text.replace('host "node17"', "")))
    assert refused.value.code == code and refused.value.help


def test_the_command_prints_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.dsl").write_text(TEXT.replace('host "node17"', ""))
    topology = str(tmp_path / "t.dsl")
    assert run(["topo", "ranks", topology]) == 0
    shown = capsys.readouterr().out
    assert "no host is stated for b" in shown and "gpu-09.x" in shown
    assert run(["topo", "ranks", topology, "--format", "hostfile"]) == 0
    assert capsys.readouterr().out == "b slots=2\ngpu-08.x slots=1\ngpu-09.x slots=1\n"
    assert run(["topo", "ranks", topology, "-o", str(tmp_path / "out"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["without_host"] == ["b"] and len(document["files"]) == len(FORMATS)
    assert document["ranks"][1] == {"rank": 1, "host": "b", "server": "b", "gpu": 2, "visible": 1}
    assert run(["topo", "ranks", topology, "--format", "slurm", "--format", "rankfile"]) == 0
    assert capsys.readouterr().out.startswith("# slurm_hosts\nb\nb\n")


def test_a_host_cannot_end_the_comment() -> None:
    text = 'import h20 cluster c { instance a = h20x4 { host "xn---->" } }'.replace(">", "")
    comment = places_comment(parse_topology(text))
    assert comment.count(b"--") == 2 and comment.endswith(b"-->\n")


def test_programs_and_schedules_say_where_each_rank_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topology, stem = tmp_path / "t.dsl", tmp_path / "ag"
    topology.write_text(TEXT)
    assert run(["synth", str(topology), "--coll", "allgather", "--target", "rccl-6", "-o", str(stem)]) == 0
    header = json.loads((tmp_path / "ag.schedule.json").read_text())["header"]
    assert header["ranks"] == places_document(TOPOLOGY)
    program = next(path for path in tmp_path.glob("ag*.xml") if "inplace" not in path.name)
    assert program.read_bytes().endswith(places_comment(TOPOLOGY))
    assert run(["verify", str(program), "--target", "rccl-6", "--topo", str(topology)]) == 0
    assert run(["import", str(program), "--target", "rccl-6", "-o", str(tmp_path / "again")]) == 0
    schedule = str(tmp_path / "ag.schedule.json")
    assert run(["simulate", schedule, str(topology), "--size", "1MB"]) == 0
    assert run(["import", schedule, "--topo", str(topology), "-o", str(tmp_path / "laid")]) == 0
    assert json.loads((tmp_path / "laid.schedule.json").read_text())["header"]["ranks"] == header["ranks"]
