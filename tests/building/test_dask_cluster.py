"""``hetesynth build --scheduler``: the same bytes as here, whatever becomes of workers and of the scheduler."""

from __future__ import annotations

import dataclasses
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.dask_processes import ROOT, dask_processes, eventually
from support.small_projects import RING, check_folders, whole_entries

from hetesynth.deploy.build import FolderPlan, folder_plans, load_clusters
from hetesynth.deploy.cache import Cache
from hetesynth.deploy.compute import compute
from hetesynth.deploy.dask_cluster import DaskCluster, cell
from hetesynth.deploy.job import Job
from hetesynth.deploy.manifest.reader import read_manifest
from hetesynth.deploy.outcome import Watcher
from hetesynth.deploy.workers import Failed
from hetesynth.errors import HetesynthError

distributed = pytest.importorskip("distributed", reason="the extra `cluster` is not installed")


MANY = ("allgather", "allreduce", "reducescatter", "alltoall")


def manifest(folder: Path, collectives: tuple[str, ...], chunks: tuple[int, ...] = (1,)) -> Path:
    """Of a ring of 4 GPUs, once for each number of chunks."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ring.dsl").write_text(RING.format(name="four", gpus=4, last=3, rate=10))
    path = folder / "hetesynth.toml"
    named = ", ".join(f'"{name}"' for name in collectives)
    clusters = [f'[[cluster]]\nname = "ring{n}"\nchunks = {n}\ntopology = "ring.dsl"\n' for n in chunks]
    path.write_text(f'[defaults]\ncollectives = [{named}]\ntargets = ["rccl-6"]\n{"".join(clusters)}')
    return path


class Listening(Watcher):
    """``said``: what an operator is told."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def warned(self, message: str) -> None:
        self.said.append(message)


def jobs(folder: Path, *collectives: str) -> tuple[Job, ...]:
    stated = read_manifest(manifest(folder, collectives))
    plans: tuple[FolderPlan, ...] = folder_plans(stated, load_clusters(stated))
    return tuple(job for plan in plans for job in plan.jobs)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Of a scheduler with one worker, in threads of this process."""
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, protocol="tcp", dashboard_address=None
    ) as cluster:
        yield cluster.scheduler_address


def test_a_cell_made_in_a_thread_of_a_worker_is_the_one_made_here(address: str, tmp_path: Path) -> None:
    asked = jobs(tmp_path, "allgather", "allreduce")
    watcher = Listening()
    outcomes = {o.key: o for o in DaskCluster(address, tmp_path / "cache").run(asked, watcher)}
    assert outcomes == {job.key: compute(job) for job in asked} and watcher.said == []
    assert {job.key: Cache(tmp_path / "cache").get(job.key) for job in asked} == outcomes


def test_a_wrong_result_of_a_worker_fails_its_cell(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is whole, and its digests are right."""
    (job,) = jobs(tmp_path, "allgather")
    right = compute(job)
    wrong = dataclasses.replace(right, record={**right.record, "sizes": right.record["sizes"] * 2})
    monkeypatch.setattr("hetesynth.deploy.dask_cluster.made", lambda *arguments: wrong)
    (outcome,) = DaskCluster(address, tmp_path / "cache").run([job], Watcher())
    assert isinstance(outcome, Failed)
    assert (outcome.key, outcome.code) == (job.key, "HS888")


