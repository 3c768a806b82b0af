"""``hetesynth init``: a first topology, or a first manifest of the topologies that there are, to be edited."""

from pathlib import Path

import click

from hetesynth.cli.options import NewPath, json_option
from hetesynth.cli.terminal import answer
from hetesynth.deploy.manifest.first_manifest import first_manifest, write_first_manifest
from hetesynth.model.words import counted
from hetesynth.topology.first_topology import MAX_SERVERS, first_topology, write_first_topology

USUAL_TYPE = "h100x8"


@click.command(name="init")
@click.argument("place", metavar="[DIR|FILE.dsl]", type=NewPath(), default=".")
@click.option("--node-type", metavar="TYPE", help=f"Of the servers, as in topo library [default: {USUAL_TYPE}].")
@click.option("--servers", type=click.IntRange(1, MAX_SERVERS), help="How many [default: 2, or one a host].")
@click.option("--hosts", metavar="HOSTS", help='Their names: node17,node18 or "node[10-13]".')
@json_option
def command(place: Path, node_type: str | None, servers: int | None, hosts: str | None, as_json: bool) -> None:
    """Write a topology, or a manifest of the topologies that there are.

    With a type of server, or for FILE.dsl: a topology with comments, of servers on one network, DIR/topo.dsl or
    the file named. Otherwise DIR/hetesynth.toml, which names every cluster that a .dsl file in DIR or below it
    describes, for hetesynth build. A file that exists is never replaced.
    """
    is_file = place.suffix == ".dsl" and not place.is_dir()
    if node_type is not None or servers is not None or hosts or is_file:
        path, first = first_topology(place, node_type or USUAL_TYPE, servers, hosts or "")
        write_first_topology(path, first)
        document = {"file": str(path), "cluster": first.cluster, "type": first.node_type, "servers": first.servers}
        lines = [f"wrote {path}: {counted(first.servers, 'server')} of type {first.node_type}"]
        if first.remark:
            document["note"] = first.remark
            lines.append(f"  note: {first.remark}")
        lines.append(f"  next: hetesynth topo show {path}")
    else:
        described = first_manifest(place)
        written = write_first_manifest(described)
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
    answer(document, lines, as_json=as_json)
