"""``hetesynth topo ranks``: which rank runs on which GPU, as a table and as the files that launchers read."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hetesynth.cli.options import TOPOLOGY, NewPath, json_option, topology_losses
from hetesynth.cli.terminal import show
from hetesynth.deploy.rank_files import FORMATS

if TYPE_CHECKING:
    from hetesynth.deploy.rank_files import RankOrder


@click.command(name="ranks", short_help="Say which rank runs where, for launchers.")
@click.argument("topology", type=TOPOLOGY)
@click.option(
    "-o", "directory", type=NewPath(path_type=Path), metavar="DIR",
    help="Write the files into this folder, which is made where it is absent.",
)  # fmt: skip
@click.option(
    "--format", "formats", multiple=True, type=click.Choice(tuple(FORMATS)),
    help="What to print or write, repeatable [default: the table; with -o all].",
)  # fmt: skip
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
    if as_json:
        show(rank_order_document(order, written))
    elif directory is None:
        show(rank_order_text(order, formats or ("table",)))
    else:
        show(written_text(order, written))


SHOWN_NAMES = 4


def rank_order_text(order: RankOrder, formats: Sequence[str]) -> str:
    """The files of ``formats`` one behind the other, with their names where there are several."""
    blocks = []
    for name in formats:
        file_name, text = FORMATS[name]
        blocks.append(f"# {file_name}\n{text(order)}" if len(formats) > 1 else text(order))
    if tuple(formats) == ("table",) and order.unnamed:
        blocks.append(unnamed_text(order) + "\n")
    return "\n".join(blocks).removesuffix("\n")


def written_text(order: RankOrder, written: Sequence[Path]) -> str:
    """The paths, how many ranks and machines they name, and which names are no hosts'."""
    lines = [f"{order.cluster}: {len(order.places)} ranks on {len(order.machines())} hosts"]
    lines += [f"  wrote {path}" for path in written]
    return "\n".join([*lines, *([unnamed_text(order)] if order.unnamed else [])])


def unnamed_text(order: RankOrder) -> str:
    """Which servers have no host, and how to state it."""
    names = ", ".join(order.unnamed[:SHOWN_NAMES]) + (", ..." if len(order.unnamed) > SHOWN_NAMES else "")
    first = order.unnamed[0].rpartition(".")[2]
    return (
        f"no host is stated for {names}: the names of the instances stand for them.\n"
        f'  help: state it where the instance is declared: instance {first} = ... {{ host "node17" }}'
    )


def rank_order_document(order: RankOrder, written: Sequence[Path]) -> str:
    """One JSON object."""
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
    return json.dumps(document, indent=2)
