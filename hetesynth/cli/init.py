"""``hetesynth init``: a first topology to be edited."""

from __future__ import annotations

import json
from pathlib import Path

import click

from hetesynth.cli.options import NewPath, json_option
from hetesynth.cli.terminal import show
from hetesynth.commands.first_topology import MAX_SERVERS


@click.command(name="init", short_help="Write a first topology to be edited.")
@click.argument("place", metavar="[DIR|FILE.dsl]", type=NewPath(path_type=Path), default=".")
@click.option(
    "--node-type", default="h100x8", metavar="TYPE", show_default=True, help="See hetesynth topo library."
)
@click.option(
    "--servers", type=click.IntRange(1, MAX_SERVERS), help="How many [default: 2, or as many as there are hosts]."
)
@click.option("--hosts", default="", metavar="HOSTS", help='Their names: node17,node18 or "node[10-13]".')
@json_option
def command(place: Path, node_type: str, servers: int | None, hosts: str, as_json: bool) -> None:
    """Write a topology with comments, of servers of one type on one network, and say what to do with it.

    It is DIR/topo.dsl or the file named. A file that exists is never replaced.
    """
    from hetesynth.commands.first_topology import first_topology, write_first_topology

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
