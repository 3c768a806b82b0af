"""How a runtime is made to take a file, as plain values and as text.

In: a target, perhaps a file and what is said of it. Out: what to do. Knows no more than the table of targets.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from hetesynth.model.target import TARGETS, Target

if TYPE_CHECKING:
    from hetesynth.deploy.folder.folder import Installation

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


def target_lines() -> list[str]:
    """A line for each target: its runtime, whose GPUs it is for, the variables that make it load a program."""
    return [
        f"  {t.name:<15} {t.runtime}; {' or '.join(t.vendors)} GPUs; "
        + (", ".join(name for name, _ in t.environment) or "no runtime's own")
        for t in TARGETS.values()
    ]


def hint_text(hint: Hint) -> str:
    """The lines ``install-hint`` prints."""
    exports = [f"  export {name}={shlex.quote(value)}" for name, value in hint["environment"].items()]
    lines = [f"{hint['target']}: {hint['runtime']}", *exports, *(f"  {step}" for step in hint["steps"])]
    lines += [f"  WARNING [{w['rule']}]: {w['message']}\n    {w['help']}" for w in hint["warnings"]]
    return "\n".join(lines)


def folder_hint(place: Installation) -> dict[str, object]:
    """What to do with a folder: the fields of ``Hint``, what is in it, and what the runtime's log says."""
    hint = install_hint(place.target)
    changed: list[HintWarning] = [
        {"rule": "folder", "message": text, "help": "Build the folder again."} for text in place.warnings
    ]
    steps = _folder_steps(place)
    filled = {**hint, "environment": place.environment, "steps": steps, "warnings": changed}
    return {**filled, **place.plain()}


def folder_text(place: Installation) -> str:
    """The lines ``install-hint`` prints of a folder."""
    exports = [f"  export {name}={shlex.quote(value)}" for name, value in place.environment.items()]
    lines = [f"{place.cluster}: {place.target.name}, {place.target.runtime}", *exports]
    lines += [f"  {step}" for step in _folder_steps(place)]
    if place.log is not None:
        settings = " ".join(f"{name}={value}" for name, value in place.log.debug)
        ran, read, fell_back = place.log.ran, place.log.read, place.log.fell_back
        said = [("a call runs one of them", ran), ("none does", fell_back), ("it has read them", read)]
        lines += [f"  With {settings} the log says, where {what}: {line}" for what, line in said if line]
    lines += [f"  WARNING: {text}" for text in place.warnings]
    return "\n".join(lines)


def _folder_steps(place: Installation) -> list[str]:
    """What to do: the folder's own files first, then what the runtime minds whatever the file."""
    first = []
    if place.environment:
        first.append(f"Or: . {shlex.quote(str(place.folder / 'environment.sh'))}")
    for name, what in (
        ("smoke_test.sh", "runs every program and says what to expect"),
        ("load_plans.py", "registers every plan, with a selector"),
        ("README.md", "has the rest: hosts, times, what the log says"),
    ):
        if name in place.files:
            first.append(f"{place.folder / name} {what}.")
    return [*first, *place.cautions]


def _filled(text: str, file: Path | None) -> str:
    if file is None:
        return text
    words = {"FILE": str(file), "DIRECTORY": str(file.parent / ALONE)}
    return _PLACES.sub(lambda place: words[place[0]], text)
