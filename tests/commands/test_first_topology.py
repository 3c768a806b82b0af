"""``init``: what it writes is a whole topology, and it replaces nothing."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from hetesynth.cli.main import run
from hetesynth.errors import HetesynthError
from hetesynth.topology.first_topology import first_topology, write_first_topology
from hetesynth.topology.language import load_topology, parse_topology
from hetesynth.topology.language.library import library_types


@pytest.mark.parametrize("name", sorted(entry.name for entry in library_types() if entry.sort == "node"))
def test_each_type_makes_a_topology(name: str) -> None:
    _, first = first_topology(Path("new.dsl"), name, 2, "")
    topology = parse_topology(first.text)
    assert len(set(topology.servers)) == 2 and topology.name == first.cluster == "new"
    edited = parse_topology(with_examples(first.text))
    assert edited.ranks == topology.ranks - 1 and edited.notes
    assert {wire.bandwidth for wire in edited.wires} - {wire.bandwidth for wire in topology.wires}


def with_examples(written: str) -> str:
    """The text with the statements in its comments as statements, the hosts in place of the instances without."""
    written = re.sub(r"^  #   (set|disable)", r"  \1", written, flags=re.MULTILINE)
    hosts = re.search(r"^  #   (instance .*)$", written, flags=re.MULTILINE)
    assert hosts
    written = re.sub(r"^  instance .*$", hosts[1], written, flags=re.MULTILINE)
    return written.replace("100 Gbps", "7 Gbps")


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ((Path("new.dsl"), "h20x9", None, ""), "HS643"),
        ((Path("new.dsl"), "h20x8", None, "a b"), "HS645"),
        *(((Path("a.dsl"), "h20x8", None, hosts), "HS645") for hosts in ("a[3-1]", "a[1-]", "a[0-99999]", 'a" }')),
        ((Path("new.dsl"), "h20x8", 3, "a,b"), "HS645"),
    ],
)
def test_what_cannot_be(arguments: tuple[Path, str, int | None, str], code: str) -> None:
    with pytest.raises(HetesynthError) as refused:
        first_topology(*arguments)
    assert refused.value.code == code and refused.value.help


def test_nothing_is_replaced(tmp_path: Path) -> None:
    place = tmp_path / "mine"
    path, first = first_topology(place, "h20x8", None, "")
    write_first_topology(path, first)
    assert path == place / "topo.dsl" and load_topology(path).name == "mine"
    for again in (place, path):
        with pytest.raises(HetesynthError) as refused:
            first_topology(again, "h20x8", None, "")
        assert refused.value.code == "HS644"
    (tmp_path / "dangling.dsl").symlink_to(tmp_path / "nowhere")
    with pytest.raises(HetesynthError):
        first_topology(tmp_path / "dangling.dsl", "h20x8", None, "")


def test_the_command_and_what_it_says_next(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = str(tmp_path / "first.dsl")
    assert run(["init", path, "--node-type", "h20x4", "--hosts", "n[0-1]", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"file": path, "cluster": "first", "type": "h20x4", "servers": 2}
    assert run(["topo", "show", path]) == 0
    assert run(["synth", path, "--coll", "allgather", "--schedule-only", "-o", str(tmp_path / "ag")]) == 0
    assert run(["init", str(tmp_path / "second.dsl"), "--servers", "1"]) == 0
    assert "wrote" in capsys.readouterr().out
    assert run(["init", path]) == 2
