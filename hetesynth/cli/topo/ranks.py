"""``hetesynth topo ranks``: which rank runs on which GPU, as a table and as the files that launchers read."""

from __future__ import annotations

import os
from pathlib import Path

import click

from hetesynth.cli.losses import topology_losses
from hetesynth.cli.options import TOPOLOGY, NewPath, json_option
from hetesynth.cli.terminal import show
from hetesynth.deploy.rank_files import FORMATS


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
    from hetesynth.cli.render.rank_order import rank_order_document, rank_order_text, written_text
    from hetesynth.deploy.rank_files import load_rank_order, write_rank_files

    order = load_rank_order(topology)
    written = [] if directory is None else write_rank_files(order, directory, formats or tuple(FORMATS))
    if as_json:
        show(rank_order_document(order, written))
    elif directory is None:
        show(rank_order_text(order, formats or ("table",)))
    else:
        show(written_text(order, written))
