"""Any manifest: what is mutated is read to cells of different names, or refused with spans."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from hetesynth.deploy.manifest.reader import read_manifest
from hetesynth.deploy.manifest.values import Manifest
from hetesynth.errors import HetesynthError
from hetesynth.model.diagnostics import SourceError

HERE = Path(__file__).resolve().parent
FILES = ["ring.dsl", "racks/topo.dsl"]
QUICK = 100


def outcome(path: Path) -> Manifest | None:
    """The manifest; None where it is refused, in which case every finding is one and points into the text."""
    try:
        return read_manifest(path)
    except SourceError as error:
        lines = [*path.read_bytes().decode().removeprefix("\ufeff").replace("\r\n", "\n").split("\n"), ""]
        for finding in error.diagnostics:
            assert finding.code.startswith("HS86") and finding.message
            assert finding.span.line <= len(lines), finding
            assert finding.span.column <= len(lines[finding.span.line - 1]) + 1, finding
        assert error.render().count("\n") < 200
    except HetesynthError as error:
        assert error.code == "HS860" and error.help
    return None


def check(manifest: Manifest) -> None:
    """No two cells of a build have one name, no two of a folder one stem, whatever the case of letters."""
    assert manifest.cells
    names = [cell.name.casefold() for cell in manifest.cells]
    assert len(names) == len(set(names))
    files = [f"{manifest.folder(cell.cluster, cell.target)}/{cell.stem}".casefold() for cell in manifest.cells]
    assert len(files) == len(set(files))
    assert all(manifest.output in Path(file).parents or manifest.output for file in files)
    assert {cell.cluster for cell in manifest.cells} <= {cluster.name for cluster in manifest.clusters}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("any")
    (place / "racks").mkdir()
    for name in FILES:
        (place / name).write_text((HERE / "wrong" / name).read_text())
    return place


SEEDS = [*sorted((HERE / "right").glob("*.toml")) * 30, *sorted((HERE / "wrong").glob("*.toml"))]
PIECES = [
    b'"', b"'", b"[", b"]", b"[[", b"]]", b"{", b"}", b"=", b".", b",", b"#", b"\n", b"\r\n", b"\\", b'"""',
    b"'''", b"\x00", b"\xff", b"\xe2\x80\xae", b"-1", b"1e999", b"nan", b"true", b"1979-05-27", b"9" * 50,
    b"..", b"...", b"1MB..", b"MB", b"{cluster}", b"{", b"rule", b"skip = true", b"sizes", b"[[rule]]", b"gates",
    b"\xf0\x9f\x98\x80",
    b'"\\u0000"', b'"\\uD800"', b"../", b"a.b.c", b" ", b"chunks = 3\n", b'["allgather"]', b"root = 5\n",
]  # fmt: skip


def mutant(random_: random.Random, seeds: list[bytes]) -> bytes:
    data = random_.choice(seeds)
    for _ in range(random_.choice((1, 1, 1, 2, 5))):
        at = random_.randint(0, len(data))
        lines = data.split(b"\n")
        match random_.randrange(4):
            case 0:
                data = data[:at] + random_.choice(PIECES) + data[at + random_.choice((0, 8)) :]
            case 1:
                data = data[:at] + data[at + 12 :]
            case 2:
                random_.shuffle(lines)
                data = b"\n".join(lines)
            case 3:
                data = data[:at] + b"\n" + random_.choice(seeds)
    return data


def survive(folder: Path, number: int, seed: int) -> int:
    random_ = random.Random(seed)
    seeds = [path.read_bytes().replace(b"../wrong/", b"") for path in SEEDS]
    path, right = folder / "mutant.toml", 0
    for _ in range(number):
        path.write_bytes(mutant(random_, seeds))
        manifest = outcome(path)
        right += manifest is not None
        if manifest is not None:
            check(manifest)
    return right


def test_mutated_manifests_are_read_or_refused(folder: Path) -> None:
    assert survive(folder, QUICK, 0) > 0
