"""``hetesynth install-hint``: how a runtime is made to take a file."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from hetesynth.cli.options import FILE, json_option
from hetesynth.cli.terminal import answer
from hetesynth.deploy.folder.environment import ENVIRONMENT
from hetesynth.deploy.folder.folder import installation
from hetesynth.engine.verify import installed
from hetesynth.errors import HetesynthError
from hetesynth.model.target import TARGETS, Target, target

ALONE = "msccl-algorithms"  # a folder for one file: runtimes read all that is in it
_HELP = f"""Say where a program for TARGET goes and which environment variables make its runtime use it.

With FILE the values are those for that file, and there are warnings where calls that are not meant run it, or none
does. Of a folder that `hetesynth build` or `atlas` wrote they are those for all of its programs, and TARGET can be
left out where it has one.
TARGET is one of: {", ".join(TARGETS)}.
"""


@click.command(name="install-hint", help=_HELP)
@click.argument("name", metavar="[TARGET]", required=False)
@click.argument("file", type=FILE, required=False)
@json_option
def command(name: str | None, file: Path | None, as_json: bool) -> None:
    """Print the hint that ``_HELP`` describes."""
    if name is None:
        vendors = [f"{t.name:<15} {t.runtime}; {' or '.join(t.vendors)} GPUs" for t in TARGETS.values()]
        ways = ["`hetesynth install-hint TARGET [FILE]`, or a folder of `build` or `atlas`", *vendors]
        raise HetesynthError("install-hint needs a target or a folder", code="HS004", help="\n  ".join(ways))
    runtime: Target | None = None
    folder: Path | None = Path(name)
    if file is not None or name in TARGETS or not Path(name).is_dir():
        runtime, folder = target(name), file
    if folder is not None and folder.is_dir():
        hint = folder_hint(*installation(folder, runtime))
    else:
        hint = install_hint(target(name), None if file is None else file.resolve())
    if file is not None and not file.is_dir():
        for finding in installed(file, target(name)):
            v = finding.violation
            hint["warnings"].append({"rule": v.rule or v.kind, "message": v.message, "help": finding.help})
    answer(hint, hint_report(hint), as_json=as_json)


def hint_report(hint: dict[str, Any]) -> Iterator[str]:
    """Yield what to set, what to do, what the runtime's log says, and what is wrong."""
    whose = f"{hint['cluster']}: " if "cluster" in hint else ""
    yield f"{whose}{hint['target']}: {hint['runtime']}"
    yield from (f"  export {name}={shlex.quote(value)}" for name, value in hint["environment"].items())
    yield from (f"  {step}" for step in hint["steps"])
    log = hint.get("log")
    if log is not None and log["ran"]:
        settings = " ".join(f"{name}={value}" for name, value in log["environment"].items())
        yield f"  With {settings} the log says, where a call runs one of them: {log['ran']}"
    for warning in hint["warnings"]:
        yield f"  WARNING [{warning['rule']}]: {warning['message']}"
        yield f"    {warning['help']}"


def install_hint(target: Target, file: Path | None = None) -> dict[str, Any]:
    """Return what to do for ``target``; FILE, and a DIRECTORY beside it, are filled in when ``file`` is given."""

    def filled(text: str) -> str:
        if file is None:
            return text
        words = {"FILE": str(file), "DIRECTORY": str(file.parent / ALONE)}
        return re.sub(r"\b(?:FILE|DIRECTORY)\b", lambda place: words[place[0]], text)

    return {
        "target": target.name,
        "runtime": target.runtime,
        "environment": {name: filled(value) for name, value in target.environment},
        "steps": [filled(sentence) for sentence in target.install],
        "warnings": [],
    }


def folder_hint(target: Target, stated: dict[str, Any]) -> dict[str, Any]:
    """Return what to do with a folder, what is in it, and what the runtime's log says. Steps with the folder's own
    files come first, then the runtime's, whatever the file."""
    folder = Path(stated["folder"])
    steps = []
    if ENVIRONMENT in stated["files"]:
        steps.append(f"Or: . {shlex.quote(str(folder / ENVIRONMENT))}")
    for name, what in (
        ("smoke_test.sh", "runs every program and says what to expect"),
        ("load_plans.py", "registers every plan, with a selector"),
        ("README.md", "has the rest: hosts, times, what the log says"),
    ):
        if name in stated["files"]:
            steps.append(f"{folder / name} {what}.")
    warnings = [
        {"rule": "folder", "message": text, "help": "Write the folder again."} for text in stated["warnings"]
    ]
    return {**install_hint(target), **stated, "steps": [*steps, *stated["steps"]], "warnings": warnings}
