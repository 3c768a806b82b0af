"""Where a report, a trace or a log can be written."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from hetesynth.errors import HetesynthError
from hetesynth.model.cegis_trace import CegisEntry, CegisTrace


def log_lines(entries: Iterable[CegisEntry]) -> bytes:
    """The text of the log."""
    return "".join(json.dumps(entry.plain(), allow_nan=False) + "\n" for entry in entries).encode("ascii")


def check_log(log: Path, others: Iterable[Path | None]) -> None:
    """Fail before the search, not after it: HS570 where ``others`` name the same file, HS571 without a folder."""
    if os.path.realpath(log) in {os.path.realpath(other) for other in others if other is not None}:
        raise HetesynthError(
            f"--log and another option name {str(log)!r}", code="HS570", help="give it another name"
        )
    demand_place(log)


def write_log(log: Path, trace: CegisTrace) -> None:
    """Write what is in ``trace``; an empty file where that is nothing."""
    from hetesynth.files.atomic import write_atomically

    write_atomically(log, log_lines(trace.entries))


def demand_place(path: Path) -> None:
    """HetesynthError HS571, HS510 now, not after the work, where ``path`` cannot be written."""
    from hetesynth.files.atomic import check_targets, check_writable

    if path.is_dir() or not path.parent.is_dir():
        what = "is a folder" if path.is_dir() else "is in a folder that does not exist"
        raise HetesynthError(f"{str(path)!r} {what}", code="HS571", help="name a file in a folder that exists")
    check_targets([path])
    check_writable(path.parent)
