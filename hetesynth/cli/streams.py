"""Standard input, output and error as they must be before a command runs.

A descriptor that the caller closed would be given to the next file that is opened, and what is printed would end
up in it: it leads to nowhere instead. An output that nobody reads any more takes the rest without a word.
"""

from __future__ import annotations

import io
import os
import sys
from typing import Any, TextIO


def open_missing() -> None:
    """Open the null device under every one of the descriptors 0, 1 and 2 that is closed."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free, which is this one
            os.set_inheritable(number, True)
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115


class _Output(io.FileIO):
    """A descriptor whose reader may leave: what is written then counts as written."""

    def __init__(self, number: int, called: str) -> None:
        super().__init__(number, "w", closefd=False)
        self._called = called

    def write(self, data: Any, /) -> int:
        """OSError names the stream."""
        try:
            return super().write(data)
        except BrokenPipeError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            return memoryview(data).nbytes
        except OSError as error:
            raise OSError(error.errno, error.strerror, self._called) from error


def endure_leaving_readers() -> None:
    """Replace standard output and error by streams that a reader may leave; the exit code stays the command's."""
    sys.stdout = _enduring(sys.stdout, 1, "standard output")
    sys.stderr = _enduring(sys.stderr, 2, "standard error")


def _enduring(stream: TextIO, number: int, called: str) -> TextIO:
    try:
        if not isinstance(stream, io.TextIOWrapper) or stream.fileno() != number or stream.isatty():
            return stream
        stream.flush()
        return io.TextIOWrapper(
            io.BufferedWriter(_Output(number, called)),
            encoding=stream.encoding,
            errors=stream.errors,
            line_buffering=stream.line_buffering,
        )
    except (OSError, ValueError):
        return stream
