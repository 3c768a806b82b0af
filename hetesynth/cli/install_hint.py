"""``hetesynth install-hint``: how a runtime is made to take a file."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hetesynth.cli.options import json_option
from hetesynth.cli.terminal import on_one_line, show
from hetesynth.errors import HetesynthError
from hetesynth.model.target import TARGETS, Target, target

if TYPE_CHECKING:
    from hetesynth.deploy.folder.folder import Installation


ALONE = "msccl-algorithms"  # a folder for one file: runtimes read all that is in it
_HELP = f"""Say where a program for TARGET goes and which environment variables make its runtime use it.

With FILE the values are those for that file, and there are warnings where calls that are not meant run it, or none
does. Of a folder that `hetesynth build` wrote they are those for all of its programs, and TARGET can be left out.
TARGET is one of: {", ".join(TARGETS)}.
"""


@click.command(name="install-hint", help=_HELP)
@click.argument("name", metavar="[TARGET]", required=False)
@click.argument("file", type=click.Path(path_type=Path), required=False)
@json_option
def command(name: str | None, file: Path | None, as_json: bool) -> None:
    """What ``_HELP`` says."""
    if name is None:
        raise _nothing_named()
    runtime: Target | None
    folder: Path | None
    if file is None and name not in TARGETS and Path(name).is_dir():
        runtime, folder = None, Path(name)
    else:
        runtime, folder = target(name), file
    if folder is not None and folder.is_dir():
        from hetesynth.deploy.folder.folder import installation

        place = installation(folder, runtime)
        show(json.dumps(folder_hint(place), indent=2) if as_json else folder_text(place))
        return
    hint = install_hint(target(name), None if file is None else file.resolve())
    if file is not None:
        from hetesynth.engine.verify import installed

        for finding in installed(file, target(name)):
            v = finding.violation
            hint["warnings"].append({"rule": v.rule or v.kind, "message": v.message, "help": finding.help})
    if as_json:
        show(json.dumps(hint, indent=2))
        return
    lines = [f"{hint['target']}: {hint['runtime']}", *_exports(hint["environment"])]
    lines += [f"  {step}" for step in hint["steps"]]
    lines += [f"  WARNING [{w['rule']}]: {w['message']}\n    {w['help']}" for w in hint["warnings"]]
    show("\n".join(lines))


def _nothing_named() -> HetesynthError:
    """What there is to name, and what fits the clusters that are described in this folder."""
    from hetesynth.engine.program_warnings import fitting_targets
    from hetesynth.topology.language import load_topology

    lines = ["`hetesynth install-hint TARGET [FILE]`, or a folder of `hetesynth build`"]
    lines += [
        f"  {t.name:<15} {t.runtime}; {' or '.join(t.vendors)} GPUs; "
        + (", ".join(name for name, _ in t.environment) or "no runtime's own")
        for t in TARGETS.values()
    ]
    for file in sorted(Path().glob("*.dsl"))[:8]:  # they are read, which is to stay quick
        if not file.is_file():
            continue
        try:
            models = load_topology(file).models
        except HetesynthError:
            continue
        gpus = ", ".join(dict.fromkeys(model or "GPUs without a model" for model in models))
        fitting = " or ".join(fitting_targets(models)) or "no target is for all of them"
        lines.append(f"{on_one_line(file)}: {gpus}: {fitting}")
    return HetesynthError("install-hint needs a target or a folder", code="HS004", help="\n  ".join(lines))


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


def folder_hint(place: Installation) -> dict[str, Any]:
    """Return what to do with a folder, what is in it, and what the runtime's log says."""
    return {
        **install_hint(place.target),
        "environment": place.environment,
        "steps": _folder_steps(place),
        "warnings": [
            {"rule": "folder", "message": text, "help": "Build the folder again."} for text in place.warnings
        ],
        **place.plain(),
    }


def folder_text(place: Installation) -> str:
    """Return the lines that ``install-hint`` prints of a folder."""
    lines = [f"{place.cluster}: {place.target.name}, {place.target.runtime}", *_exports(place.environment)]
    lines += [f"  {step}" for step in _folder_steps(place)]
    if place.log is not None:
        settings = " ".join(f"{name}={value}" for name, value in place.log.debug)
        ran, read, fell_back = place.log.ran, place.log.read, place.log.fell_back
        said = [("a call runs one of them", ran), ("none does", fell_back), ("it has read them", read)]
        lines += [f"  With {settings} the log says, where {what}: {line}" for what, line in said if line]
    lines += [f"  WARNING: {text}" for text in place.warnings]
    return "\n".join(lines)


def _exports(environment: Mapping[str, str]) -> list[str]:
    return [f"  export {name}={shlex.quote(value)}" for name, value in environment.items()]


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
