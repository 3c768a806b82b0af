"""``hetesynth topo ranks``: which rank runs on which GPU, as a table and as the files that launchers read."""

from __future__ import annotations

import json
import os
from pathlib import Path

import click

from hetesynth.cli.options import TOPOLOGY, NewPath, json_option, topology_losses
from hetesynth.cli.terminal import show
from hetesynth.deploy.rank_files import FORMATS

SHOWN_NAMES = 4


@click.command(name="ranks")
@click.argument("topology", type=TOPOLOGY)
@click.option(
    "-o",
    "directory",
    type=NewPath(path_type=Path),
    metavar="DIR",
    help="Write the files into this folder, which is made where it is absent.",
)
@click.option(
    "--format",
    "formats",
    multiple=True,
    type=click.Choice(tuple(FORMATS)),
    help="What to print or write, repeatable [default: the table; with -o all].",
)
@json_option
@topology_losses
def command(topology: os.PathLike[str], directory: Path | None, formats: tuple[str, ...], as_json: bool) -> None:
    """Print the host and the GPU of every rank, or write the files that start a job in this order.

    Ranks are the GPUs in the order of the topology. A job has to start them in the same order, or schedules and
    programs are for other links than those that they run on.
    """
    from hetesynth.deploy.rank_files import load_rank_order, write_rank_files

    order = load_rank_order(topology)
    written = [] if directory is None else write_rank_files(order, directory, formats or tuple(FORMATS))
    unnamed = []
    if order.unnamed:
        names = ", ".join(order.unnamed[:SHOWN_NAMES]) + (", ..." if len(order.unnamed) > SHOWN_NAMES else "")
        first = order.unnamed[0].rpartition(".")[2]
        unnamed = [
            f"no host is stated for {names}: the names of the instances stand for them.",
            f'  help: state it where the instance is declared: instance {first} = ... {{ host "node17" }}',
        ]
    if as_json:
        ranks = [
            {"rank": place.rank, "host": machine, "server": place.server, "gpu": place.device, "visible": slot}
            for machine, places in order.machines()
            for slot, place in enumerate(places)
        ]
        document = {
            "cluster": order.cluster,
            "ranks": ranks,
            "without_host": list(order.unnamed),
            "files": [str(path) for path in written],
        }
        show(json.dumps(document, indent=2))
    elif directory is not None:
        lines = [f"{order.cluster}: {len(order.places)} ranks on {len(order.machines())} hosts"]
        show("\n".join([*lines, *(f"  wrote {path}" for path in written), *unnamed]))
    else:
        blocks = []
        for name in formats or ("table",):
            file_name, text = FORMATS[name]
            blocks.append(f"# {file_name}\n{text(order)}" if len(formats) > 1 else text(order))
        if formats in ((), ("table",)):
            blocks += unnamed
        show("\n".join(blocks).removesuffix("\n"))
