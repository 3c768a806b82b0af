"""NCCL's own dump of its graph search (NCCL_GRAPH_DUMP_FILE) to the order of ranks in its rings.

In: XML files, of one server each, and a topology. Out: for every channel the ranks of the cluster in the order of
the ring: server after server, each in the order of its dump. A dump without a name is for every server with that
many GPUs. The input is untrusted: no entities, no network, limits on everything.

The format: ``graph`` elements with a ``pattern`` (4: ring), in them ``channel`` elements with ``gpu dev="..."`` in
the ring's order.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hetesynth.errors import HetesynthError
from hetesynth.files.regular_files import open_regular
from hetesynth.model.topology import Rank, Topology

RING_PATTERN = "4"
MAX_BYTES = 4_000_000
MAX_CHANNELS = 64
MAX_GPUS = 1024
MAX_ELEMENTS = 100_000

Order = tuple[int, ...]  # GPUs of a server by their number


@dataclass(frozen=True, slots=True)
class RingFile:
    """A dump, for the server called ``instance`` or for all of its size."""

    path: Path
    instance: str | None = None


def server_rings(topology: Topology, files: Sequence[RingFile]) -> tuple[tuple[Rank, ...], ...]:
    """The rings over all servers, one a channel; servers with fewer channels begin again with their first.

    Raises HetesynthError HS621 (cannot be read), HS622 (no such dump), HS623 (does not fit the cluster).
    """
    servers: dict[str, list[Rank]] = defaultdict(list)
    for rank in range(topology.ranks):
        servers[topology.vertices[rank].server].append(rank)
    named = {file.instance: read_rings(file.path) for file in files if file.instance is not None}
    shared = [read_rings(file.path) for file in files if file.instance is None]
    unknown = sorted(named.keys() - servers.keys())
    if unknown:
        message = f"--rings names an instance {unknown[0]!r} that {topology.name} has not"
        raise HetesynthError(message, code="HS623", help=f"instances: {', '.join(sorted(servers))}")
    orders: dict[str, tuple[Order, ...]] = {}
    for server, ranks in servers.items():
        gpus = len(ranks)
        if server in named and len(named[server][0]) != gpus:
            message = f"the dump for {server} has {len(named[server][0])} GPUs, {server} has {gpus}"
            raise HetesynthError(message, code="HS623", help="dump the graph on that server")
        fitting = [named[server]] if server in named else [rings for rings in shared if len(rings[0]) == gpus]
        if not fitting and gpus > 1:
            message = f"no dump in --rings has the {gpus} GPUs of {server}"
            raise HetesynthError(message, code="HS623", help=f"give one more: --rings {server}=FILE.xml")
        orders[server] = fitting[0] if fitting else ((0,),)
    channels = max(len(rings) for rings in orders.values())
    return tuple(
        tuple(ranks[gpu] for s, ranks in servers.items() for gpu in orders[s][c % len(orders[s])])
        for c in range(channels)
    )


def read_rings(path: Path) -> tuple[Order, ...]:
    """The rings of one dump, each GPU in each of them once."""
    from lxml import etree

    try:
        if not path.is_file():
            raise OSError("not a regular file" if path.exists() else "no such file")
        with open_regular(path) as stream:
            data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise HetesynthError(f"cannot read {path}: {reason}", code="HS621", help="check --rings") from error
    if len(data) > MAX_BYTES:
        raise _wrong(path, f"it has more than {MAX_BYTES} bytes")
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    try:
        root = etree.fromstring(data, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise _wrong(path, f"it is no XML: {str(error)[:200]}") from error
    if b"<!DOCTYPE" in data or b"<!ENTITY" in data:
        raise _wrong(path, "it declares a document type")
    if root.tag != "graphs":
        raise _wrong(path, "its root element is not <graphs>")
    if any(number >= MAX_ELEMENTS for number, _ in enumerate(root.iter())):
        raise _wrong(path, f"it has more than {MAX_ELEMENTS} elements")
    graph = next((g for g in root.iterfind("graph") if g.get("pattern") == RING_PATTERN), None)
    channels = [] if graph is None else graph.findall("channel")[: MAX_CHANNELS + 1]
    if not channels:
        raise _wrong(path, "it has no graph of pattern 4 (ring) with channels")
    if len(channels) > MAX_CHANNELS:
        raise _wrong(path, f"it has more than {MAX_CHANNELS} channels")
    devices = [[str(gpu.get("dev")) for gpu in channel.iterfind("gpu")] for channel in channels]
    for dev in (dev for order in devices for dev in order):
        if not re.fullmatch("[0-9]{1,4}", dev) or int(dev) >= MAX_GPUS:
            raise _wrong(path, f"a <gpu> has dev={dev[:20]!r}")
    orders = [[int(dev) for dev in order] for order in devices]
    gpus = sorted(orders[0])
    if not gpus or any(sorted(order) != gpus for order in orders) or len(set(gpus)) != len(gpus):
        raise _wrong(path, "its ring channels do not have the same GPUs, each once")
    place = {dev: i for i, dev in enumerate(gpus)}  # devices may be numbered with gaps
    return tuple(tuple(place[dev] for dev in order) for order in orders)


def _wrong(path: Path, what: str) -> HetesynthError:
    what = f"{path} is no dump of NCCL's graph: {what}"
    help_ = "make one with NCCL_GRAPH_DUMP_FILE=FILE.xml, on each kind of server"
    return HetesynthError(what, code="HS622", help=help_)
