"""``hetesynth topo convert``, ``export`` and ``fmt``: a topology file in another form."""

import json
from pathlib import Path

import click

from hetesynth.cli.options import FILE, NewPath
from hetesynth.cli.terminal import show
from hetesynth.files.atomic import write_atomically
from hetesynth.model.words import counted
from hetesynth.topology.convert import converted, reformat, reformatted_input
from hetesynth.topology.importers.edge_list import edge_document
from hetesynth.topology.language import load_topology


@click.command(name="convert")
@click.argument("file", type=FILE)
@click.option("--to", "form", type=click.Choice(("block", "json")), required=True, help="The form.")
@click.option("-o", "--output", type=FILE, help="The file to write [default: standard output].")
def convert(file: Path, form: str, output: Path | None) -> None:
    """Write FILE in the block form or as JSON.

    The text is read again: it is only written when it means the same cluster. Comments stay.
    """
    text = converted(file, form)
    if output is None:
        show(text.removesuffix("\n"))
    else:
        write_atomically(output, text.encode())
        show(f"{output}: written")


@click.command(name="export")
@click.argument("topology", type=FILE)
@click.option("--to", "_", type=click.Choice(("edges",)), default="edges")
@click.option("-o", "--output", type=NewPath(), metavar="FILE", help="[default: standard output]")
def export(topology: Path, _: str, output: Path | None) -> None:
    """Write TOPOLOGY as a JSON list of nodes, directed links and groups, which topo import reads back."""
    text = json.dumps(edge_document(load_topology(topology)), indent=1) + "\n"
    if output is None:
        show(text.rstrip("\n"))
        return
    write_atomically(output, text.encode())


@click.command(name="fmt")
@click.argument("files", type=FILE, nargs=-1, required=True)
@click.option("--check", is_flag=True, help="Write nothing; exit 1 when a file has another layout.")
def fmt(files: tuple[Path, ...], check: bool) -> int:
    """Write FILES in one layout: a statement a line, two columns for each open brace.

    Comments and meaning stay. Either all files are written or none. For -, standard input, the text is printed.
    """
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
        show(f"{counted(len(files), 'file')} in the layout already")
    return int(check and bool(changed))
