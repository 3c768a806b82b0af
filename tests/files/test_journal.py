"""A journal is believed only where each guard holds: one forged or damaged moves and removes nothing."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

from hetesynth.files import journal as module
from hetesynth.files.journal import Entry, cut_off, digest_of, journals, recover, write_journals
from hetesynth.files.temporaries import temporary


def begun(folder: Path, *names: str) -> list[Entry]:
    """A run was killed when the first of the files ``names`` was renamed: its entries, with their journal."""
    entries = []
    for name in names:
        target = folder / name
        target.write_bytes(b"old")
        part = temporary(target)
        part.write_bytes(b"new " + name.encode())
        entries.append(Entry(part, target, str(digest_of(part))))
    write_journals(entries)
    os.replace(entries[0].part, entries[0].target)
    return entries


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


def test_what_was_begun_is_ended(tmp_path: Path) -> None:
    entries = begun(tmp_path, "a", "b")
    assert cut_off(tmp_path / "b") is not None
    assert cut_off(tmp_path / "another") is None
    recover([tmp_path / "another"], alone=True)
    assert (tmp_path / "b").read_bytes() == b"old"
    recover([tmp_path / "another", tmp_path / "b"], alone=True)
    assert (tmp_path / "b").read_bytes() == b"new b"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]
    assert not entries[1].part.exists()


@pytest.mark.parametrize(
    "values", [{"part": "../victim"}, {"part": "victim"}, {"file": "../b"}, {"files": [1]}, {"part": 7}], ids=str
)
def test_a_forged_journal_is_none(tmp_path: Path, values: dict[str, Any]) -> None:
    """What it names as temporary would be renamed over a file, or removed."""
    folder = tmp_path / "inner"
    folder.mkdir()
    begun(folder, "a", "b")
    for victim in (tmp_path / "victim", folder / "victim"):
        victim.write_bytes(b"new b")
    changed(folder, **values)
    assert journals(folder) == []
    recover([folder / "a", folder / "b"], alone=True)
    assert (folder / "b").read_bytes() == b"old"
    assert (tmp_path / "victim").exists() and (folder / "victim").exists()


def test_a_journal_that_is_no_object_is_none(tmp_path: Path) -> None:
    begun(tmp_path, "a", "b")
    for text in (b"[]", b"{", b"\xff", b'"text"', b"[" * 100_000):
        the_journal(tmp_path).write_bytes(text)
        assert journals(tmp_path) == []


def test_a_link_a_folder_or_a_pipe_is_no_journal(tmp_path: Path) -> None:
    begun(tmp_path, "a", "b")
    path = the_journal(tmp_path)
    kept = path.rename(tmp_path / "kept")
    path.symlink_to(kept)
    assert journals(tmp_path) == []
    path.unlink()
    os.mkfifo(path)  # reading it would wait forever
    assert journals(tmp_path) == []
    assert digest_of(path) is None
    assert [journal.path for journal in module.journals(tmp_path / "nowhere")] == []


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


def test_renames_are_on_disk_before_the_journal_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun(tmp_path, "a", "b")
    seen: list[tuple[bytes, bool]] = []

    def sync(folder: Path) -> None:
        seen.append(
            ((folder / "b").read_bytes(), bool(list(folder.glob("*.writing")) + list(folder.glob(".*.writing"))))
        )

    monkeypatch.setattr(module, "sync", sync)
    recover([tmp_path / "b"], alone=True)
    assert seen == [(b"new b", True), (b"new b", False)]