def test_a_worker_of_other_versions_is_refused(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (job,) = jobs(tmp_path, "allgather")
    with distributed.Client(address, set_as_default=False) as client:
        answer = client.submit(cell, b"not read", (("z3-solver", "9.9"),)).result(timeout=10)
    assert isinstance(answer, tuple) and answer[0].startswith("tcp://")
    other = dataclasses.replace(job, versions=(("z3-solver", "9.9"),))
    with pytest.raises(HetesynthError) as caught:
        list(DaskCluster(address, tmp_path / "cache").run([other], Watcher()))
    assert caught.value.code == "HS859" and "tcp://" in caught.value.message and caught.value.help


@pytest.mark.parametrize("stated", ["tcp://127.0.0.1:{free}", "nonsense://x", "tls://127.0.0.1:{free}"])
def test_a_wrong_address_is_said(stated: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hetesynth.deploy.dask_cluster.CONNECT_SECONDS", 0.5)
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        cluster = DaskCluster(stated.format(free=bound.getsockname()[1]), tmp_path)
        with pytest.raises(HetesynthError) as caught:
            list(cluster.run(jobs(tmp_path, "allgather"), Watcher()))
    assert caught.value.code == "HS858" and "`dask scheduler`" in caught.value.help


def building(folder: Path, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "hetesynth", "build", folder / "hetesynth.toml", "--cache", folder / "cache"]
    return subprocess.Popen(
        [*map(str, command), *map(str, arguments)],
        text=True,
        cwd=ROOT,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL) and None,  # jobs of a shell may ignore it
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    out, errors = process.communicate(timeout=120)
    assert "Traceback" not in out + errors, out + errors
    return process.returncode, out + errors


def busy(client: Any, folder: Path, entries: int) -> list[str]:
    """Names of the workers that have a cell to make, once ``entries`` are in the cache."""
    if len(list((folder / "cache").rglob("*.cell"))) < entries:
        return []
    names = {address: worker["name"] for address, worker in client.scheduler_info()["workers"].items()}
    return [names[address] for address, tasks in client.processing().items() if tasks]


@pytest.mark.slow
def test_a_worker_killed_in_the_middle_costs_nothing(tmp_path: Path) -> None:
    manifest(tmp_path, MANY, (1, 2, 3, 4, 5))
    with dask_processes(tmp_path, "w1", "w2", "w3") as processes:
        build = building(tmp_path, "--scheduler", processes.address)
        with distributed.Client(processes.address, set_as_default=False) as client:
            eventually(lambda: "w2" in busy(client, tmp_path, 1))
        processes.kill("w2")
        code, said = ended(build)
        assert code == 0 and "HS" not in said, said
    assert len(whole_entries(tmp_path / "cache")) == 5 * len(MANY)
    check_folders(tmp_path / "schedules")


@pytest.mark.slow
def test_what_ended_before_the_scheduler_is_lost_is_not_made_again(tmp_path: Path) -> None:
    manifest(tmp_path, MANY, (1, 2, 3, 4))
    with dask_processes(tmp_path, "w1") as processes:
        build = building(tmp_path, "--scheduler", processes.address)
        with distributed.Client(processes.address, set_as_default=False) as client:
            eventually(lambda: busy(client, tmp_path, 2))
        processes.kill("scheduler")
        code, said = ended(build)
        assert code == 2 and "HS858" in said and "build again" in said
    code, said = ended(building(tmp_path))
    assert code == 0 and int(re.findall(r"(\d+) cached", said)[0]) >= 2


@pytest.mark.slow
def test_a_cell_that_kills_its_workers_fails_alone(tmp_path: Path) -> None:
    manifest(tmp_path, ("alltoall", "allgather"))
    (tmp_path / "deadly.py").write_text(
        "import os\nfrom hetesynth.deploy import workers\nfrom hetesynth.deploy import dask_cluster\n"
        "made = getattr(workers, 'whole', workers.made)\n"
        "def computed(job, cache, say):\n"
        "    return os._exit(9) if 'alltoall' in job.cell.name else made(job, cache, say)\n"
        "dask_cluster.made, workers.whole = computed, made\n"
    )
    with dask_processes(tmp_path) as processes:
        processes.start_worker("deadly", "--nanny", "--preload", str(tmp_path / "deadly.py"))
        code, said = ended(building(tmp_path, "--scheduler", processes.address))
    assert code == 1 and "HS851" in said and "1 built" in said, said
