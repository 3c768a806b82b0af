"""``hetesynth verify`` of many files and folders: what is judged, for which target, against which index."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from hetesynth.cli.main import run
from hetesynth.deploy import verify_files
from hetesynth.deploy.folder_index import read_index
from hetesynth.errors import HetesynthError

STEP = (
    '<step s="{}" type="{}" srcbuf="i" srcoff="0" dstbuf="o" dstoff="{}" cnt="1" depid="-1" deps="-1" hasdep="0"/>'
)
LINK = "link gpu0 <-> gpu1 { bandwidth 25 GB/s; latency 1 us }"
PAIR = f"cluster pair {{ instance a = two }}\nnode two {{ gpus 2; {LINK} }}"


def program(*, most: str = "1000000", receive: str = "r") -> str:
    """Two GPUs exchange one chunk each (allgather)."""
    lines = [
        '<algo name="t" proto="Simple" nchannels="1" nchunksperloop="2" ngpus="2" coll="allgather" inplace="0" '
        f'outofplace="1" minBytes="0" maxBytes="{most}">'
    ]
    for r in range(2):
        lines += [
            f'<gpu id="{r}" i_chunks="1" o_chunks="2" s_chunks="0">',
            f'<tb id="0" send="{1 - r}" recv="{1 - r}" chan="0">',
            STEP.format(0, "s", r),
            STEP.format(1, receive, 1 - r),
            "</tb>",
            '<tb id="1" send="-1" recv="-1" chan="0">',
            STEP.format(0, "cpy", r),
            "</tb>",
            "</gpu>",
        ]
    return "\n".join([*lines, "</algo>", ""])


GOOD, BAD = program(), program(receive="nop")


def deployed(folder: Path, programs: dict[str, str], **changes: Any) -> Path:
    """A folder as `hetesynth build` leaves one, as far as verify looks at it."""
    (folder / "algorithms").mkdir(parents=True)
    digests = {}
    for name, text in programs.items():
        (folder / "algorithms" / name).write_text(text)
        digests[f"algorithms/{name}"] = hashlib.sha256(text.encode()).hexdigest()
    index = {"kind": "hetesynth deployment", "format": 1, "cluster": "pair", "target": "rccl-6", "files": digests}
    (folder / "index.json").write_text(json.dumps({**index, **changes}))
    return folder


def judged(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, list[str]]:
    code = run(["verify", *map(str, arguments)])
    return code, capsys.readouterr().out.splitlines()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return deployed(tmp_path / "out", {"a.xml": GOOD, "b.xml": GOOD})


def test_a_deployed_folder_is_judged_for_its_target(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = judged(capsys, folder)
    assert code == 0
    assert lines == [
        f"{folder}/algorithms/a.xml: ok for rccl-6",
        f"{folder}/algorithms/b.xml: ok for rccl-6",
        "2 files: 2 ok; 1 other passed over",
    ]
    # maxBytes 0 is no limit there, and nothing at all for the research runtime
    endless = deployed(folder / "sub", {"a.xml": program(most="0")})
    assert judged(capsys, endless)[0] == 0
    assert judged(capsys, endless, "--target", "msccl")[0] == 1
    assert judged(capsys, deployed(folder / "other", {"a.xml": program(most="0")}, target="msccl"))[0] == 1


def _remove(folder: Path) -> None:
    (folder / "algorithms" / "a.xml").unlink()


def _change(folder: Path) -> None:
    (folder / "algorithms" / "a.xml").write_text(GOOD + "\n")


def _extra(folder: Path) -> None:
    (folder / "algorithms" / "c.xml").write_text(GOOD)


def _garbage(folder: Path) -> None:
    (folder / "algorithms" / "notes.txt").write_text("hello")


def _leads_out(folder: Path) -> None:
    (folder.parent / "outside.xml").write_text(GOOD)
    _remove(folder)
    (folder / "algorithms" / "a.xml").symlink_to(folder.parent / "outside.xml")


def _damaged(folder: Path) -> None:
    (folder / "index.json").write_text("")


def _pipe(folder: Path) -> None:
    os.mkfifo(folder / "algorithms" / "pipe.xml")


@pytest.mark.parametrize(
    ("damage", "file", "words"),
    [
        (_remove, "algorithms/a.xml", "missing"),
        (_change, "algorithms/a.xml", "SHA-256"),
        (_extra, "algorithms/c.xml", "does not name it"),
        (_garbage, "algorithms/notes.txt", "does not name it"),
        (_leads_out, "algorithms/a.xml", "missing"),
        (_damaged, "index.json", "is no index"),
        (_pipe, "algorithms/pipe.xml", "does not name it"),
    ],
)
def test_what_the_index_does_not_say_is_a_finding(
    damage: Callable[[Path], None], file: str, words: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage(folder)
    code, lines = judged(capsys, folder)
    wrong = [line for line in lines if ": wrong: " in line]
    assert code == 1 and len(wrong) == 1
    assert wrong[0].startswith(f"{folder}/{file}: wrong: ") and words in wrong[0]
    assert re.fullmatch(r"\d files: \d ok, 1 wrong.*", lines[-1])


def test_an_atlas_is_judged_for_the_targets_of_its_folders(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    for name, text in {"rccl-6": program(most="0"), "msccl": GOOD}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.xml").write_text(text)
    files = ["rccl-6/x.xml", "msccl/x.xml"]
    index = {"kind": "hetesynth atlas", "cluster": "p", "collective": "allgather", "targets": ["rccl-6", "msccl"]}
    (tmp_path / "index.json").write_text(json.dumps({**index, "ranges": [{"files": files}]}))
    code, lines = judged(capsys, tmp_path)
    assert code == 0 and [line.rpartition(" ")[2] for line in lines[:-1]] == ["msccl", "rccl-6"]
    (tmp_path / "msccl" / "x.xml").write_text(program(most="0"))
    assert judged(capsys, tmp_path)[0] == 1
    (tmp_path / "msccl" / "x.xml").unlink()
    assert "missing" in judged(capsys, tmp_path)[1][0]


def test_other_files_are_passed_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.XML").write_text(GOOD)
    for name in ("index.json", "plot.svg", "notes.txt", "data.json", ".hidden.xml"):
        (tmp_path / name).write_text('{"kind": 1}')
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "x.xml").write_text("no")
    (tmp_path / "loop").symlink_to(tmp_path)
    assert judged(capsys, tmp_path) == (0, [f"{tmp_path}/a.XML: ok", "1 file: 1 ok; 6 others passed over"])
    (tmp_path / "b.xml").write_text("hello")
    code, lines = judged(capsys, tmp_path)
    assert code == 1 and lines[-1].startswith("2 files: 1 ok, 1 wrong")


def test_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good, bad, other = (tmp_path / name for name in ("good.xml", "bad.xml", "other.xml"))
    good.write_text(GOOD)
    bad.write_text(BAD)
    other.write_text("hello")
    assert judged(capsys, good, good) == (0, [f"{good}: ok", "1 file: 1 ok"])
    assert judged(capsys, good, bad)[0] == 1
    assert judged(capsys, good, other)[0] == 2
    assert judged(capsys, good, tmp_path / "none.xml")[0] == 2
    assert judged(capsys, tmp_path)[0] == 1
    (tmp_path / "empty").mkdir()
    assert run(["verify", str(good), str(tmp_path / "empty")]) == 2
    assert "HS877" in capsys.readouterr().err


def test_each_file_is_judged_for_the_targets_that_read_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    good, plan = tmp_path / "good.xml", tmp_path / "plan.json"
    good.write_text(GOOD)
    plan.write_text('{"name": "p", "collective": "allgather", "gpus": []}')
    assert judged(capsys, good, plan, "--target", "rccl-6,mscclpp")[1][0] == f"{good}: ok for rccl-6"
    assert judged(capsys, good, good.parent, "--target", "mscclpp")[0] == 2
    code, lines = judged(capsys, tmp_path, "--target", "mscclpp")
    assert code == 1 and lines[0] == f"{good}: ok" and "plan.json: wrong: " in lines[1]


def test_json_and_sarif_and_junit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = deployed(tmp_path / "out", {"a.xml": GOOD, "b\x01\n.xml": BAD})
    report = tmp_path / "report.xml"
    code, lines = judged(capsys, folder, "--json", "--junit", report)
    document = json.loads("\n".join(lines))
    assert code == 1 and not document["ok"] and document["passed_over"] == 1
    assert [entry["ok"] for entry in document["files"]] == [True, False]
    assert document["files"][0]["targets"] == {"rccl-6": {"reader": "accepted", "ok": True}}
    root = ElementTree.fromstring(report.read_bytes())
    assert root.attrib == {"tests": "2", "failures": "1", "errors": "0"}
    cases = root.findall("./testsuite/testcase")
    assert [case.find("failure") is not None for case in cases] == [False, True]
    code, lines = judged(capsys, folder, "--sarif")
    results = json.loads("\n".join(lines))["runs"][0]["results"]
    uris = {r["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for r in results}
    assert code == 1 and len(uris) == 1 and "b%01%0A.xml" in uris.pop()


def test_schedules_are_replayed_on_a_topology_which_is_read_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    topology = tmp_path / "pair.dsl"
    topology.write_text(PAIR)
    out = tmp_path / "out"
    out.mkdir()
    assert run(["synth", str(topology), "--coll", "allgather", "--strategy", "ring", "-o", str(out / "ag")]) == 0
    capsys.readouterr()
    code, lines = judged(capsys, out)
    assert code == 0 and lines[-1] == "3 files: 3 ok"
    assert lines[1].endswith("ag.schedule.json: ok; only its document was checked: --topo replays it")
    loads: list[object] = []
    read = verify_files.load_topology
    monkeypatch.setattr(verify_files, "load_topology", lambda path: loads.append(path) or read(path))
    assert judged(capsys, out, "--topo", topology) == (
        0, [*(f"{out}/ag{end}: ok" for end in (".inplace.xml", ".schedule.json", ".xml")), "3 files: 3 ok"],
    )  # fmt: skip
    assert len(loads) == 1
    schedule = out / "ag.schedule.json"
    assert judged(capsys, schedule, "--topo", topology) == (0, [f"{schedule}: ok"])
    text = schedule.read_text()
    document = json.loads(text)
    document["transfers"][0][2] ^= 1  # another chunk
    schedule.write_text(json.dumps(document))
    assert judged(capsys, out, "--topo", topology)[0] == 1
    assert judged(capsys, schedule, "--topo", topology)[0] == 1
    schedule.write_text(text[: len(text) // 2])
    assert judged(capsys, out)[0] == 1
    schedule.write_text(text)
    three = tmp_path / "three.dsl"
    three.write_text(PAIR.replace("gpus 2", "gpus 3").replace("gpu0 <-> gpu1", "gpu[0-2] <-> gpu[1-2,0]"))
    code, lines = judged(capsys, out, "--topo", three)
    assert code == 1 and sum("HS604" in line for line in lines) == 3


def test_processes_change_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setattr(verify_files, "FILES_OF_A_PROCESS", 1)
    folder = deployed(tmp_path / "out", {f"{n}.xml": BAD if n % 3 else GOOD for n in range(7)})
    alone, together = (judged(capsys, folder, "--jobs", n) for n in (1, 2))
    assert not multiprocessing.active_children()
    assert alone == together and alone[0] == 1 and alone[1][-1].startswith("7 files: 3 ok, 4 wrong")


def test_too_many_files(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    monkeypatch.setattr(verify_files, "MAX_FILES", 4)
    folder = deployed(tmp_path / "out", {f"{n}.xml": GOOD for n in range(5)})
    assert run(["verify", str(folder)]) == 2
    assert "HS875" in capsys.readouterr().err


def _mutants(document: Any, rng: random.Random, number: int) -> list[bytes]:
    """Documents with a value somewhere in them replaced, and texts with bytes replaced."""
    odd: list[Any] = [
        None,
        True,
        -1,
        2**70,
        1.5,
        "",
        "x",
        "../x",
        "/etc/passwd",
        [],
        {},
        [[]],
        {"a": {}},
        "\0",
        ["a"],
    ]
    rows = []
    for _ in range(number):
        copy = json.loads(json.dumps(document))
        place = copy
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            key = rng.choice(keys)
            if not (isinstance(place[key], dict | list) and place[key]) or rng.random() < 0.3:
                break
            place = place[key]
        if rng.random() < 0.2:
            del place[key]
        else:
            place[key] = rng.choice(odd)
        data = bytearray(json.dumps(copy).encode())
        if rng.random() < 0.2:
            data[rng.randrange(len(data))] = rng.randrange(256)
        rows.append(bytes(data))
    return [
        *rows,
        b"[" * 100_000,
        b'{"kind": "hetesynth atlas", "x": ' + b"9" * 10_000 + b"}",
        b"\xff\xfe",
        b"null",
    ]


SEVERAL = {
    "kind": "hetesynth atlas of several collectives", "cluster": "pair", "targets": ["rccl-6"],
    "topology_sha256": "1",
    "collectives": {
        name: {"collective": name, "cluster": "pair", "ranges": [{"files": [f"rccl-6/{name}.xml"]}],
               "sha256": {f"rccl-6/{name}.xml": "0" * 64}}
        for name in ("allgather", "allreduce")
    },
}  # fmt: skip
DEPLOYED = {"kind": "hetesynth deployment", "target": "rccl-6", "files": {"algorithms/a.xml": "0" * 64}}
SINGLE = {"kind": "hetesynth atlas", "targets": ["rccl-6"], **SEVERAL["collectives"]["allgather"]}  # type: ignore[index]


@pytest.mark.parametrize("document", [SEVERAL, DEPLOYED, SINGLE])
def test_an_index_of_anybody_never_breaks_the_reader(tmp_path: Path, document: dict[str, Any]) -> None:
    (tmp_path / "algorithms").mkdir()
    (tmp_path / "index.json").write_text(json.dumps(document))
    index = read_index(tmp_path)
    assert index is not None and index.targets == ("rccl-6",) and index.files
    refused = 0
    for data in _mutants(document, random.Random(7), 200):
        (tmp_path / "index.json").write_bytes(data)
        try:
            index = read_index(tmp_path)
        except HetesynthError as error:
            assert error.code == "HS876" and error.exit_code == 2
            refused += 1
        else:
            assert index is not None
            assert all(".." not in name and not name.startswith("/") for name in index.files)
    assert refused > 50
