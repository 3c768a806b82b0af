"""Commands that compute refuse GPUs that do more than their model can, unless the model says ``custom``."""

from __future__ import annotations

from pathlib import Path

import pytest

from hetesynth import api
from hetesynth.cli.main import run
from hetesynth.errors import HetesynthError
from hetesynth.topology.believable import load_topology
from hetesynth.topology.language import parse_topology
from hetesynth.topology.language.source import Source
from hetesynth.topology.lint import lint

TEXT = """node box {{ model "{model}"; gpus 3
  switch nvswitch {{ ports gpu[0-2]; bandwidth {rate}; latency 0.7 us; kind nvlink }}
}}
cluster c {{ instance a = box }}
"""
BOTH_WAYS = TEXT.format(model="B200", rate="1800 GB/s")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "box.dsl"
    path.write_text(BOTH_WAYS)
    return path


@pytest.mark.parametrize(
    "command",
    [
        ["synth", "--coll", "allgather"],
        ["bounds", "--coll", "allgather"],
        ["compare", "--coll", "allgather"],
        ["pareto", "--coll", "allgather"],
        ["atlas", "--coll", "allgather", "-o", "out"],
    ],
    ids=lambda command: str(command[0]),
)
def test_commands_refuse_it(
    command: list[str], file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    assert run([command[0], str(file), *command[1:]]) == 2
    told = capsys.readouterr().err
    assert "HS252" in told and "1800 GB/s" in told and 'model "custom B200"' in told
    assert not (file.parent / "out").exists()


def test_it_is_meant_where_the_model_is_custom(file: Path) -> None:
    with pytest.raises(HetesynthError) as caught:
        load_topology(file)
    assert caught.value.code == "HS252"
    with pytest.raises(HetesynthError):
        api.bounds(parse_topology(BOTH_WAYS), "allgather")
    file.write_text(TEXT.format(model="custom B200", rate="1800 GB/s"))
    assert load_topology(file).ranks == 3
    assert run(["topo", "show", str(file)]) == 0


def test_lint_still_warns_of_it() -> None:
    assert [d.code for d in lint(Source("<text>", BOTH_WAYS))[0]] == ["HS252"]
    assert lint(Source("<text>", TEXT.format(model="custom B200", rate="1800 GB/s")))[0] == []
    assert lint(Source("<text>", TEXT.format(model="B200", rate="900 GB/s")))[0] == []
