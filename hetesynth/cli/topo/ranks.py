"""``hetesynth topo ranks``: which rank runs on which GPU, as a table and as the files that launchers read."""

import os
from collections.abc import Iterator
from pathlib import Path

import click

from hetesynth.cli.options import FILE, NewPath, json_option, topology_losses
from hetesynth.cli.terminal import answer, some
from hetesynth.deploy.rank_files import FORMATS, load_rank_order, write_rank_files

_FORMAT = "What to print or write, repeatable [default: the table; with -o all]."


@click.command(name="ranks")
@click.argument("topology", type=FILE)
@click.option("-o", "directory", type=NewPath(), metavar="DIR", help="Write the files into this folder.")
@click.option("--format", "formats", multiple=True, type=click.Choice(tuple(FORMATS)), help=_FORMAT)
@json_option
@topology_losses
def command(topology: os.PathLike[str], directory: Path | None, formats: tuple[str, ...], as_json: bool) -> None:
    """Print the host and the GPU of every rank, or write the files that start a job in this order.

    Ranks are the GPUs in the order of the topology. A job has to start them in the same order, or schedules and
    programs are for other links than those that they run on.
    """
    order = load_rank_order(topology)
    written = [] if directory is None else write_rank_files(order, directory, formats or tuple(FORMATS))
    document = {
        "cluster": order.cluster,
        "ranks": [
            {"rank": place.rank, "host": machine, "server": place.server, "gpu": place.device, "visible": slot}
            for machine, places in order.machines()
            for slot, place in enumerate(places)
        ],
        "without_host": list(order.unnamed),
        "files": [str(path) for path in written],
    }

    def lines() -> Iterator[str]:
        if directory is not None:
            yield f"{order.cluster}: {len(order.places)} ranks on {len(order.machines())} hosts"
            yield from (f"  wrote {path}" for path in written)
        else:
            for name in formats or ("table",):
                file_name, text = FORMATS[name]
                yield from [f"# {file_name}"] * (len(formats) > 1)
                yield text(order).removesuffix("\n")
        if order.unnamed and (directory is not None or formats in ((), ("table",))):
            names = some(order.unnamed)
            yield f"no host is stated for {names}: the names of the instances stand for them."
            yield '  help: state it where the instance is declared: instance a = h100x8 { host "node17" }'

    answer(document, lines(), as_json=as_json)
