"""``hetesynth init``: a first topology, or a first manifest of the topologies that there are, to be edited."""

from __future__ import annotations

import json
from pathlib import Path

import click

from hetesynth.cli.options import NewPath, json_option
from hetesynth.cli.terminal import show
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
    if node_type is None and servers is None and not hosts and not is_file:
        _manifest(place, as_json=as_json)
    else:
        _topology(place, node_type or USUAL_TYPE, servers, hosts, as_json=as_json)


def _topology(place: Path, node_type: str, servers: int | None, hosts: str, *, as_json: bool) -> None:
    from hetesynth.topology.first_topology import first_topology, write_first_topology

    path, first = first_topology(place, node_type, servers, hosts)
    write_first_topology(path, first)
    if as_json:
        document = {"file": str(path), "cluster": first.cluster, "type": first.node_type, "servers": first.servers}
        if first.remark:
            document["note"] = first.remark
        show(json.dumps(document, indent=2))
    else:
        count = f"{first.servers} server" + "s" * (first.servers != 1)
        remark = f"\n  note: {first.remark}" if first.remark else ""
        show(f"wrote {path}: {count} of type {first.node_type}{remark}\n  next: hetesynth topo show {path}")


def _manifest(place: Path, *, as_json: bool) -> None:
    from hetesynth.deploy.manifest.first_manifest import MAX_FILES, first_manifest, write_first_manifest

    first = first_manifest(place)
    written = write_first_manifest(first)
    if as_json:
        clusters = [
            {"topology": one.path, "name": one.name, "targets": [*one.targets], "gpus": one.gpus}
            for one in first.clusters
        ]
        skipped = [{"topology": path, "reason": reason} for path, reason in first.skipped]
        document = {"file": str(first.path), "files": [*map(str, written)], "clusters": clusters}
        show(json.dumps(document | {"skipped": skipped, "more": first.more}, indent=2))
        return
    count = f"{len(first.clusters)} cluster" + "s" * (len(first.clusters) != 1)
    lines = [f"wrote {first.path}: {count}", *(f"  skipped {path}: {reason}" for path, reason in first.skipped)]
    lines += [f"  there are more than {MAX_FILES} .dsl files; add those that are missing"] * first.more
    show("\n".join([*lines, f"  next: hetesynth build {first.path}"]))
