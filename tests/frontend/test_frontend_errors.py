"""Wrong sources (tests/errors and wrong/, *.dsl) and what is said about each (*.txt); inputs made on the fly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hetesynth.errors import HetesynthError
from hetesynth.model.diagnostics import SourceError
from hetesynth.topology.language import load_pods, load_topology
from hetesynth.topology.language.library import declared_types, library_names

ERRORS, WRONG = Path(__file__).resolve().parents[1] / "errors", Path(__file__).resolve().parent / "wrong"
CASES = [*sorted(ERRORS.glob("*.dsl")), *sorted(WRONG.glob("*.dsl"))]  # the latter: what newcomers write


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_message_is_the_golden_one_and_points_into_its_source(
    path: Path, golden: Callable[[Path, bytes], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is only wrong as pods is in files called so."""
    monkeypatch.chdir(path.parent)
    with pytest.raises(SourceError) as caught:
        (load_pods if path.name.startswith("as_pods_") else load_topology)(path.name)
    assert caught.value.exit_code == 2
    golden(path.with_suffix(".txt"), (caught.value.render() + "\n").encode())
    for finding in caught.value.diagnostics:
        lines = caught.value.sources[finding.span.file].splitlines() or [""]
        assert finding.span.line <= len(lines)
        assert finding.span.column <= max(1, len(lines[finding.span.line - 1]))


@pytest.mark.parametrize("type_", declared_types())
def test_a_type_of_the_library_without_its_import_names_the_import(type_: str, tmp_path: Path) -> None:
    """However alike its types are called to those of another file that is imported."""
    own = declared_types()[type_]
    other = next(name for name in library_names() if name != own)
    (tmp_path / "topo.dsl").write_text(f"import {other}\ncluster c {{ instance a = {type_} }}\n")
    assert refused(tmp_path / "topo.dsl").diagnostics[0].help == f"add `import {own}` at the top of the file"


def refused(path: Path) -> Any:
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
    assert "it is a folder" in refused(tmp_path).message
    assert "does not exist" in refused(tmp_path / "none.dsl").message
    assert refused(tmp_path / ("n" * 5000)).code == "HS101"
    assert refused(tmp_path / "a\0b").code == "HS101"
    broken = tmp_path / "link.dsl"
    broken.symlink_to(broken)
    assert refused(broken).code == "HS101"


def test_imports_too_deep_are_refused(tmp_path: Path) -> None:
    for i in range(12):
        (tmp_path / f"n{i}.dsl").write_text(f'import "n{i + 1}.dsl"\nnode n{i} {{ gpus 1 }}\n')
    (tmp_path / "n12.dsl").write_text("node n12 { gpus 1 }\n")
    (tmp_path / "topo.dsl").write_text('import "n0.dsl"\ncluster c { instance a = n0 }\n')
    assert refused(tmp_path / "topo.dsl").code == "HS216"
