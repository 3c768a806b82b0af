"""The interpreter of nccl-device on threads: right bytes, and what it says of programs that are wrong."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from execute.execute_cases import exchange, gather_and_sum, ring_allreduce
from execute.execute_cases import run as execute_run
from runtimes.kernel_cases import TARGET, programs, run
from verify.program_builders import edited, step

from hetesynth.cli.main import run as command
from hetesynth.errors import HetesynthError
from hetesynth.execute.arithmetic import ITEM_BYTES
from hetesynth.execute.job import RunOptions, job_of
from hetesynth.model.collective import COLLECTIVE_NAMES, CollectiveName
from hetesynth.model.program import Program
from hetesynth.programs.msccl.xml_writer import write_msccl_xml
from hetesynth.runtimes.nccl_device.cpu import DTYPES, CpuKernel

pytestmark = pytest.mark.skipif(not shutil.which(os.environ.get("CXX", "g++")), reason="there is no C++ compiler")
SIX = ("h20_4p8", "h20_4x3", "h20_16", "a100_x2", "dgx2_x2", "ndv2_x4")
"""Of 12 to 32 ranks."""


@pytest.mark.parametrize("name", COLLECTIVE_NAMES)
@pytest.mark.parametrize("cluster", [SIX[0], *(pytest.param(c, marks=pytest.mark.slow) for c in SIX[1:])])
def test_every_collective_ends_with_every_byte_right(cluster: str, name: CollectiveName) -> None:
    for program in programs(cluster, name):
        assert program.ranks >= 12
        for dtype in DTYPES:
            short = {"message_bytes": 900 * ITEM_BYTES[dtype] // 2, "slots": 4, "dtype": dtype}
            for server, options in ((0, {"dtype": dtype}), (0, short), (4, short)):  # one loop; three or five
                (ended,) = run(program, server, **options)
                assert ended.correct and ended.checked > 0, (ended, server, options)


@pytest.mark.parametrize("reduction", ["sum", "max", "min"])
@pytest.mark.parametrize("elements", [1, 7, 64])
def test_chunks_that_are_no_whole_lines(elements: int, reduction: str) -> None:
    """Odd counts are moved element by element, even ones by 16 bytes; slots hold a part, one or several chunks."""
    for dtype in DTYPES:
        for held in (3, 50, 400):
            size = 12 * elements * ITEM_BYTES[dtype]
            options = {"size": size, "message_bytes": held * ITEM_BYTES[dtype], "dtype": dtype}
            for program in (ring_allreduce(6, 2), ring_allreduce(6, 2, in_place=True)):
                program = replace(program, gpus=tuple(replace(g, output_chunks=12) for g in program.gpus))
                assert all(one.correct for one in run(program, reduction=reduction, **options))


def test_a_thousand_calls_leave_nothing_behind() -> None:
    """Counters go on from call to call, also over a network that settles messages in any order."""
    program, calls = ring_allreduce(3), 1000
    job, parts = job_of(program, RunOptions(size=48, message_bytes=8, slots=2, repeat=1))
    for server in (0, 2):
        kernel = CpuKernel(parts, 2, 8, server)  # type: ignore[arg-type]
        peaks = []
        for k in range(calls):
            memory = [job.memory(part, False) for part in parts]
            assert kernel.run(memory, job.loops.chunk, "float32", "sum", 20.0) == []
            assert all(own.check(0.0).correct for own in memory)
            if k % (calls // 2) == calls // 2 - 1:
                peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
        kernel.close()
        assert peaks[1] - peaks[0] < 4096  # KiB


def without(program: Program, rank: int, block: int, number: int) -> Program:
    def cut(tb):  # type: ignore[no-untyped-def]
        return replace(tb, instructions=tb.instructions[:number] + tb.instructions[number + 1 :])

    return edited(program, rank, block, cut)


def test_a_dropped_receive_is_said() -> None:
    (ended,) = run(without(ring_allreduce(4), 2, 0, 6), timeout=0.5)
    assert ended.ending == "stall"
    assert ended.diagnosis == ("rank 1 sent 1 message on channel 0 that rank 2 never took",)


def test_what_waits_for_slots_in_a_circle_is_said() -> None:
    """Two chunks of a step in a message each fill both slots everywhere; as in the executor of one process."""
    (ended,) = run(ring_allreduce(4, 2), timeout=0.5, slots=2, message_bytes=512)
    text = "thread block 0 step 1 (`rrs`) waits for rank {} to take one of 2 messages on channel 0"
    assert ended.diagnosis == tuple(f"rank {r} {text.format((r + 1) % 4)}" for r in range(4))
    assert execute_run(ring_allreduce(4, 2), slots=2, message_bytes=512)[0].diagnosis == ended.diagnosis


def test_a_dropped_send_and_a_swapped_dependence_are_said() -> None:
    (ended,) = run(without(ring_allreduce(4), 1, 0, 0), timeout=0.5)
    assert (
        "rank 2 thread block 0 step 1 (`rrs`) waits for a message from rank 1 on channel 0" not in ended.diagnosis
    )
    assert not ended.correct
    crossed = edited(
        gather_and_sum(3),
        0,
        1,
        lambda tb: replace(tb, instructions=(replace(tb.instructions[0], depends=(0, 1)),)),
    )
    (ended,) = run(crossed, timeout=0.5)
    assert ended.ending == "stall"
    assert "rank 0 thread block 1 step 0 (`r`) waits for step 1 of thread block 0" in ended.diagnosis
    assert "rank 0 thread block 0 step 1 (`re`) waits for step 0 of thread block 1" in ended.diagnosis


def test_a_wrong_offset_gives_wrong_bytes_or_a_fault() -> None:
    def moved(to: str) -> Program:
        return edited(
            gather_and_sum(3), 0, 2, lambda tb: replace(tb, instructions=(step("r", "i0", to, flag=True),))
        )

    (wrong,) = run(moved("s0"))
    assert wrong.ending == "done" and wrong.wrong > 0
    (fault,) = run(moved("s7"))
    assert fault.ending == "fault"
    assert fault.diagnosis == ("rank 0 thread block 2 step 0 (`r`): s[7] and 1 chunks: the buffer has 2 chunks",)
    deaf = edited(exchange(1), 1, 0, lambda tb: replace(tb, recv_peer=None, instructions=tb.instructions[:1]))
    assert "does not receive there" in run(deaf)[0].diagnosis[0]


def test_the_command_runs_it_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "p.xml"
    file.write_bytes(write_msccl_xml(programs("h20_4p8", "allgather")[0], TARGET))
    arguments = ["run", str(file), "--backend", "cpu-kernel", "--dtype", "float16", "--pass-size", "512"]
    assert command(arguments) == 0
    assert "on 12 ranks on threads of one process" in capsys.readouterr().out


def test_without_a_compiler_there_is_a_way_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(HetesynthError, match="no C\\+\\+ compiler") as none:
        run(ring_allreduce(3))
    assert none.value.code == "HS890" and "--backend inprocess" in none.value.help
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("CXXFLAGS", "-DMAGIC=;")
    with pytest.raises(HetesynthError, match="does not compile") as broken:
        run(ring_allreduce(3))
    assert broken.value.code == "HS891" and "error" in broken.value.help
    assert not list((tmp_path / "hetesynth" / "compiled").iterdir())  # no draft is left


SANITIZED = """
import sys
from dataclasses import replace
from execute.execute_cases import gather_and_sum, job_of, ring_allreduce
from hetesynth.runtimes.nccl_device.cpu import run_on_threads
from verify.program_builders import edited
program = gather_and_sum(5)
if sys.argv[1] == "unordered":
    steps = [replace(x, depends=None) for x in program.gpus[0].thread_blocks[0].instructions]
    program = edited(program, 0, 0, lambda tb: replace(tb, instructions=tuple(steps)))
