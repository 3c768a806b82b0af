"""``hetesynth install-hint``: how a runtime is made to take a file."""

from __future__ import annotations

import json
from pathlib import Path

import click

from hetesynth.cli.options import json_option
from hetesynth.cli.terminal import show
from hetesynth.errors import HetesynthError
from hetesynth.model.target import TARGETS, Target, target

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
    from hetesynth.cli.render.install import HintWarning, hint_text, install_hint

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
    from hetesynth.cli.render.install import target_lines
    from hetesynth.cli.render.verify import on_one_line

    lines = ["`hetesynth install-hint TARGET [FILE]`, or a folder of `hetesynth build`", *target_lines()]
    files = sorted(Path().glob("*.dsl"))[:8]  # they are read, which is to stay quick
    lines += [
        f"{on_one_line(file)}: {fitting}" for file in files if file.is_file() and (fitting := _fitting(file))
    ]
    return HetesynthError("install-hint needs a target or a folder", code="HS004", help="\n  ".join(lines))


def _fitting(file: Path) -> str:
    """The targets for the GPUs that ``file`` describes, "" where it describes none."""
    from hetesynth.engine.program_warnings import fitting_targets
    from hetesynth.topology.language import load_topology

    try:
        models = load_topology(file).models
    except HetesynthError:
        return ""
    shown = ", ".join(dict.fromkeys(model or "GPUs without a model" for model in models))
    return f"{shown}: {' or '.join(fitting_targets(models)) or 'no target is for all of them'}"


def _show_folder(folder: Path, stated: Target | None, as_json: bool) -> None:
    from hetesynth.cli.render.install import folder_hint, folder_text
    from hetesynth.deploy.folder.installation import installation

    place = installation(folder, stated)
    show(json.dumps(folder_hint(place), indent=2) if as_json else folder_text(place))
