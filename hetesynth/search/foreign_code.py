"""Calls of foreign code that Ctrl-C can leave.

In: a call that runs for long without the interpreter, such as a solver or a kernel in machine code. Out: what it
returns. Python handles signals between its own instructions only, so the call runs in a thread of its own and the
main thread waits for it, which Ctrl-C ends. What is left goes on to its end, unheard: it must change nothing that
others use.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
POLL_SECONDS = 0.1  # a signal just before the main thread begins to wait does not wake it


def leavable(call: Callable[[], T]) -> T:
    """What ``call`` returns or raises. Outside the main thread, where signals do not arrive, it is just called."""
    if threading.current_thread() is not threading.main_thread():
        return call()
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            results.append(call())
        except BaseException as error:
            errors.append(error)

    worker = threading.Thread(target=run, daemon=True)
    worker.start()
    while worker.is_alive():
        worker.join(POLL_SECONDS)
    if errors:
        raise errors[0]
    return results[0]
