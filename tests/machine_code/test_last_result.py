"""Work in a process of its own: its last result is there in time, whatever it does and however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

from hetesynth.errors import HetesynthError
from hetesynth.model.diagnostics import Diagnostic, SourceError, Span
from hetesynth.processes import Tell, last_result
from hetesynth.search.interrupts import abandoned, announcing, interrupted

LONG = 600.0


@pytest.fixture(autouse=True)
def usual_handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def soon(seconds: float) -> float:
    return time.monotonic() + seconds


def unheard(kind: str, value: Any) -> None:
    raise AssertionError(f"{kind}: {value}")


def pressed(kind: str, value: Any) -> None:
    signal.raise_signal(signal.SIGINT)


def endless(tell: Tell) -> int:
    """Says where it runs and never returns, as native code that no deadline reaches."""
    tell("result", os.getpid())
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    time.sleep(LONG)
    return 0


def is_there(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_what_ends_by_itself_is_returned_and_the_rest_is_heard() -> None:
    heard: list[tuple[str, Any]] = []

    def work(tell: Tell) -> str:
        tell("result", "first")
        tell("progress", ("greedy", 3))
        return "last"

    assert last_result(work, soon(LONG), 0.0, lambda *said: heard.append(said)) == ("last", "done")
    assert heard == [("progress", ("greedy", 3))]


def test_after_its_seconds_the_work_is_killed_and_the_last_result_stays() -> None:
    process, ended = last_result(endless, soon(0.5), LONG, unheard)
    assert ended == "time"  # not "done": it was not waited for
    assert process is not None and process != os.getpid() and not is_there(process)


def test_ctrl_c_takes_the_last_result_and_is_not_for_the_work() -> None:
    def work(tell: Tell) -> int:
        tell("result", 7)
        os.kill(os.getpid(), signal.SIGINT)  # as a terminal does to all of the group
        os.kill(os.getppid(), signal.SIGINT)
        time.sleep(LONG)
        return 0

    assert last_result(work, soon(LONG), 0.0, unheard) == (7, "interrupt")


def test_ctrl_c_is_announced_and_known_afterwards() -> None:
    said: list[str] = []
    with announcing(lambda: said.append("interrupted")):
        assert last_result(lambda tell: tell("progress", 1), soon(LONG), LONG, pressed)[1] == "done"
        assert interrupted() and not abandoned()
    assert said == ["interrupted"]


def test_errors_are_those_of_the_work_with_its_traceback() -> None:
    finding = Diagnostic("HS101", Span("a.dsl", 1, 2), "wrong", "do better")
    for error in (HetesynthError("no", code="HS602", help="raise it", exit_code=3), SourceError([finding], {})):

        def work(tell: Tell, error: HetesynthError = error) -> int:
            raise error

        with pytest.raises(type(error)) as found:
            last_result(work, soon(LONG), 0.0, unheard)
        raised = found.value
        assert (raised.code, raised.help, raised.exit_code) == (error.code, error.help, error.exit_code)
        assert raised.render() == error.render() and "in work" in str(raised.__cause__)


def test_a_process_that_was_killed_is_no_bug_of_ours() -> None:
    def work(tell: Tell) -> int:
        os.kill(os.getpid(), signal.SIGKILL)
        return 0

    with pytest.raises(HetesynthError, match="ended from outside") as found:
        last_result(work, soon(LONG), 0.0, unheard)
    assert (found.value.code, found.value.exit_code) == ("HS613", 3)


def test_a_process_that_begins_sees_no_ctrl_c() -> None:
    program = """
import multiprocessing, signal
from hetesynth.processes import no_interrupts
process = multiprocessing.get_context("spawn").Process(target=signal.raise_signal, args=(signal.SIGINT,))
with no_interrupts():
    process.start()
process.join()
print(process.exitcode)
"""
    begun = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (begun.stdout, begun.stderr) == ("0\n", "")
