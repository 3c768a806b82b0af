"""A journal tells of a set that was cut off; one forged or damaged moves and removes nothing."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from hetesynth.files import atomic as module
from hetesynth.files.atomic import Entry, cut_off, journals_in, write_all, write_atomically, write_journals
from hetesynth.files.regular_files import digest_of
from hetesynth.files.temporaries import temporary


def begun(folder: Path, *names: str) -> None:
    """A run was killed when the first of the files ``names`` was renamed."""
    entries = []
    for name in names:
        target = folder / name
        target.write_bytes(b"old")
        part = temporary(target)
        part.write_bytes(b"new " + name.encode())
        entries.append(Entry(part, target, str(digest_of(part))))
    write_journals(entries)
    os.replace(entries[0].part, entries[0].target)


def the_journal(folder: Path) -> Path:
    (path,) = folder.glob(f"{module.PREFIX}*{module.ENDING}")
    return path


def changed(folder: Path, **values: Any) -> Path:
    """The journal with other values in its document, or in its last row."""
    path = the_journal(folder)
    document = json.loads(path.read_bytes())
    for key, value in values.items():
        (document if key in document else document["files"][-1])[key] = value
    path.write_text(json.dumps(document))
    return path


def test_a_set_that_was_cut_off_is_known_until_all_of_it_is_new(tmp_path: Path) -> None:
    begun(tmp_path, "a", "b")
    assert cut_off(tmp_path / "b") is not None
    assert cut_off(tmp_path / "another") is None
    write_atomically(tmp_path / "b", b"third")
    assert cut_off(tmp_path / "a") is not None
    write_all({tmp_path / name: b"fourth" for name in "ab"})
    assert cut_off(tmp_path / "a") is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


@pytest.mark.parametrize("values", [{"part": "../victim"}, {"file": "../victim"}, {"files": [1]}], ids=str)
def test_a_forged_journal_moves_and_removes_nothing(tmp_path: Path, values: dict[str, Any]) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    begun(folder, "a", "b")
    (tmp_path / "victim").write_bytes(b"mine")
    changed(folder, **values)
    write_all({folder / name: b"third" for name in "ab"})
    assert (folder / "b").read_bytes() == b"third"
    assert (tmp_path / "victim").read_bytes() == b"mine"


def test_a_link_a_folder_or_a_pipe_is_no_journal(tmp_path: Path) -> None:
    begun(tmp_path, "a", "b")
    path = the_journal(tmp_path)
    kept = path.rename(tmp_path / "kept")
    path.symlink_to(kept)
    assert journals_in(tmp_path) == []
    path.unlink()
    os.mkfifo(path)  # reading it would wait forever
    assert journals_in(tmp_path) == []
    assert digest_of(path) is None
    assert [journal.path for journal in journals_in(tmp_path / "nowhere")] == []


def test_a_journal_that_cannot_be_written_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the second folder the disk is full: the first folder's journal goes too, and the caller learns of it."""
    entries = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        target = tmp_path / name / "file"
        entries.append(Entry(temporary(target), target, hashlib.sha256(b"").hexdigest()))
    synced: list[Path] = []

    def sync(folder: Path) -> None:
        synced.append(folder)
        if folder.name == "two":
            raise OSError(28, "no space left")

    monkeypatch.setattr(module, "sync", sync)
    with pytest.raises(OSError, match="no space"):
        write_journals(entries)
    assert synced == [tmp_path / "one", tmp_path / "two"]
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []
