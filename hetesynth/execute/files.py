"""How rank 0 hands its result to the process that launched it: files in a directory that only they know."""

from __future__ import annotations

import os
from pathlib import Path

RESULT_DIRECTORY = "HETESYNTH_RUN_DIRECTORY"
RESULT_FILE, STARTED_FILE = "result.json", "started"


def result_directory() -> Path | None:
    """Where the process that launched this one waits for a result; None: nobody does."""
    name = os.environ.get(RESULT_DIRECTORY)
    return Path(name) if name else None


def leave_result(directory: Path, text: str) -> None:
    """Writes the result whole."""
    draft = directory / f"{RESULT_FILE}.draft"
    draft.write_text(text)
    draft.replace(directory / RESULT_FILE)


def leave_start(directory: Path) -> None:
    """Says that all ranks are up."""
    (directory / STARTED_FILE).touch()
