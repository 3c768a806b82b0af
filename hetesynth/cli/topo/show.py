"""``hetesynth topo show``: what a topology file describes, in an operator's units, with its capacities."""

from __future__ import annotations

import os
from pathlib import Path

import click

from hetesynth.cli.losses import topology_losses
from hetesynth.cli.options import TOPOLOGY, Named, chunking_options, json_option
from hetesynth.cli.terminal import show, show_lines
from hetesynth.search.chunking import ROUNDINGS


@click.command(name="show", short_help="Print servers, links, bottlenecks and capacities; draw them.")
@click.argument("topology", type=TOPOLOGY)
@click.option("--chunk-size", metavar="SIZE", help="For example 4MB [default: the topology's, else 1 MB].")
@click.option("--tau-ref", default="slowest", metavar="slowest|KIND|TIME", show_default=True, help="See synth.")
@click.option("--rounding", type=click.Choice(ROUNDINGS), default="ceil", show_default=True, help="See synth.")
@click.option("--all", "every", is_flag=True, help="Every GPU and every link, not one line for those alike.")
@click.option("--svg", type=Named(".svg"), metavar="FILE.svg", help="Draw the cluster.")
@click.option("--graphml", type=Named(".graphml", ".xml"), metavar="FILE.graphml", help="Write the graph.")
@json_option
@topology_losses
def command(
    topology: os.PathLike[str], chunk_size: str | None, tau_ref: str, rounding: str, every: bool, svg: Path | None,
    graphml: Path | None, as_json: bool,
) -> None:  # fmt: skip
    """Print where every rank is, the links by class and what GPUs have to share, in GB/s and microseconds.

    Then the capacities of steps: C(u, v) of links and C_g of what they share, each with its rounding error.
    """
    from hetesynth.cli.render.topo import graph_document, topology_report
    from hetesynth.deploy.topology_files import Pictures, look

    pictures = Pictures(svg, graphml)
    seen = look(topology, chunking_options(chunk_size, tau_ref, rounding), pictures)
    if as_json:
        show_lines(graph_document(seen))
        return
    show_lines(topology_report(seen, every=every))
    for path in pictures.paths:
        show(f"  wrote {path}")
