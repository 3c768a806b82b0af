"""A child process that is killed, or sent a signal, at the k-th call that changes files."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator

CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "ctypes.dlsym"}


def at_every_call(
    work: Callable[[], object], number: int, prepare: Callable[[], object]
) -> Iterator[tuple[int, int]]:
    """``prepare`` and ``work`` in a child, with signal ``number`` at its first call, its second and so on: (which
    call, the child's status as ``os.waitpid`` has it) for each, until ``work`` ends before there are so many."""
    count = 0
    while True:
        count += 1
        prepare()
        child = os.fork()
        if child == 0:
            _work(work, number, count)
        status = os.waitpid(child, 0)[1]
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == 77:
            return
        yield count, status


def _work(work: Callable[[], object], number: int, count: int) -> None:
    """Ends with what ``work`` returns, else 0; 3: interrupted; 77: done before the call came; 99: failed."""
    calls = 0

    def called() -> None:
        nonlocal calls
        calls += 1
        if calls == count:
            os.kill(os.getpid(), number)

    def audit(event: str, arguments: tuple[object, ...]) -> None:
        writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_CREAT
        if event in CHANGES or writes:
            called()

    flush = os.fsync
    code = 99
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.fsync = lambda handle: (called(), flush(handle))[1]  # type: ignore[assignment]
        sys.addaudithook(audit)
        ended = work()
        code = (ended if isinstance(ended, int) else 0) if calls >= count else 77
    except KeyboardInterrupt:
        code = 3
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)
