"""A cache that somebody else wrote: nothing leaves its folder, and nothing wrong is deployed.

Every forgery is consistent: digests and seals are those of what was forged.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import stat
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from support.one_cell_project import Here, Project
from support.small_projects import tree

from hetesynth.cli.main import run
from hetesynth.deploy.cache import Cache, CellResult, unpacked
from hetesynth.deploy.folder.cells import program_file
from hetesynth.deploy.folder.folder import deployed
from hetesynth.errors import HetesynthError
from hetesynth.model.target import target

Forge = Callable[[CellResult], CellResult]


@pytest.fixture
def project(tmp_path: Path) -> Project:
    (tmp_path / "inner/project").mkdir(parents=True)
    return Project(tmp_path / "inner/project")


def resealed(result: CellResult, files: dict[str, bytes], **record: Any) -> CellResult:
    """``result`` with these files and their digests."""
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    return replace(result, files=files, record={**result.record, "files": digests, **record})


def kept(project: Project, forge: Forge) -> CellResult:
    """The right result of the cell, and the forged one as the entry of the cache."""
    right = project.made_by("auto")
    Cache(project.folder / "cache").put(forge(right))
    return right


def program(result: CellResult, edit: Callable[[str], str]) -> CellResult:
    return resealed(
        result,
        {name: edit(d.decode()).encode() if name.endswith(".xml") else d for name, d in result.files.items()},
    )


def schedule(result: CellResult, edit: Callable[[dict[str, Any]], None]) -> CellResult:
    files = dict(result.files)
    for name, data in files.items():
        if name.endswith(".schedule.json"):
            values = json.loads(data)
            edit(values)
            files[name] = json.dumps(values).encode()
    return resealed(result, files)


def times(result: CellResult, **values: Any) -> CellResult:
    rows = [{**row, **values} for row in result.record["sizes"]]
    return replace(result, record={**result.record, "sizes": rows})


def last_transfer(values: dict[str, Any]) -> None:
    values["transfers"].pop()


def honest(result: CellResult) -> CellResult:
    """Its record says of its programs what is in them."""
    programs = [
        asdict(program_file(name, data, target("rccl-6"), None))
        for name, data in result.files.items()
        if name.endswith(".xml")
    ]
    return replace(result, record={**result.record, "programs": programs})


def for_all_sizes(text: str) -> str:
    return re.sub(r'maxBytes="\d+"', 'maxBytes="1099511627776"', re.sub(r'minBytes="\d+"', 'minBytes="0"', text))


def twice(result: CellResult, ending: str) -> CellResult:
    name = next(name for name in result.files if name.endswith(ending))
    copy = name.replace(ending, f".copy{ending}")
    return honest(resealed(result, {**result.files, copy: result.files[name]}))


WRONG: dict[str, Forge] = {
    "a program that lands a chunk elsewhere": lambda r: program(
        r, lambda t: re.sub(r'(type="r"[^>]* dstoff=)"[0-9]+"', r'\1"0"', t, count=1)),
    "a program with a step less": lambda r: program(r, lambda t: "\n".join(
        line for i, line in enumerate(t.splitlines()) if not ("<step" in line and 'type="cpy"' in line))),
    "no program": lambda r: resealed(r, {n: d for n, d in r.files.items() if n.endswith(".json")}, programs=[]),
    "a schedule without its last transfer": lambda r: schedule(r, last_transfer),
    "better times": lambda r: times(r, program_us=1.0),
    "no times": lambda r: replace(r, record={**r.record, "sizes": []}),
    "a record of other programs": lambda r: replace(r, record={
        **r.record, "programs": [{**row, "max_bytes": 1 << 40} for row in r.record["programs"]]}),
    "another cluster": lambda r: replace(r, record={**r.record, "topology_sha256": "0" * 64}),
    "other steps": lambda r: replace(r, record={**r.record, "steps": 7, "lower_bound": 7}),
    "more steps proved than it has": lambda r: replace(r, record={
        **r.record, "lower_bound": r.record["steps"] + 1, "proven_optimal": False}),
    "a program for all sizes": lambda r: honest(program(r, for_all_sizes)),
    "a program twice": lambda r: twice(r, ".xml"),
    "an older one that stays": lambda r: replace(r, record={**r.record, "measured_on": "0" * 64}),
    "files called otherwise": lambda r: resealed(r, {f"x{n}": d for n, d in r.files.items()}),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_result_is_made_anew(project: Project, name: str) -> None:
    right = kept(project, WRONG[name])
    forged = Cache(project.folder / "cache").get(right.key)
    assert forged is None or forged != right
    runner = Here()
    report = project.built(runner)
    assert [cell.status for cell in report.cells] == ["built"]
    assert runner.names == [report.cells[0].cell.name]
    told = [text for text in report.warnings if "the cache has a wrong result for" in text]
    assert len(told) == (forged is not None)
    assert Cache(project.folder / "cache").get(right.key) is None, "a worker keeps the new one"
    assert project.check().cells[0].status == "current"


def outside(path: Path) -> dict[str, bytes]:
    return {name: data for name, data in tree(path).items() if not name.startswith("inner/project/")}


NAMES = ("../../../x", "/tmp/x", "..", "algorithms/x", "a\0b")


@pytest.mark.parametrize("name", NAMES)
def test_names_that_lead_elsewhere_are_no_result(project: Project, tmp_path: Path, name: str) -> None:
    def forge(result: CellResult) -> CellResult:
        return resealed(result, {**result.files, name: b"owned"})

    try:
        right = kept(project, forge)
    except ValueError:
        return  # no archive can have such a name
    assert Cache(project.folder / "cache").get(right.key) is None
    assert project.build(Here()).status == "built"
    assert outside(tmp_path) == {}
    assert b"owned" not in tree(project.folder / "schedules").values()


def test_links_in_a_cache_lead_nowhere(project: Project, tmp_path: Path) -> None:
    """Others who share a cache may make them."""
    right, cache = project.made_by("auto"), Cache(project.folder / "cache")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    cache.folder.mkdir()
    cache.path(right.key).parent.symlink_to(elsewhere)
    with pytest.raises(HetesynthError, match="a link"):
        cache.put(right)
    assert list(elsewhere.iterdir()) == []


def test_what_the_tool_makes_is_private_and_what_was_shared_stays_so(project: Project) -> None:
    before = os.umask(0)
    try:
        right = kept(project, lambda result: result)
        cache = Cache(project.folder / "cache")
        modes = {stat.S_IMODE(p.stat().st_mode) for p in (cache.folder, cache.path(right.key).parent)}
        assert modes == {0o700}
        assert stat.S_IMODE(cache.path(right.key).stat().st_mode) == 0o600
        shared = project.folder / "shared"
        shared.mkdir(mode=0o770)
        Cache(shared).put(right)
        assert stat.S_IMODE(Cache(shared).path(right.key).stat().st_mode) == 0o660
    finally:
        os.umask(before)


def test_a_cache_that_anybody_may_write_is_refused(project: Project) -> None:
    (project.folder / "cache").mkdir()
    (project.folder / "cache").chmod(0o777)
    with pytest.raises(HetesynthError, match="anybody") as raised:
        project.build(Here())
    assert raised.value.code == "HS881"


def mutated(rng: random.Random, values: Any) -> Any:
    """``values`` of JSON with other values somewhere."""
    values = json.loads(json.dumps(values))
    for _ in range(rng.randrange(1, 4)):
        at: Any = values
        while isinstance(at, dict | list) and at:
            key = rng.choice([*at]) if isinstance(at, dict) else rng.randrange(len(at))
            if rng.random() < 0.4 or not isinstance(at[key], dict | list):
                at[key] = rng.choice([None, 3, -1, "x", [], {}, "../../x", "/etc/passwd", 1e308, True, [{}], "\0"])
                break
            at = at[key]
    return values


def test_hostile_entries_and_indexes(project: Project, capfd: pytest.CaptureFixture[str]) -> None:
    """Names and values of any kind under right seals, read by all that reads caches and folders."""
    right, rng = project.made_by("auto"), random.Random(1)
    for _ in range(150):
        files = right.files | ({rng.choice(NAMES[:3]): b"owned"} if rng.random() < 0.5 else {})
        forged = resealed(right, files)
        result = unpacked(replace(forged, record=mutated(rng, forged.record)).packed(), right.key)
        assert result is None or {Path(name).name for name in result.files} == result.files.keys()
    project.build(Here())
    path, before = project.deployed / "index.json", outside(project.folder.parents[1])
    good = json.loads(path.read_text())
    for i in range(40):
        path.write_text(json.dumps(mutated(rng, good)))
        deployed(project.deployed)
        if i % 20 == 0:
            assert run(["install-hint", str(project.deployed)]) in (0, 1, 2)
            assert run(["build", str(project.folder / "hetesynth.toml"), "--check", "--quick"]) in (0, 1, 2)
    assert outside(project.folder.parents[1]) == before
    assert "internal error" not in capfd.readouterr().err
