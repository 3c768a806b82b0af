"""Files appear whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hetesynth.errors import HetesynthError
from hetesynth.files import atomic as outputs
from hetesynth.files.atomic import write_all, write_atomically

AS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


def names(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


def refused(files: dict[Path, bytes]) -> HetesynthError:
    with pytest.raises(HetesynthError) as caught:
        write_all(files)
    assert (caught.value.code, caught.value.exit_code) == ("HS510", 2) and caught.value.help
    return caught.value


def test_writes_and_replaces(tmp_path: Path) -> None:
    target = tmp_path / "a.xml"
    write_atomically(target, b"one")
    assert target.read_bytes() == b"one" and target.stat().st_mode & 0o600 == 0o600
    target.chmod(0o640)
    write_atomically(str(target), b"two")
    assert target.read_bytes() == b"two" and target.stat().st_mode & 0o777 == 0o640
    assert names(tmp_path) == ["a.xml"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"old")
    (tmp_path / "link").symlink_to("real")
    write_atomically(tmp_path / "link", b"new")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "real").read_bytes() == b"new"


@pytest.mark.parametrize("where", ["missing/a", "folder", "file/a", "x" * 300, "nul\0"])
def test_paths_that_cannot_be_written(tmp_path: Path, where: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"")
    error = refused({tmp_path / "good": b"1", tmp_path / where: b"2"})
    assert "cannot write" in error.message
    assert names(tmp_path) == ["file", "folder"]


def test_a_device_is_not_replaced_and_no_file_is_written_twice(tmp_path: Path) -> None:
    (tmp_path / "b").symlink_to("a")
    assert "another file of the same run" in refused({tmp_path / "a": b"1", tmp_path / "b": b"2"}).message
    assert "not a regular file" in refused({Path("/dev/null"): b"x"}).message


@pytest.mark.skipif(AS_ROOT, reason="root may write everywhere")
def test_a_protected_file_and_folder(tmp_path: Path) -> None:
    (tmp_path / "kept").write_bytes(b"old")
    (tmp_path / "kept").chmod(0o400)
    refused({tmp_path / "kept": b"new"})
    assert (tmp_path / "kept").read_bytes() == b"old"


def test_a_failure_halfway_leaves_the_old_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").write_bytes(b"old")
    flushed: list[int] = []

    def full_disk(handle: int) -> None:
        flushed.append(handle)
        if len(flushed) == 2:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(outputs.os, "fsync", full_disk)
    error = refused({tmp_path / "a": b"new", tmp_path / "b": b"new"})
    assert "No space left" in error.message
    assert names(tmp_path) == ["a"] and (tmp_path / "a").read_bytes() == b"old"
