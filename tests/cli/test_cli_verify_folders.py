"""``hetesynth verify`` of many files and folders: what is judged, for which target, against which index."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from verify.program_builders import good_programs, to_xml

from hetesynth.cli.main import run
from hetesynth.deploy import verify_files
from hetesynth.errors import HetesynthError
from hetesynth.files.folder_index import read_index

LINK = "link gpu0 <-> gpu1 { bandwidth 25 GB/s; latency 1 us }"
PAIR = f"cluster pair {{ instance a = two }}\nnode two {{ gpus 2; {LINK} }}"
DGX1 = Path(__file__).resolve().parents[2] / "examples" / "dgx1" / "topo.dsl"


XML = to_xml(good_programs()["ring_allgather_4"]).decode()


def program(most: str = "1000000") -> str:
    """An allgather for calls of so many bytes at most."""
    return re.sub('maxBytes="[0-9]*"', f'maxBytes="{most}"', XML)


GOOD, BAD = program(), program().replace('type="r"', 'type="nop"', 1)


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
    endless = deployed(folder / "sub", {"a.xml": program("0")})
    assert judged(capsys, endless)[0] == 0
    assert judged(capsys, endless, "--target", "msccl")[0] == 1
    assert judged(capsys, deployed(folder / "other", {"a.xml": program("0")}, target="msccl"))[0] == 1


def without_a_round(table: Any) -> None:
    table["rounds"].pop()


def without_an_operation(plan: Any) -> None:
    plan["gpus"][0]["threadblocks"][0]["ops"].pop()


@pytest.mark.parametrize(
    ("target", "suffix", "change"),
    [("torch", "torch.json", without_a_round), ("mscclpp", "mscclpp.json", without_an_operation)],
)
def test_a_file_of_a_folder_is_judged_and_not_only_its_digest(
    target: str, suffix: str, change: Callable[[Any], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "atlas"
    asked = ["atlas", str(DGX1), "--coll", "allgather", "--sizes", "1MB", "--target", target]
    assert run([*asked, "--effort", "0.05", "-o", str(folder)]) == 0
    capsys.readouterr()
    path = min(folder.rglob(f"*.{suffix}"))
    assert judged(capsys, folder)[0] == 0
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    index = json.loads((folder / "index.json").read_text())
    index["sha256"][path.relative_to(folder).as_posix()] = hashlib.sha256(path.read_bytes()).hexdigest()
    (folder / "index.json").write_text(json.dumps(index))
    code, lines = judged(capsys, folder)
    assert code == 1 and any(line.startswith(f"{path}: wrong: ") for line in lines)


def _remove(folder: Path) -> None:
    (folder / "algorithms" / "a.xml").unlink()


def _change(folder: Path) -> None:
    (folder / "algorithms" / "a.xml").write_text(GOOD + "\n")


def _leads_out(folder: Path) -> None:
    (folder.parent / "outside.xml").write_text(GOOD)
    _remove(folder)
    (folder / "algorithms" / "a.xml").symlink_to(folder.parent / "outside.xml")


def _damaged(folder: Path) -> None:
    (folder / "index.json").write_text("")


@pytest.mark.parametrize(
    ("damage", "file", "words"),
    [
        (_remove, "algorithms/a.xml", "missing"),
        (_change, "algorithms/a.xml", "SHA-256"),
        (_leads_out, "algorithms/a.xml", "missing"),
        (_damaged, "index.json", "is no index"),
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
    for name, text in {"rccl-6": program("0"), "msccl": GOOD}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.xml").write_text(text)
    files = ["rccl-6/x.xml", "msccl/x.xml"]
    index = {"kind": "hetesynth atlas", "cluster": "p", "collective": "allgather", "targets": ["rccl-6", "msccl"]}
    (tmp_path / "index.json").write_text(json.dumps({**index, "ranges": [{"files": files}]}))
    code, lines = judged(capsys, tmp_path)
    assert code == 0 and [line.rpartition(" ")[2] for line in lines[:-1]] == ["msccl", "rccl-6"]
    (tmp_path / "msccl" / "x.xml").write_text(program("0"))
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


@pytest.mark.parametrize("value", [None, -1, 2**70, "", "../x", "/etc/passwd", [], {"a": {}}, "\0"])
@pytest.mark.parametrize("key", ["kind", "files", "target", "cluster"])
def test_an_index_of_anybody_never_breaks_the_reader(key: str, value: Any, tmp_path: Path) -> None:
    index = {"kind": "hetesynth deployment", "target": "rccl-6", "files": {"algorithms/a.xml": "0" * 64}}
    for changed in ({**index, key: value}, {**index, "files": {str(value): value}}):
        (tmp_path / "index.json").write_text(json.dumps(changed))
        try:
            read = read_index(tmp_path)
        except HetesynthError as error:
            assert error.code == "HS876" and error.exit_code == 2
        else:
            assert read is None or all(".." not in name and not name.startswith("/") for name in read.files)
