"""Handles of calls that are under way, and the thread that makes progress with those on CPUs.

On a GPU all of a call is on the current stream when it returns, and its handle is an event. A backend on CPUs has
no stream, so one thread carries out the calls in the order in which they were made.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist


class Handle(dist.Work):
    """The handle of an asynchronous call into ``tensor``: ``result`` of the worker, or ``event`` on the stream."""

    def __init__(self, tensor: Any, result: "Future[None] | None" = None, event: Any = None) -> None:
        super().__init__()
        self._tensor, self._result, self._event = tensor, result, event

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until the result stands in the tensor, for what follows on this stream; raise what went wrong."""
        if self._result is not None:
            self._result.result(None if not timeout else timeout.total_seconds())
        if self._event is not None:
            self._event.wait()
        return True

    def is_completed(self) -> bool:
        """Return True if the result stands in the tensor; a call that went wrong counts as ended."""
        return (
            self._result.done() if self._result is not None else bool(self._event is None or self._event.query())
        )

    def get_future(self) -> Any:
        """Return a torch future of the tensor."""
        device = self._tensor.device
        future: Any = torch.futures.Future(devices=[] if device.type == "cpu" else [device])

        def end(_: object = None) -> None:
            try:
                self.wait()
                future.set_result([self._tensor])
            except Exception as error:
                future.set_exception(error)

        if self._result is None:
            end()
        else:
            self._result.add_done_callback(end)
        return future


class Worker:
    """A queue of calls carried out one after the other; those that are not waited for in a thread of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._last: Future[None] | None = None

    def run(self, call: Callable[[], None]) -> None:
        """Carry out ``call``, after all before it."""
        if self._last is not None and not self._last.done():
            self.start(call).result()
        else:
            self._alone(call)

    def start(self, call: Callable[[], None]) -> "Future[None]":
        """Start ``call`` in the thread, after all before it, and return its future."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(1, "hetesynth")
        self._last = self._pool.submit(self._alone, call)
        return self._last

    def _alone(self, call: Callable[[], None]) -> None:
        with self._lock:
            call()
