"""``hetesynth topo library``: the node types that a topology can import."""

import click

from hetesynth.cli.options import json_option
from hetesynth.cli.terminal import answer
from hetesynth.model.words import table
from hetesynth.topology.language.library import library_type, library_types


@click.command(name="library")
@click.argument("name", metavar="[TYPE]", required=False)
@json_option
def command(name: str | None, as_json: bool) -> None:
    """List the types of the node library: GPUs, NICs, GB/s of one direction, parameters, file and line.

    With TYPE its declaration and the sources of its figures.
    """
    types = library_types() if name is None else (library_type(name),)
    document = {
        "types": [
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
    }
    if name is not None:
        entry = types[0]
        use = f"import {entry.library}   ...   instance a = {entry.name}"
        lines = [f"{entry.path}:{entry.line}", "", *entry.header, "", entry.text, "", use]
    else:
        rows = [("type", "import", "GPUs", "model", "GB/s a GPU", "NICs", "GB/s out", "parameters", "source")]
        for entry in types:
            inside, outside = (f"{float(rate / 10**9):g}" for rate in (entry.inside, entry.outside))
            what = (entry.name, entry.library, str(entry.gpus), entry.model, inside, str(entry.nics), outside)
            rows.append((*what, ", ".join(entry.parameters) or "-", f"{entry.path.name}:{entry.line}"))
        lines = [*table(rows), "", "`hetesynth topo library TYPE` shows one with the sources of its figures."]
    answer(document, lines, as_json=as_json)