for one in (program, ring_allreduce(6, 2)):
    for server in (0, 2):
        ended = list(run_on_threads(*job_of(one, repeat=5, message_bytes=700, slots=3), server))
        assert sys.argv[1] == "unordered" or all(r.correct for r in ended), ended
"""


@pytest.mark.parametrize("order", ["ordered", "unordered"])
def test_the_thread_sanitizer_sees_no_race_but_those_of_a_wrong_program(order: str) -> None:
    runtime = subprocess.run(["g++", "-print-file-name=libtsan.so"], capture_output=True, text=True).stdout.strip()
    if not Path(runtime).is_absolute():
        pytest.skip("g++ has no thread sanitizer")
    environment = {
        **os.environ, "CXX": "g++", "CXXFLAGS": "-fsanitize=thread", "LD_PRELOAD": runtime,
        "TSAN_OPTIONS": "exitcode=66", "PYTHONPATH": os.pathsep.join(sys.path),
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", SANITIZED, order], env=environment, capture_output=True, text=True
    )
    if "unexpected memory mapping" in done.stderr:
        pytest.skip("this kernel places memory where the sanitizer has none")
    raced = "WARNING: ThreadSanitizer: data race" in done.stderr
    assert (done.returncode, raced) == ((66, True) if order == "unordered" else (0, False)), done.stderr[-2000:]
