"""The corpus of wrong sources (tests/errors/*.dsl) and what is said about each (*.txt); inputs made on the fly."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from hetesynth.errors import HetesynthError
from hetesynth.model.diagnostics import SourceError
from hetesynth.topology.language import load_pods, load_topology, parse_topology

ERRORS = Path(__file__).resolve().parents[1] / "errors"
CASES = sorted(path.name for path in ERRORS.glob("*.dsl"))


def loaded(path: Path) -> object:
    """The cluster; what is only wrong as pods is in files called so."""
    return load_pods(path) if path.name.startswith("as_pods_") else load_topology(path)


@pytest.mark.parametrize("name", CASES)
def test_message_is_the_golden_one(
    name: str, golden: Callable[[Path, bytes], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ERRORS)
    with pytest.raises(HetesynthError) as caught:
        loaded(Path(name))
    assert caught.value.exit_code == 2
    golden((ERRORS / name).with_suffix(".txt"), (caught.value.render() + "\n").encode())


@pytest.mark.parametrize("name", CASES)
def test_every_finding_points_into_its_source(name: str) -> None:
    with pytest.raises(SourceError) as caught:
        loaded(ERRORS / name)
    for finding in caught.value.diagnostics:
        lines = caught.value.sources[finding.span.file].splitlines() or [""]
        assert finding.code.startswith(("HS1", "HS2"))
        assert finding.span.line <= len(lines)
        assert finding.span.column <= max(1, len(lines[finding.span.line - 1]))


def test_the_corpus_covers_the_codes_of_the_reference() -> None:
    """Every code that a text can provoke has a golden file, and docs/errors.md explains each."""
    reference = (ERRORS.parents[1] / "docs" / "errors.md").read_text()
    shown = "".join(path.read_text() for path in ERRORS.glob("*.txt"))
    sources = (ERRORS.parents[1] / "hetesynth" / "frontend").glob("*.py")
    import re

    used = {code for path in sources for code in re.findall(r'"(HS[12]\d\d)"', path.read_text())}
    files_only = {"HS101", "HS102", "HS103", "HS104", "HS250"}  # HS250: only `topo convert` says it
    assert used - files_only <= set(re.findall(r"HS\d\d\d", shown))
    assert used <= set(re.findall(r"HS\d\d\d", reference))


def refused(path: Path) -> HetesynthError:
    with pytest.raises(HetesynthError) as caught:
        load_topology(path)
    return caught.value


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (b"\x00\x01\x02cluster", "HS103"),
        (b"\xff\xfe\x00c", "HS103"),
        (b"\x7fELF\x02\x01\x01\x00\x00", "HS103"),
        (b"cluster c {\n  \x80\n}", "HS103"),
        (b"x" * (10 << 20), "HS102"),
        (b"(" * 10_000, "HS104"),
        (b"{" * 10_000 + b"}" * 10_000, "HS104"),
        (b"define a = " + b"[" * 40 + b"1" + b"]" * 40, "HS104"),
        (b"a" * (1 << 17), "HS111"),
        (b"1" * (1 << 17), "HS111"),
        (b'"' * 1000, "HS111"),
        (b"\xef\xbb\xbf", "HS110"),
        (b"\r\n\t \r", "HS110"),
    ],
)
def test_hostile_content_gets_a_message(content: bytes, code: str, tmp_path: Path) -> None:
    path = tmp_path / "topo.dsl"
    path.write_bytes(content)
    error = refused(path)
    assert error.code == code
    assert error.help
    assert len(error.render()) < 2000


def test_what_is_no_readable_file_gets_a_message(tmp_path: Path) -> None:
    assert "is a directory" in refused(tmp_path).message
    assert "does not exist" in refused(tmp_path / "none.dsl").message
    assert refused(tmp_path / ("n" * 5000)).code == "HS101"
    assert refused(tmp_path / "a\0b").code == "HS101"
    broken = tmp_path / "link.dsl"
    broken.symlink_to(broken)
    assert refused(broken).code == "HS101"


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_unreadable_file_gets_a_message(tmp_path: Path) -> None:
    path = tmp_path / "secret.dsl"
    path.write_text("cluster c {}")
    path.chmod(0)
    assert "cannot be read" in refused(path).message


def test_numbers_too_long_for_any_use_are_refused_quickly() -> None:
    with pytest.raises(SourceError, match="digits"):
        parse_topology("node n { gpus " + "9" * 5000 + " }\ncluster c { instance a = n }")
    with pytest.raises(SourceError, match="lanes"):
        parse_topology(
            "node n { gpus 2 mesh gpu* { bandwidth 1 GB/s x " + "9" * 17 + " } }\ncluster c { instance a = n }"
        )


def test_too_many_findings_are_cut() -> None:
    lines = "\n".join(f"  instance a{i} = nothing" for i in range(500))
    with pytest.raises(SourceError) as caught:
        parse_topology(f"cluster c {{\n{lines}\n}}")
    assert len(caught.value.diagnostics) == 20


def test_imports_too_deep_are_refused(tmp_path: Path) -> None:
    for i in range(12):
        (tmp_path / f"n{i}.dsl").write_text(f'import "n{i + 1}.dsl"\nnode n{i} {{ gpus 1 }}\n')
    (tmp_path / "n12.dsl").write_text("node n12 { gpus 1 }\n")
    (tmp_path / "topo.dsl").write_text('import "n0.dsl"\ncluster c { instance a = n0 }\n')
    assert refused(tmp_path / "topo.dsl").code == "HS216"


def test_a_cycle_of_imports_is_shown(tmp_path: Path) -> None:
    (tmp_path / "a.dsl").write_text('import "b.dsl"\nnode a { gpus 1 }\n')
    (tmp_path / "b.dsl").write_text('import "a.dsl"\nnode b { gpus 1 }\n')
    (tmp_path / "topo.dsl").write_text('import "a.dsl"\ncluster c { instance x = a }\n')
    assert "a.dsl -> b.dsl -> a.dsl" in refused(tmp_path / "topo.dsl").message


def test_an_error_in_an_imported_file_shows_that_file(tmp_path: Path) -> None:
    (tmp_path / "a.dsl").write_text("node a { gpuz 1 }\n")
    (tmp_path / "topo.dsl").write_text('import "a.dsl"\ncluster c { instance x = a }\n')
    text = refused(tmp_path / "topo.dsl").render()
    assert "a.dsl:1:10: HS111" in text and "did you mean `gpus`?" in text


def test_a_refusal_of_the_system_gets_a_message(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = tmp_path / "topo.dsl"
    path.write_text("cluster c {}")
    monkeypatch.setattr(os, "open", refuse)
    assert "cannot be read: Permission denied" in refused(path).message
