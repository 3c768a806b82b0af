"""Which reader reads a file: the one that recognizes it, in this order.

In: a path or bytes. Out: ``Series``. HetesynthError HS840 (no text), HS841 (refused), HS842 (no reader).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hetesynth.errors import HetesynthError
from hetesynth.files.regular_files import open_regular
from hetesynth.topology.calibrate.lines import MAX_FILE_BYTES, refused, text_of
from hetesynth.topology.calibrate.measurements import Operation, Series
from hetesynth.topology.calibrate.readers import nccl_tests, nvbandwidth, osu, perftest, table

Recognizer = Callable[[str], bool]
Reader = Callable[[str, str, "Operation | None", "int | None"], "list[Series]"]


@dataclass(frozen=True, slots=True)
class Format:
    """A tool's output: its name, how it is recognized, how it is read."""

    name: str
    recognizes: Recognizer
    read: Reader


FORMATS = (
    Format("nccl-tests", nccl_tests.recognizes, nccl_tests.read),
    Format("osu", osu.recognizes, osu.read),
    Format("perftest", perftest.recognizes, perftest.read),
    Format("nvbandwidth", nvbandwidth.recognizes, nvbandwidth.read),
    Format("csv", table.recognizes, table.read),
)


def read_file(path: Path, operation: Operation | None = None, ranks: int | None = None) -> list[Series]:
    """The series in the file at ``path``."""
    try:
        with open_regular(path) as file:
            content = file.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise HetesynthError(f"{path} cannot be read: {reason}", code="HS840", help="check the path") from None
    return read_measurements(content, str(path), operation, ranks)


def read_measurements(
    content: bytes, source: str, operation: Operation | None = None, ranks: int | None = None
) -> list[Series]:
    """The series in ``content``; ``operation`` and ``ranks`` go before what the text says."""
    text = text_of(content, source)
    for format_ in FORMATS:
        if format_.recognizes(text):
            try:
                return format_.read(text, source, operation, ranks)
            except ValueError as error:
                raise refused(source, str(error), "check the table") from None
    names = ", ".join(format_.name for format_ in FORMATS)
    raise HetesynthError(
        f"{source} is no measurement that is read here", code="HS842", help=f"formats: {names}; a CSV is `size,us`"
    )
