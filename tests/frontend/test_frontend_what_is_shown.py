"""What a topology names and its author may not read is shown to nobody, and what is no file is not waited for."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hetesynth.cli.main import run
from hetesynth.errors import HetesynthError
from hetesynth.topology.language import load_topology

SECRET = "hunter2: the password\n"
TEXT = 'import "{}"\nnode n {{ gpus 1 }}\ncluster c {{ instance a = n }}\n'


def shown(path: Path) -> str:
    with pytest.raises(HetesynthError) as raised:
        load_topology(path)
    return raised.value.render()


@pytest.mark.parametrize("name", ["secret", "../secret", "link.dsl", "chain.dsl", "secret.dsl/../secret"])
def test_an_import_of_another_kind_is_not_shown(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    for place in (tmp_path / "secret", folder / "secret"):
        place.write_text(SECRET)
    (folder / "link.dsl").symlink_to(tmp_path / "secret")
    (folder / "chain.dsl").symlink_to("link.dsl")
    (folder / "topo.dsl").write_text(TEXT.format(name))
    assert "hunter2" not in shown(folder / "topo.dsl")
    (folder / "topo.dsl").write_text(TEXT.format((tmp_path / "secret").as_posix()))
    assert "hunter2" not in shown(folder / "topo.dsl")


@pytest.mark.parametrize("text", [SECRET, "hunter2 = (\n", "hunter2\u0001\n"])
def test_an_import_that_is_no_topology_is_not_shown(tmp_path: Path, text: str) -> None:
    (tmp_path / "secret.dsl").write_text(text)
    (tmp_path / "topo.dsl").write_text(TEXT.format("secret.dsl"))
    for before in ("", "node m { gpus 1 }\n", "import os\n"):
        (tmp_path / "secret.dsl").write_text(before + text)
        assert "hunter2" not in shown(tmp_path / "topo.dsl")
    (tmp_path / "secret.dsl").write_text("nod m { gpus 1 }")
    assert "secret.dsl:1:1: " in shown(tmp_path / "topo.dsl") and "`node`" in shown(tmp_path / "topo.dsl")
    (tmp_path / "secret.dsl").write_text("node m { gpus 1; lnk }")
    assert "lnk" in shown(tmp_path / "topo.dsl")


def test_a_topology_that_is_a_link_to_something_else_is_not_shown(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "topo.dsl").symlink_to("secret")
    assert "hunter2" not in shown(tmp_path / "topo.dsl")
    (tmp_path / "right.dsl").write_text("node n { gpus 2 }\ncluster c { instance a = n }\n")
    (tmp_path / "alias.dsl").symlink_to("right.dsl")
    (tmp_path / "topo.dsl").unlink()
    (tmp_path / "topo.dsl").write_text('import "alias.dsl"\nnode n { gpus 1 }\ncluster c { instance a = n }\n')
    assert "one cluster" in shown(tmp_path / "topo.dsl") or "node types" in shown(tmp_path / "topo.dsl")


@pytest.mark.parametrize("command", ["topo show", "topo fmt --check", "verify", "import", "repair", "run"])
def test_a_pipe_that_nobody_writes_is_not_waited_for(
    tmp_path: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "topo.dsl")
    os.mkfifo(path)
    assert run([*command.split(), path, *([path] if command == "repair" else [])]) in (1, 2)
    assert "internal error" not in capsys.readouterr().err


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/tty"])
def test_a_device_is_no_topology(path: str) -> None:
    if Path(path).exists():
        with pytest.raises(HetesynthError):
            load_topology(path)
