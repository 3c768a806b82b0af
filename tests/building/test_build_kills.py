"""Builds that are killed, crowded, or have no room: nothing half-written is ever visible, and nothing is lost."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from support.one_cell_project import Cached
from support.small_projects import ONE_CELL, check_folders, command, run, tree, whole_entries, write_project

from hetesynth.deploy.build import build
from hetesynth.deploy.cache import Cache
from hetesynth.deploy.manifest.reader import read_manifest
from hetesynth.deploy.outcome import BuildReport, Watcher
from hetesynth.errors import HetesynthError


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = write_project(tmp_path_factory.mktemp("undisturbed") / "project")
    ended = run(folder, folder.parent / "cache")
    assert ended.returncode == 0, ended.stderr
    return tree(folder / "schedules")


def processes_of(group: int) -> list[int]:
    """The processes of a process group."""
    numbers = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[2]) == group and fields[0] != "Z":
                numbers.append(int(entry.name))
    return numbers


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="finds processes in /proc")
def test_a_hundred_kills_leave_nothing_half_written_and_lose_nothing(
    tmp_path: Path, undisturbed: dict[str, bytes]
) -> None:
    """A seeded choice of when, and of whom: the build alone, one of its processes, or all of them at once. A build
    that ended before it was killed does not count; after it all begins anew, so that kills come at every stage."""
    folder, cache = write_project(tmp_path / "project"), tmp_path / "cache"
    chance, entries, kills, ended_well = random.Random(15), set[str](), 0, 0
    while kills < 100:
        process = subprocess.Popen(
            command(folder, cache), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        time.sleep(chance.uniform(0.1, 6.0))
        kills += _killed(process, chance)
        over = process.wait(timeout=120) == 0
        ended_well += over
        deadline = time.monotonic() + 600
        while processes_of(process.pid) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not processes_of(process.pid), "a process outlives its build"
        check_folders(folder / "schedules")
        now = whole_entries(cache)
        assert entries <= now
        entries = now
        if over and kills < 100:
            shutil.rmtree(folder / "schedules")
            if ended_well % 2:  # else all is in the cache, and folders alone are written
                shutil.rmtree(cache)
                entries = set()
    last = run(folder, cache)
    assert last.returncode == 0, last.stderr
    assert tree(folder / "schedules") == undisturbed
    assert not list((folder / "schedules").rglob(".*"))


def _killed(process: subprocess.Popen[bytes], chance: random.Random) -> bool:
    """Whether the build still ran when it, one of its processes or all of them were killed."""
    victims = processes_of(process.pid)
    if process.poll() is not None or not victims:
        return False
    whom = chance.choice(["build", "worker", "all"])
    chosen = {"build": [process.pid], "all": victims}.get(whom, chance.sample(victims, 1))
    for number in chosen:
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)
    return True


def test_two_builds_at_once_end_well_with_one_result(tmp_path: Path) -> None:
    folder, cache = write_project(tmp_path / "project"), tmp_path / "cache"
    (folder / "hetesynth.toml").write_text(ONE_CELL)
    both = [
        subprocess.Popen(command(folder, cache), stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(2)
    ]
    said = [process.communicate(timeout=300) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    check_folders(folder / "schedules")
    assert len(whole_entries(cache)) == 1


# --- builds without room: a full disk and a read-only one, each a small file system of its own


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


def test_a_full_or_read_only_disk_leaves_the_old_folder_and_keeps_what_was_made(
    tmp_path: Path, small_disk: Path
) -> None:
    project, cache = write_project(small_disk / "project"), tmp_path / "cache"

    def built(text: str) -> BuildReport:
        (project / "hetesynth.toml").write_text(text)
        return build(read_manifest(project / "hetesynth.toml"), Cached(cache), Cache(cache), Watcher())

    def remounted(mode: str) -> None:
        subprocess.run(["mount", "-o", f"remount,{mode}", str(small_disk)], check=True)

    assert built(ONE_CELL).ok
    before, more = tree(project / "schedules"), ONE_CELL.replace('"allgather"', '"allgather", "broadcast"')
    (project / "hetesynth.toml").write_text(more)
    remounted("ro")
    with pytest.raises(HetesynthError, match="Read-only file system") as refused:
        build(read_manifest(project / "hetesynth.toml"), Cached(cache), Cache(cache), Watcher())
    assert refused.value.code == "HS880"
    assert len(whole_entries(cache)) == 1, "nothing is made where it cannot be written"
    remounted("rw")
    (small_disk / "filler").write_bytes(b"x" * (shutil.disk_usage(small_disk).free - 12_000))
    with pytest.raises(HetesynthError, match="No space left") as full:
        built(more)
    assert full.value.code == "HS880" and tree(project / "schedules") == before
    assert len(whole_entries(cache)) == 2
    (small_disk / "filler").unlink()
    assert [cell.status for cell in built(more).cells] == ["current", "cached"]
    check_folders(project / "schedules")
