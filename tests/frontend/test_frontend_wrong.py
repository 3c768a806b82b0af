"""What newcomers write (wrong/*.dsl) and what they are told (wrong/*.txt): each message names the way out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from hetesynth.model.diagnostics import SourceError
from hetesynth.topology.language import load_topology
from hetesynth.topology.language.library import declared_types, library_names
from hetesynth.topology.language.syntax_errors import habit

WRONG = Path(__file__).resolve().parent / "wrong"
NAMES = sorted(path.name for path in WRONG.glob("*.dsl"))
ALL = 120  # at least
PLAIN = "expected "  # a list of what may stand there, where nothing better can be said
FEW_LISTS = 12


def refused(name: str) -> SourceError:
    with pytest.raises(SourceError) as caught:
        load_topology(name)
    return caught.value


@pytest.mark.parametrize("name", NAMES)
def test_message_is_the_golden_one(
    name: str, golden: Callable[[Path, bytes], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(WRONG)
    golden((WRONG / name).with_suffix(".txt"), (refused(name).render() + "\n").encode())


def test_there_are_many_and_few_end_with_a_list() -> None:
    lists = [path.stem for path in WRONG.glob("*.txt") if f"help: {PLAIN}" in path.read_text()]
    assert len(NAMES) >= ALL
    assert len(lists) <= FEW_LISTS, lists


@pytest.mark.parametrize("type_", declared_types())
def test_a_type_of_the_library_without_its_import_names_the_import(type_: str, tmp_path: Path) -> None:
    """Whatever else is imported, and however alike its types are called."""
    for other in library_names():
        if other != declared_types()[type_]:
            path = tmp_path / "topo.dsl"
            path.write_text(f"import {other}\ncluster c {{ instance a = {type_} }}\n")
            (finding,) = refused(str(path)).diagnostics
            assert finding.help == f"add `import {declared_types()[type_]}` at the top of the file"


@pytest.mark.parametrize(
    "text",
    ["", " ", "{" * 1000, "a" * 100_000, "[" * 500, "\\" * 50, "{0}", "%s", "}" * 9, "é" * 99, "1" * 5000],
)
def test_any_line_gets_an_answer(text: str) -> None:
    """Tables of patterns: none of them fails, or takes long."""
    for before in (text, f"instance {text}", f"bandwidth {text}", f"link {text}"):
        assert len(habit(before, text, ["{"])) < 500
        assert len(habit(before, f", {text}", [])) < 500


def test_what_is_meant_is_right() -> None:
    """The ways out that are whole statements parse."""
    from hetesynth.topology.language import parse_topology

    ring = "node n { gpus 2; link gpu0 <-> gpu1 { bandwidth 25 GB/s x 2; latency 1 us } }\n"
    parse_topology(ring + "cluster c { instance a = n }")
    parse_topology("import h100\nimport a100\ncluster c { instance a = h100x8 x 2; fabric ib { join *.nic* } }")
