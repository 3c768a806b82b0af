"""One file, four commands: what it is and what is wrong with it they all say alike."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from verify.plan_builders import exchange, pair
from verify.program_builders import good_programs, to_xml

from hetesynth.cli.main import run
from hetesynth.programs.mscclpp.json_writer import write_plan_json

LINE = "node n { gpus 2; link gpu0 <-> gpu1 { bandwidth 25 GB/s } }\ncluster two { instance a = n }\n"
RING = "node n { gpus 4; mesh gpu* { bandwidth 25 GB/s } }\ncluster four { instance a = n }\n"
XML = to_xml(good_programs()["ring_allgather_4"])
PLAN = write_plan_json(pair(exchange(0)))


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("two.dsl").write_text(LINE)
    Path("four.dsl").write_text(RING)


def codes(file: str, topology: str) -> dict[str, int]:
    commands = {
        "verify": ["verify", file],
        "import": ["import", file, "-o", "out"],
        "run": ["run", file, "--backend", "inprocess"],
        "simulate": ["simulate", file, topology, "--size", "1MB"],
    }
    return {name: run(arguments) for name, arguments in commands.items()}


@pytest.mark.parametrize(
    ("name", "content", "code"),
    [
        ("x.xml", b"", 2),
        ("x.xml", b"<gpu/>", 2),
        ("x", bytes(9), 2),
        ("x.json", b"", 2),
        ("x.json", b"[]", 2),
        ("x", b" {}", 2),
        ("x.xml", b'{"gpus": []}', 2),
        ("x.json", PLAN[:-9], 2),
        ("x.xml", XML.replace(b'cnt="1"', b'cnt="x"', 1), 1),
        ("x.xml", XML.replace(b'type="s"', b'type="r"', 1), 1),
        ("x.xml", XML[: len(XML) // 2], 1),
        ("x", XML, 0),
    ],
)
def test_a_broken_file_has_one_exit_code(
    name: str, content: bytes, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(name).write_bytes(content)
    assert codes(name, "four.dsl") == dict.fromkeys(("verify", "import", "run", "simulate"), code)
    shown = capsys.readouterr()
    assert "internal error" not in shown.err


def test_a_wrong_plan_is_wrong_for_all_that_take_plans(capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.json").write_bytes(write_plan_json(pair(exchange(0)[:-1])))
    assert codes("p.json", "two.dsl") == {"verify": 1, "import": 2, "run": 1, "simulate": 1}
    assert "is an MSCCL++ plan, which cannot be turned back" in capsys.readouterr().err
    Path("p.json").write_bytes(PLAN)
    assert codes("p.json", "two.dsl") == {"verify": 0, "import": 2, "run": 0, "simulate": 0}


def test_a_schedule_is_no_plan_and_the_way_on_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    Path("x.xml").write_bytes(XML)
    assert run(["import", "x.xml", "--topo", "four.dsl", "-o", "y"]) == 0
    capsys.readouterr()
    assert run(["verify", "y.schedule.json"]) == 2 == run(["run", "y.schedule.json", "--backend", "inprocess"])
    told = capsys.readouterr().err
    assert told.count("error[HS530]: y.schedule.json is a schedule, which no runtime reads") == 2
    assert told.count("`hetesynth import` judges it") == 2
    document = json.loads(Path("y.schedule.json").read_text())
    document["transfers"][-1][0:2] = [0, 1]
    Path("z.json").write_text(json.dumps(document))
    assert run(["import", "z.json", "-o", "w"]) == 1 == run(["simulate", "z.json", "four.dsl", "--size", "1MB"])


def test_a_plan_of_one_server_does_not_run_on_two(capsys: pytest.CaptureFixture[str]) -> None:
    node = "node n { gpus 1; nic nic0 { bandwidth 100 Gbps }; attach gpu0 -> nic0 }"
    Path("apart.dsl").write_text(f"{node}\ncluster apart {{ instance a[0-1] = n; fabric ib {{ join *.nic0 }} }}\n")
    Path("p.json").write_bytes(PLAN)
    assert run(["verify", "p.json", "--topo", "apart.dsl"]) == 1
    assert run(["simulate", "p.json", "apart.dsl", "--size", "1MB"]) == 1
    told = capsys.readouterr()
    assert "[HX809]" in told.out and "another server" in told.err
