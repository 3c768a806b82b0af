"""``hetesynth topo show``: the graph a topology file describes, with its capacities."""

from __future__ import annotations

import os

import click

from hetesynth.chunking import ROUNDINGS
from hetesynth.cli.losses import topology_losses
from hetesynth.cli.options import TOPOLOGY, chunking_options, json_option
from hetesynth.cli.terminal import show_lines


@click.group(name="topo", short_help="Look at a topology.")
def command() -> None:
    """Look at a topology."""


@command.command(name="show", short_help="Print the graph and the capacities.")
@click.argument("topology", type=TOPOLOGY)
@topology_losses
@click.option("--chunk-size", metavar="SIZE", help="For example 4MB [default: the topology's, else 1 MB].")
@click.option("--tau-ref", default="slowest", metavar="slowest|KIND|TIME", show_default=True, help="See synth.")
@click.option("--rounding", type=click.Choice(ROUNDINGS), default="ceil", show_default=True, help="See synth.")
@click.option("--all", "every", is_flag=True, help="Every link, not one line per kind.")
@json_option
def show(
    topology: os.PathLike[str], chunk_size: str | None, tau_ref: str, rounding: str, every: bool, as_json: bool
) -> None:
    """Print the GPUs, the links with C(u, v), the shared resources with C_g, and each one's rounding error."""
    from hetesynth.cli.render.topo import graph_document, topology_report
    from hetesynth.compile.problem import load_chunking

    chunking = load_chunking(topology, chunking_options(chunk_size, tau_ref, rounding))
    if as_json:
        show_lines(graph_document(chunking))
    else:
        show_lines(topology_report(chunking, every=every))
