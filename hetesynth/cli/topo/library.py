"""``hetesynth topo library``: the node types that a topology can import."""

from __future__ import annotations

import click

from hetesynth.cli.options import json_option
from hetesynth.cli.terminal import show


@click.command(name="library", short_help="List the node types, or show one.")
@click.argument("name", metavar="[TYPE]", required=False)
@json_option
def command(name: str | None, as_json: bool) -> None:
    """List the types of the node library: GPUs, NICs, GB/s of one direction, parameters, file and line.

    With TYPE its declaration and the sources of its figures.
    """
    from hetesynth.cli.render.library import library_document, library_report, type_report
    from hetesynth.topology.language.library import library_type, library_types

    types = library_types() if name is None else (library_type(name),)
    if as_json:
        show(library_document(types))
    else:
        show(library_report(types) if name is None else type_report(types[0]))
