"""``hetesynth init``: a first topology, or a first manifest of the topologies that there are, to be edited."""

from __future__ import annotations

import json
from pathlib import Path

import click

from hetesynth import api
from hetesynth.cli.options import NewPath, json_option
from hetesynth.cli.terminal import show
from hetesynth.model.words import counted
from hetesynth.topology.first_topology import MAX_SERVERS

USUAL_TYPE = "h100x8"


@click.command(name="init")
@click.argument("place", metavar="[DIR|FILE.dsl]", type=NewPath(path_type=Path), default=".")
@click.option(
    "--node-type",
    metavar="TYPE",
    help=f"Write a topology of such servers; see hetesynth topo library [default for FILE.dsl: {USUAL_TYPE}].",
)
@click.option(
    "--servers", type=click.IntRange(1, MAX_SERVERS), help="How many [default: 2, or as many as there are hosts]."
)
@click.option("--hosts", default="", metavar="HOSTS", help='Their names: node17,node18 or "node[10-13]".')
@json_option
def command(place: Path, node_type: str | None, servers: int | None, hosts: str, as_json: bool) -> None:
    """Write a topology, or a manifest of the topologies that there are.

    With a type of server, or for FILE.dsl: a topology with comments, of servers on one network, DIR/topo.dsl or
    the file named. Otherwise DIR/hetesynth.toml, which names every cluster that a .dsl file in DIR or below it
    describes, for hetesynth build. A file that exists is never replaced.
    """
    is_file = place.suffix == ".dsl" and not place.is_dir()
    if node_type is not None or servers is not None or hosts or is_file:
        path, first = api.first_topology(place, node_type or USUAL_TYPE, servers, hosts)
        document = {"file": str(path), "cluster": first.cluster, "type": first.node_type, "servers": first.servers}
        lines = [f"wrote {path}: {counted(first.servers, 'server')} of type {first.node_type}"]
        if first.remark:
            document["note"] = first.remark
            lines.append(f"  note: {first.remark}")
        lines.append(f"  next: hetesynth topo show {path}")
    else:
        written, described = api.first_manifest(place)
        document = {
            "file": str(described.path),
            "files": [*map(str, written)],
            "clusters": [
                {"topology": one.path, "name": one.name, "targets": [*one.targets]} for one in described.clusters
            ],
            "skipped": [{"topology": path, "reason": reason} for path, reason in described.skipped],
        }
        lines = [f"wrote {described.path}: {counted(len(described.clusters), 'cluster')}"]
        lines += [f"  skipped {path}: {reason}" for path, reason in described.skipped]
        lines.append(f"  next: hetesynth build {described.path}")
    show(json.dumps(document, indent=2) if as_json else "\n".join(lines))
