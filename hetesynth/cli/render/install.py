"""How a runtime is made to take a file, as plain values and as text.

In: a target, perhaps a file and what is said of it. Out: what to do. Knows no more than the table of targets.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

from hetesynth.model.target import Target

ALONE = "msccl-algorithms"  # a folder for one file: runtimes read all that is in it
_PLACES = re.compile(r"\b(?:FILE|DIRECTORY)\b")


class HintWarning(TypedDict):
    """What is wrong with a file for this runtime, or with some calls that run it."""

    rule: str
    message: str
    help: str


class Hint(TypedDict):
    """``environment``: variables with their values; ``steps``: sentences; ``warnings``: about the file."""

    target: str
    runtime: str
    environment: dict[str, str]
    steps: list[str]
    warnings: list[HintWarning]


def install_hint(target: Target, file: Path | None = None, warnings: Sequence[HintWarning] = ()) -> Hint:
    """What to do for ``target``; FILE, and a DIRECTORY beside it, are filled in when ``file`` is given, of which
    ``warnings`` tell."""
    return {
        "target": target.name,
        "runtime": target.runtime,
        "environment": {name: _filled(value, file) for name, value in target.environment},
        "steps": [_filled(sentence, file) for sentence in target.install],
        "warnings": list(warnings),
    }


def hint_text(hint: Hint) -> str:
    """The lines ``install-hint`` prints."""
    exports = [f"  export {name}={shlex.quote(value)}" for name, value in hint["environment"].items()]
    lines = [f"{hint['target']}: {hint['runtime']}", *exports, *(f"  {step}" for step in hint["steps"])]
    lines += [f"  WARNING [{w['rule']}]: {w['message']}\n    {w['help']}" for w in hint["warnings"]]
    return "\n".join(lines)


def _filled(text: str, file: Path | None) -> str:
    if file is None:
        return text
    words = {"FILE": str(file), "DIRECTORY": str(file.parent / ALONE)}
    return _PLACES.sub(lambda place: words[place[0]], text)
