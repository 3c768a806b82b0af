"""NCCL's own dump of its graph search (NCCL_GRAPH_DUMP_FILE), of one server, to the order of ranks in its rings.

The format: ``graph`` elements with a ``pattern`` (4: ring), in them ``channel`` elements with ``gpu dev="..."`` in
the ring's order.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hetesynth.errors import HetesynthError
from hetesynth.files.regular_files import read_regular
from hetesynth.model.topology import Rank, Topology

RING_PATTERN = "4"
MAX_BYTES = 4_000_000
MAX_CHANNELS = 64

Order = tuple[int, ...]  # GPUs of a server by their number


@dataclass(frozen=True, slots=True)
class RingFile:
    """A dump of NCCL's rings, for the server called ``instance``, else for all servers of its size."""

    path: Path
    instance: str | None = None


def server_rings(topology: Topology, files: Sequence[RingFile]) -> tuple[tuple[Rank, ...], ...]:
    """Return the rings over all servers, one a channel; servers with fewer channels repeat theirs."""
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
        rings = [named[server]] if server in named else [*shared, ((0,),)]
        fitting = [one for one in rings if len(one[0]) == len(ranks)]
        if not fitting:
            message = f"no dump in --rings has the {len(ranks)} GPUs of {server}"
            raise HetesynthError(message, code="HS623", help=f"dump it on that server: --rings {server}=FILE.xml")
        orders[server] = fitting[0]
    channels = max(len(rings) for rings in orders.values())
    return tuple(
        tuple(ranks[gpu] for s, ranks in servers.items() for gpu in orders[s][c % len(orders[s])])
        for c in range(channels)
    )


def read_rings(path: Path) -> tuple[Order, ...]:
    """Return the rings of one dump, each GPU in each of them once."""
    from lxml import etree

    try:
        data = read_regular(path, MAX_BYTES)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise HetesynthError(f"cannot read {path}: {reason}", code="HS621", help="check --rings") from error
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=False)
    orders: list[list[int]] = []
    try:
        root = etree.fromstring(data, parser)
        graphs = root.findall(f"graph[@pattern='{RING_PATTERN}']") if root.tag == "graphs" else []
        orders = [
            [int(gpu.get("dev", "")) for gpu in channel.iterfind("gpu")]
            for channel in graphs[0].iterfind("channel")
        ]
    except (etree.XMLSyntaxError, ValueError, IndexError):
        pass  # it has no rings
    gpus = sorted(orders[0]) if 0 < len(orders) <= MAX_CHANNELS and b"<!DOCTYPE" not in data else []
    if not gpus or any(sorted(order) != gpus for order in orders) or len(set(gpus)) != len(gpus):
        what = f"{path} is no dump of NCCL's graph, with 1 to {MAX_CHANNELS} rings of the same GPUs"
        help_ = "make one with NCCL_GRAPH_DUMP_FILE=FILE.xml, on each kind of server"
        raise HetesynthError(what, code="HS622", help=help_)
    place = {dev: i for i, dev in enumerate(gpus)}  # devices may be numbered with gaps
    return tuple(tuple(place[dev] for dev in order) for order in orders)
