"""``hetesynth topo library``: the node types that a topology can import."""

from __future__ import annotations

import json

import click

from hetesynth.cli.options import json_option
from hetesynth.cli.terminal import show, table


@click.command(name="library")
@click.argument("name", metavar="[TYPE]", required=False)
@json_option
def command(name: str | None, as_json: bool) -> None:
    """List the types of the node library: GPUs, NICs, GB/s of one direction, parameters, file and line.

    With TYPE its declaration and the sources of its figures.
    """
    from hetesynth.topology.language.library import library_type, library_types

    types = library_types() if name is None else (library_type(name),)
    if as_json:
        fields = [
            {
                "name": entry.name,
                "import": entry.library,
                "sort": entry.sort,
                "gpus": entry.gpus,
                "model": entry.model,
                "gb_per_s_of_a_gpu": float(entry.inside / 10**9),
                "nics": entry.nics,
                "gb_per_s_of_nics": float(entry.outside / 10**9),
                "parameters": list(entry.parameters),
                "file": str(entry.path),
                "line": entry.line,
                "title": entry.title,
            }
            for entry in types
        ]
        show(json.dumps({"types": fields}, indent=2))
        return
    if name is not None:
        entry = types[0]
        use = f"import {entry.library}   ...   instance a = {entry.name}"
        show("\n".join([f"{entry.path}:{entry.line}", "", *entry.header, "", entry.text, "", use]))
        return
    rows = [("type", "import", "GPUs", "model", "GB/s a GPU", "NICs", "GB/s out", "parameters", "source")]
    rows += [
        (
            entry.name,
            entry.library,
            str(entry.gpus),
            entry.model,
            f"{float(entry.inside / 10**9):g}",
            str(entry.nics),
            f"{float(entry.outside / 10**9):g}",
            ", ".join(entry.parameters) or "-",
            f"{entry.path.name}:{entry.line}",
        )
        for entry in types
    ]
    more = "`hetesynth topo library TYPE` shows one with the sources of its figures."
    show("\n".join([*table(rows), "", more]))
