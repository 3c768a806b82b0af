"""Where a report, a trace or a log can be written."""

from __future__ import annotations

from pathlib import Path

from hetesynth.errors import HetesynthError


def demand_place(path: Path) -> None:
    """HetesynthError HS571, HS510 now, not after the work, where ``path`` cannot be written."""
    from hetesynth.files.atomic import check_targets, check_writable

    if path.is_dir() or not path.parent.is_dir():
        what = "is a folder" if path.is_dir() else "is in a folder that does not exist"
        raise HetesynthError(f"{str(path)!r} {what}", code="HS571", help="name a file in a folder that exists")
    check_targets([path])
    check_writable(path.parent)
