"""``hetesynth topo fmt``: topology files in one layout."""

from __future__ import annotations

from pathlib import Path

import click

from hetesynth.cli.options import TOPOLOGY
from hetesynth.cli.terminal import show


@click.command(name="fmt", short_help="Write topology files in one layout.")
@click.argument("files", type=TOPOLOGY, nargs=-1, required=True)
@click.option("--check", is_flag=True, help="Write nothing; exit 1 when a file has another layout.")
def command(files: tuple[Path, ...], check: bool) -> int:
    """Write FILES in one layout: a statement a line, two columns for each open brace.

    Comments and meaning stay. Either all files are written or none. For -, standard input, the text is printed.
    """
    from hetesynth.topology.reformat import reformat, reformatted_input

    if Path("-") in files:
        if len(files) > 1:
            raise click.UsageError("- stands alone")
        text, other = reformatted_input()
        show("standard input has another layout" * other if check else text.removesuffix("\n"))
        return int(check and other)
    changed = reformat(files, check=check)
    for path in changed:
        show(f"{path}: {'has another layout' if check else 'written'}")
    if not changed:
        show(f"{len(files)} file{'' if len(files) == 1 else 's'} in the layout already")
    return int(check and bool(changed))
