"""``hetesynth topo export``: a topology in a format of others."""

from __future__ import annotations

import json
from pathlib import Path

import click

from hetesynth.cli.options import TOPOLOGY, NewPath
from hetesynth.cli.terminal import show


@click.command(name="export", short_help="Write a topology in a format of others.")
@click.argument("topology", type=TOPOLOGY)
@click.option("--to", "target", type=click.Choice(("edges", "astra-sim")), default="edges", show_default=True)
@click.option("-o", "--output", type=NewPath(path_type=Path), metavar="FILE", help="[default: standard output]")
def command(topology: Path, target: str, output: Path | None) -> None:
    """Write TOPOLOGY as a JSON list of nodes, directed links and groups, or as a network file of ASTRA-sim.

    topo import reads both back. ASTRA-sim knows products of rings, switches and full meshes.
    """
    from hetesynth.topology.language import load_topology

    loaded = load_topology(topology)
    if target == "edges":
        from hetesynth.topology.importers.edge_export import edge_document

        text = json.dumps(edge_document(loaded), indent=1) + "\n"
    else:
        from hetesynth.topology.importers.astra_sim import astra_sim_network

        text = astra_sim_network(loaded)
    if output is None:
        show(text.rstrip("\n"))
        return
    from hetesynth.files.atomic import write_atomically

    write_atomically(output, text.encode())
