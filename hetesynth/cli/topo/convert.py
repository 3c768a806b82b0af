"""``hetesynth topo convert``: a topology file in another form."""

from __future__ import annotations

from pathlib import Path

import click

from hetesynth.cli.options import TOPOLOGY
from hetesynth.cli.terminal import show


@click.command(name="convert", short_help="Say the same cluster in another form.")
@click.argument("file", type=TOPOLOGY)
@click.option(
    "--to", "form", type=click.Choice(("block", "paper", "json")), required=True, help="The form to write."
)
@click.option("-o", "--output", type=TOPOLOGY, help="The file to write [default: standard output].")
def command(file: Path, form: str, output: Path | None) -> None:
    """Write FILE in the block form, in the paper form, or as JSON.

    The text is read again: it is only written when it means the same cluster. What the other form cannot say is
    named, and the exit code is 1. Comments stay, above the block that they belong to.
    """
    from hetesynth.files.atomic import write_atomically
    from hetesynth.topology.convert import converted

    text = converted(file, form)
    if output is None:
        show(text.removesuffix("\n"))
    else:
        write_atomically(output, text.encode())
        show(f"{output}: written")
