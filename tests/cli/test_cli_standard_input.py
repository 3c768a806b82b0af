"""A topology from standard input, ``-``: what commands say of it is what they say of the same file."""

from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from hetesynth.cli.main import run
from hetesynth.topology.language.source import MAX_SOURCE_BYTES

TEXT = """node a { gpus 3; mesh gpu[0-2] { bandwidth 25 GB/s; latency 1 us } }
cluster c { instance n = a }
"""


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def given(monkeypatch: pytest.MonkeyPatch, data: bytes) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))


@pytest.mark.parametrize(
    "command",
    [
        "topo show FILE",
        "topo lint FILE",
        "topo ranks FILE",
        "topo convert FILE --to json",
        "topo diff FILE FILE",
        "topo export FILE --to edges",
        "bounds FILE --coll allgather",
        "topo show FILE --without n.gpu2",
    ],
)
def test_it_is_as_a_file(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("c.dsl").write_text(TEXT)
    assert run(command.replace("FILE", "c.dsl").split()) == 0
    of_file = capsys.readouterr().out
    given(monkeypatch, TEXT.encode())
    assert run(command.replace("FILE", "-").split()) == 0
    assert capsys.readouterr().out.replace("-: ok", "c.dsl: ok") == of_file


def test_it_is_read_once_and_used_as_often_as_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    given(monkeypatch, TEXT.encode())
    assert run(["synth", "-", "--coll", "allgather", "-o", "x"]) == 0
    given(monkeypatch, TEXT.encode())
    assert run(["verify", "x.xml", "--topo", "-"]) == 0
    given(monkeypatch, TEXT.encode())
    assert run(["repair", "x.schedule.json", "-", "--without", "n.gpu0<->n.gpu1", "-o", "y"]) == 0


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"", "HS110"),
        (b"#" * (MAX_SOURCE_BYTES + 1), "HS102"),
        (b"\xff", "HS103"),
        (b"a\0", "HS103"),
        (b'import "-"\n' + TEXT.encode(), "HS215"),
    ],
)
def test_it_has_the_limits_of_files(
    data: bytes, code: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor does an import of `-` reach it: that is a file beside the importing one."""
    given(monkeypatch, data)
    assert run(["topo", "show", "-"]) == 2
    assert code in capsys.readouterr().err


def test_fmt_prints_it(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    given(monkeypatch, TEXT.encode())
    assert run(["topo", "fmt", "-", "--check"]) == 1
    given(monkeypatch, TEXT.encode())
    capsys.readouterr()
    assert run(["topo", "fmt", "-"]) == 0
    Path("c.dsl").write_text(TEXT)
    printed = capsys.readouterr().out
    assert run(["topo", "fmt", "c.dsl"]) == 0 and Path("c.dsl").read_text() == printed
    given(monkeypatch, printed.encode())
    assert run(["topo", "fmt", "-", "--check"]) == 0
    assert not Path("-").exists()
