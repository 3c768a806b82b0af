"""Killed or interrupted at any call that changes files: what is there is old, new, or known to be mixed."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest
from support.calls import at_every_call

from hetesynth.errors import HetesynthError
from hetesynth.files import atomic as outputs
from hetesynth.files import folders, temporaries
from hetesynth.files.atomic import write_all, write_atomically
from hetesynth.files.folders import write_folder

NAMES = ["ar.xml", "ar.inplace.xml", "ar.schedule.json"]
MARK = b"marked"


def contents(folder: Path) -> dict[str, bytes]:
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def visible(folder: Path) -> dict[str, bytes]:
    return {name: data for name, data in contents(folder).items() if not name.startswith(".")}


def the_set(folder: Path, data: bytes) -> dict[Path, bytes]:
    return {folder / name: data + name.encode() for name in NAMES}


def named(files: dict[Path, bytes]) -> dict[str, bytes]:
    return {path.name: data for path, data in sorted(files.items())}


def emptied(folder: Path) -> None:
    for path in folder.iterdir():
        temporaries.remove(path)


def test_a_killed_run_leaves_one_set_or_says_that_it_is_mixed(tmp_path: Path) -> None:
    old, new, third = (the_set(tmp_path, word) for word in (b"old ", b"new ", b"third "))

    def before() -> None:
        emptied(tmp_path)
        write_all(old)

    whole = [named(old), named(new)]
    mixed = 0
    for _, status in at_every_call(lambda: write_all(new), signal.SIGKILL, before):
        assert os.WIFSIGNALED(status)
        known = [outputs.cut_off(path) is not None for path in new]
        assert all(known) or not any(known)
        assert any(known) == (visible(tmp_path) not in whole)
        mixed += any(known)
        write_all(third)
        assert contents(tmp_path) == named(third)
    assert mixed == 2  # after the first and the second rename of three


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_one_set_and_nothing_else(tmp_path: Path, number: int) -> None:
    old, new = the_set(tmp_path, b"old "), the_set(tmp_path, b"new ")

    def before() -> None:
        emptied(tmp_path)
        write_all(old)

    ends = set()
    for _, status in at_every_call(lambda: write_all(new), number, before):
        now = contents(tmp_path)
        assert now in (named(old), named(new))
        if number == signal.SIGINT:  # 0: too late, the files are there
            assert os.WEXITSTATUS(status) == (3 if now == named(old) else 0)
        else:
            assert os.WIFSIGNALED(status) and os.WTERMSIG(status) == number
        ends.add(now == named(new))
    assert ends == {True, False}


def test_a_rename_that_fails_after_another_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = the_set(tmp_path, b"old "), the_set(tmp_path, b"new ")
    replace = os.replace

    def fails(at: str) -> None:
        def replaced(source: Path, target: Path) -> None:
            if target.name == at:
                raise OSError(30, "Read-only file system")
            replace(source, target)

        monkeypatch.setattr(outputs.os, "replace", replaced)

    write_all(old)
    fails("ar.xml")
    with pytest.raises(HetesynthError, match=r"Read-only file system$"):
        write_all(new)
    assert contents(tmp_path) == named(old)
    fails("ar.schedule.json")
    with pytest.raises(HetesynthError, match="the files before it are written"):
        write_all(new)
    assert outputs.cut_off(tmp_path / "ar.xml") is not None
    monkeypatch.undo()
    write_all(new)
    assert contents(tmp_path) == named(new)


def test_what_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    target = tmp_path / "ar.xml"
    others = [
        tmp_path / ".ar.xml.part",
        tmp_path / ".ar.xml.0123abcd.part",
        temporaries.temporary(tmp_path / "ar.inplace.xml"),
        tmp_path / ".hetesynth.0123abcd.writing",
    ]
    for path in others:
        path.write_bytes(b'{"hetesynth-writing": 1, "files": [{"file": "../x", "part": "ar", "sha256": ""}]}')
    folder = temporaries.temporary(target)
    folder.mkdir()
    write_atomically(target, b"data")
    assert set(tmp_path.iterdir()) == {target, folder, *others}
    assert outputs.cut_off(target) is None


def test_a_reader_waits_for_a_run_that_is_writing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new, replace, begun = the_set(tmp_path, b"new "), os.replace, threading.Event()

    def slowly(source: Path, target: Path) -> None:
        replace(source, target)
        if target.name == "ar.inplace.xml":
            begun.set()
            time.sleep(0.3)

    monkeypatch.setattr(outputs.os, "replace", slowly)
    writer = threading.Thread(target=write_all, args=[new])
    writer.start()
    begun.wait()
    assert outputs.cut_off(tmp_path / "ar.xml") is None
    assert visible(tmp_path) == named(new)
    writer.join()


# -- folders


@pytest.mark.parametrize("in_one_step", [True, False])
def test_a_killed_run_leaves_one_folder(
    tmp_path: Path, in_one_step: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "atlas"
    old, new, third = ({"index.json": MARK + word, "x/y": word} for word in (b"old", b"new", b"third"))
    if not in_one_step:
        monkeypatch.setattr(folders, "_swapped", lambda *_: False)

    def before() -> None:
        emptied(tmp_path)
        write_folder(target, old, MARK)

    gone = 0
    for _, status in at_every_call(lambda: write_folder(target, new, MARK), signal.SIGKILL, before):
        assert os.WIFSIGNALED(status)
        if target.exists():
            assert contents(target) in (old, new)
            assert folders.cut_off(target / "x" / "y") is None
        else:
            was = folders.cut_off(target / "x" / "y")
            assert was is not None and contents(was) == old
            gone += 1
            with pytest.raises(HetesynthError):  # refused for another reason, but the older folder is back
                write_folder(target, new, b"another mark")
            assert contents(target) == old
        write_folder(target, third, MARK)
        assert contents(target) == third and [p.name for p in tmp_path.iterdir()] == ["atlas"]
    assert (gone > 0) != in_one_step


def test_the_current_folder_is_not_exchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(HetesynthError, match="current folder"):
        write_folder(Path(), {"index.json": MARK}, MARK)
