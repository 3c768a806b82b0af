"""Builds without room: a full disk and a read-only one, each a small file system of its own."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.small_projects import MANIFEST, check_folders, run, tree, whole_entries, write_project

SMALL = (
    MANIFEST.replace(', "mscclpp"', "").replace(', "broadcast"', "").partition('[[cluster]]\ntopology = "four')[0]
)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = shutil.which("mount") and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "none", str(folder)], capture_output=True, check=False
    )
    if not mounted or mounted.returncode:
        pytest.skip("a file system can be mounted by root alone, where the system lets it")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_leaves_the_old_folder_and_keeps_what_was_made(tmp_path: Path, small_disk: Path) -> None:
    project, cache = write_project(small_disk / "project"), tmp_path / "cache"
    manifest = project / "hetesynth.toml"
    manifest.write_text(SMALL)
    first = run(project, cache)
    assert first.returncode == 0, first.stderr
    before = tree(project / "schedules")
    (small_disk / "filler").write_bytes(b"x" * room_of(small_disk, 12_000))
    manifest.write_text(SMALL.replace('"allgather"', '"allgather", "allreduce"'))
    full = run(project, cache)
    assert full.returncode == 2
    assert "HS880" in full.stderr
    assert "No space left" in full.stderr
    assert "Traceback" not in full.stderr
    assert tree(project / "schedules") == before
    assert len(whole_entries(cache)) == 4
    (small_disk / "filler").unlink()
    again = run(project, cache)
    assert again.returncode == 0, again.stderr
    assert "2 cached" in again.stdout
    check_folders(project / "schedules")


def test_a_full_cache_costs_a_note_and_no_result(tmp_path: Path, small_disk: Path) -> None:
    project = write_project(tmp_path / "project")
    (project / "hetesynth.toml").write_text(SMALL)
    (small_disk / "filler").write_bytes(b"x" * room_of(small_disk, 0))
    full = run(project, small_disk / "cache")
    assert full.returncode == 0, full.stderr
    assert "cannot write into the cache" in full.stderr
    check_folders(project / "schedules")
    assert not whole_entries(small_disk / "cache")
    assert not list((small_disk / "cache").rglob(".*"))


def test_a_read_only_folder_is_said_before_the_work_and_does_not_matter_where_nothing_is_stale(
    tmp_path: Path, small_disk: Path
) -> None:
    project, cache = write_project(small_disk / "project"), tmp_path / "cache"
    manifest = project / "hetesynth.toml"
    manifest.write_text(SMALL)
    assert run(project, cache).returncode == 0
    before = tree(project / "schedules")
    manifest.write_text(SMALL.replace('"allgather"', '"allgather", "allreduce"'))
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    refused = run(project, cache)
    assert refused.returncode == 2
    assert "HS880" in refused.stderr
    assert "Read-only file system" in refused.stderr
    assert len(whole_entries(cache)) == 2, "nothing is made where it cannot be written"
    subprocess.run(["mount", "-o", "remount,rw", str(small_disk)], check=True)
    manifest.write_text(SMALL)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    current = run(project, cache)
    assert current.returncode == 0, current.stderr
    assert tree(project / "schedules") == before


def room_of(disk: Path, left: int) -> int:
    """Bytes that leave ``left`` of the room on ``disk``."""
    return max(0, shutil.disk_usage(disk).free - left)
