"""Any manifest: what the table of keys can generate is read or refused with spans, what is mutated never fails."""

from __future__ import annotations

import json
import random
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hetesynth.deploy.manifest.document import tomllib
from hetesynth.deploy.manifest.keys import MANIFEST, Key, Kind, Number, Several, Table, Tables, Text, Truth, Whole
from hetesynth.deploy.manifest.reader import read_manifest, spelling
from hetesynth.deploy.manifest.values import Manifest
from hetesynth.errors import HetesynthError
from hetesynth.model.diagnostics import SourceError

HERE = Path(__file__).resolve().parent
FILES = ["ring.dsl", "racks/topo.dsl"]
SELECTORS = {"rule.clusters", "rule.sizes", "rule.collectives", "rule.targets"}
MUTANTS = 20_000
QUICK = 200


@st.composite
def ranges(draw: st.DrawFn) -> list[str]:
    """Ranges that do not overlap, each spelt somehow."""
    ends = sorted(draw(st.sets(st.integers(1, 1 << 40), min_size=1, max_size=4)))
    texts = [f"..{spelling(ends[0])}", *(f"{spelling(a)} .. {b}B" for a, b in pairwise(ends))]
    texts.append(f"{ends[-1]}B..")
    return draw(st.permutations(texts))


def values(key: Key, where: str) -> st.SearchStrategy[Any]:
    """Values of ``key``, right alone: from its examples, and from its kind where that says all."""
    place = f"{where}{key.name}"
    if place == "rule.clusters":
        return st.sampled_from([["c0"], ["c1"], ["c0", "c1"]])
    if place in ("cluster.topology", "cluster.name", "cluster.without", "cluster.degrade"):
        return st.sampled_from(FILES if key.name == "topology" else [*key.examples])
    if key.name == "sizes":
        return ranges()
    return of_kind(key.kind, f"{place}.", key.examples)


def of_kind(kind: Kind, where: str, examples: tuple[Any, ...] = ()) -> st.SearchStrategy[Any]:
    match kind:
        case Text(choices=choices):
            return st.sampled_from([*(choices or examples)])
        case Whole():
            return st.integers(kind.least, kind.most)
        case Number():
            return st.floats(kind.least, kind.most, exclude_min=kind.above)
        case Truth():
            return st.booleans()
        case Several():
            return st.lists(st.sampled_from(kind.of.choices), min_size=1, max_size=3, unique=True)
        case Tables():
            return st.lists(of_kind(kind.of, where), min_size=kind.least, max_size=2)
        case Table():
            return tables(kind, where)


def tables(table: Table, where: str) -> st.SearchStrategy[dict[str, Any]]:
    required = {key.name: values(key, where) for key in table.keys if key.required}
    optional = {key.name: values(key, where) for key in table.keys if not key.required}
    return st.fixed_dictionaries(required, optional=optional)


def toml(table: dict[str, Any]) -> str:
    """``table`` as one document of inline tables."""
    return "\n".join(f"{name} = {value(one)}" for name, one in table.items()) + "\n"


def value(one: Any) -> str:
    if isinstance(one, dict):
        return "{ " + ", ".join(f"{json.dumps(name)} = {value(inner)}" for name, inner in one.items()) + " }"
    if isinstance(one, list):
        return f"[{', '.join(map(value, one))}]"
    return json.dumps(one) if isinstance(one, str | bool) else repr(one)


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


READ: list[int] = []


@settings(
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
    deadline=None,
)
@given(values_=tables(MANIFEST, ""))
def test_any_manifest_of_the_table_is_read_to_cells_of_different_names(
    folder: Path, values_: dict[str, Any]
) -> None:
    """What contradicts itself is mended first: names, what excludes what, losses that the ring has."""
    for number, cluster in enumerate(values_["cluster"]):
        cluster["name"] = f"c{number}"
        cluster["degrade"] = ["a.gpu0<->a.gpu1=50%"]
    defaults = values_.setdefault("defaults", {})
    defaults.setdefault("collectives", ["allgather"])
    for table in (defaults, *values_["cluster"]):
        if "sizes" in table:
            table.pop("chunks", None)
            table.pop("chunk_size", None)
    path = folder / "hetesynth.toml"
    path.write_text(toml(values_))
    assert tomllib.loads(path.read_text()) == values_
    manifest = outcome(path)
    READ.append(manifest is not None)
    if manifest is not None:
        check(manifest)


def test_many_of_them_were_read() -> None:
    assert sum(READ) > len(READ) / 20


# --- mutants

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
        at, end = sorted(random_.randint(0, len(data)) for _ in range(2))
        match random_.randrange(7):
            case 0:
                data = data[:at] + random_.choice(PIECES) + data[at:]
            case 1:
                data = data[:at] + data[min(end, at + 12) :]
            case 2:
                data = data[:at] + random_.choice(PIECES) + data[min(end, at + 8) :]
            case 3:
                lines = data.split(b"\n")
                random_.shuffle(lines)
                data = b"\n".join(lines)
            case 4:
                lines = data.split(b"\n")
                del lines[random_.randrange(len(lines))]
                data = b"\n".join(lines)
            case 5:
                words = re.findall(rb'"[^"\n]*"|\b[0-9.]+\b|true|false', data) or [b""]
                data = data.replace(random_.choice(words), random_.choice(words), 1)
            case 6:
                other = random_.choice(seeds)
                data = data[:at] + b"\n" + other[random_.randint(0, len(other)) :]
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


@pytest.mark.slow
def test_many_mutated_manifests_are_read_or_refused(folder: Path) -> None:
    assert survive(folder, MUTANTS, 1) > MUTANTS / 100
