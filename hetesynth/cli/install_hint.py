"""``hetesynth install-hint``: how a runtime is made to take a file."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

import click

from hetesynth.cli.options import json_option
from hetesynth.cli.terminal import show
from hetesynth.errors import HetesynthError
from hetesynth.model.target import TARGETS, Target, target

if TYPE_CHECKING:
    from hetesynth.deploy.folder.installation import Installation


_HELP = f"""Say where a program for TARGET goes and which environment variables make its runtime use it.

With FILE the values are those for that file, and there are warnings where calls that are not meant run it, or none
does. Of a folder that `hetesynth build` wrote they are those for all of its programs, and TARGET can be left out.
TARGET is one of: {", ".join(TARGETS)}.
"""


@click.command(name="install-hint", help=_HELP, short_help="Say how a runtime is made to use a file or a folder.")
@click.argument("name", metavar="[TARGET]", required=False)
@click.argument("file", type=click.Path(path_type=Path), required=False)
@json_option
def command(name: str | None, file: Path | None, as_json: bool) -> None:
    """What ``_HELP`` says."""
    if name is None:
        raise _nothing_named()
    if file is None and name not in TARGETS and Path(name).is_dir():
        _show_folder(Path(name), None, as_json)
        return
    runtime = target(name)
    if file is not None and file.is_dir():
        _show_folder(file, runtime, as_json)
        return
    warnings: list[HintWarning] = []
    if file is not None:
        from hetesynth.engine.verify import installed

        for finding in installed(file, runtime):
            v = finding.violation
            warnings.append({"rule": v.rule or v.kind, "message": v.message, "help": finding.help})
    hint = install_hint(runtime, None if file is None else file.resolve(), warnings)
    show(json.dumps(hint, indent=2) if as_json else hint_text(hint))


def _nothing_named() -> HetesynthError:
    """What there is to name, and what fits the clusters that are described in this folder."""
    from hetesynth.cli.verify import on_one_line

    lines = ["`hetesynth install-hint TARGET [FILE]`, or a folder of `hetesynth build`", *target_lines()]
    files = sorted(Path().glob("*.dsl"))[:8]  # they are read, which is to stay quick
    lines += [
        f"{on_one_line(file)}: {fitting}" for file in files if file.is_file() and (fitting := _fitting(file))
    ]
    return HetesynthError("install-hint needs a target or a folder", code="HS004", help="\n  ".join(lines))


def _fitting(file: Path) -> str:
    """The targets for the GPUs that ``file`` describes, "" where it describes none."""
    from hetesynth.engine.gpu_vendors import fitting_targets
    from hetesynth.topology.language import load_topology

    try:
        models = load_topology(file).models
    except HetesynthError:
        return ""
    shown = ", ".join(dict.fromkeys(model or "GPUs without a model" for model in models))
    return f"{shown}: {' or '.join(fitting_targets(models)) or 'no target is for all of them'}"


def _show_folder(folder: Path, stated: Target | None, as_json: bool) -> None:
    from hetesynth.deploy.folder.installation import installation

    place = installation(folder, stated)
    show(json.dumps(folder_hint(place), indent=2) if as_json else folder_text(place))


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
