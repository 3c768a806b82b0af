"""What pieces of hardware are, and rates and latencies that no such hardware has (HS241, HS242): bits for bytes.

The ranges are wide: from the oldest hardware of a sort, derated, to several times the newest.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from hetesynth.model.topology import Vertex
from hetesynth.topology.lint.view import Finding, View, gb, rate_of

BITS = 8  # of a byte
GB = 10**9
US = Fraction(1, 10**6)
_MEANT = (Fraction(BITS), Fraction(1, BITS), Fraction(1000), Fraction(1, 1000))


@dataclass(frozen=True, slots=True)
class Role:
    """A kind of hardware, and the ranges of its rates in B/s and of its latencies in seconds."""

    what: str
    least: Fraction
    most: Fraction
    least_latency: Fraction = US / 100
    most_latency: Fraction = 50 * US


NVSWITCH = Role("a GPU's port of an NVSwitch", Fraction(100 * GB), Fraction(4000 * GB))
NVLINK = Role("an NVLink connection of two GPUs", Fraction(10 * GB), Fraction(2000 * GB))
NIC = Role("a NIC", Fraction(GB, 8), Fraction(200 * GB), US / 100, 200 * US)
PCIE = Role("PCIe", Fraction(GB), Fraction(300 * GB))
NETWORK = Role("a network between servers", Fraction(GB, 8), Fraction(500_000 * GB), US / 20, 200 * US)
SOCKET = Role("a port of a CPU", Fraction(GB, 8), Fraction(4000 * GB))  # x4 of a generation beside x16 of the next
UPI = Role("a link between two CPUs", Fraction(4 * GB), Fraction(1000 * GB))
REDUCE = Role("the reduction of a GPU", Fraction(10 * GB), Fraction(20_000 * GB))
INSIDE = Role("a connection inside a server", Fraction(GB, 8), Fraction(4000 * GB))
FAR = Role("a connection between sites", Fraction(0), Fraction(10**6 * GB), Fraction(0), Fraction(1))


def role_of(sort: str, name: str, kind: str, *, inside: bool) -> Role:
    """Return the role of a part by its sort, name and kind of links; ``inside``: the part is in a server."""
    name = name.lower()
    if sort == "switch" and ("nvswitch" in name or kind in ("nvlink", "nvswitch")):
        return NVSWITCH
    if sort == "router":
        return FAR
    if "pcie" in kind or sort == "pcie" or name.startswith("pcie"):
        return PCIE
    if sort in ("cpu", "numa"):
        return SOCKET
    if sort == "upi":
        return UPI
    if kind in ("wan", "lan", "router", "uplink"):
        return FAR
    return INSIDE if inside else NETWORK


def doubtful_rates(view: View) -> Iterator[Finding]:
    """Yield rates and latencies that no such hardware has, except in servers that are slow on purpose."""
    for part in view.parts.values():
        role = role_of(part.kind, part.name.rpartition(".")[2], part.link_kind.lower(), inside=bool(part.server))
        if part.server not in view.damaged:
            yield from _odd_latency(part.name, NIC if part.kind == "nic" else role, part.latency)
    for wire in view.topology.wires:
        src, dst = view.vertices[wire.src], view.vertices[wire.dst]
        if not {src.server, dst.server} & view.damaged:
            end, role = _end_and_role(src, dst, wire.kind.lower())
            if wire.bandwidth is not None:
                yield from _odd_rate(end.name, role, rate_of(wire))
            if src.kind == dst.kind == "gpu":
                yield from _odd_latency(end.name, role, wire.latency)
    for rank, reduce in enumerate(view.topology.reduce_bandwidth):
        if reduce is not None:
            yield from _odd_rate(view.vertices[rank].name, REDUCE, reduce)


def _odd_latency(part: str, role: Role, latency: Fraction) -> Iterator[Finding]:
    if latency and not role.least_latency <= latency <= role.most_latency:
        message = f"{float(latency * 10**6):.6g} us, which {role.what} does not have"
        help_ = "is it in another unit? a latency is alpha: seconds for each transfer"
        yield Finding("HS242", part, message, help_)


def _odd_rate(part: str, role: Role, rate: Fraction) -> Iterator[Finding]:
    if not role.least <= rate <= role.most:
        meant = [gb(rate * factor) for factor in _MEANT if role.least <= rate * factor <= role.most]
        help_ = f"{gb(role.least)} to {gb(role.most)} is usual"
        if meant:
            help_ = f"did you mean {meant[0]}? (b is a bit, B a byte)"
        yield Finding("HS241", part, f"{gb(rate)}, which {role.what} does not have", help_)


def _end_and_role(src: Vertex, dst: Vertex, kind: str) -> tuple[Vertex, Role]:
    """Return the end that a wire belongs to, and its role: a NIC, a switch or the like, else two GPUs' link."""
    others = [end for end in (src, dst) if end.kind not in ("nic", "gpu")]
    nics = [end for end in (src, dst) if end.kind == "nic"]
    if nics and (not others or not others[0].server):
        return nics[0], NIC if others else PCIE
    if not others:
        inside = src.server == dst.server
        return src, NVLINK if kind == "nvlink" else PCIE if "pcie" in kind else INSIDE if inside else NETWORK
    end = others[0]
    sort = kind if len(others) == 2 and kind == "upi" else end.kind
    return end, role_of(sort, end.name.rpartition(".")[2], kind, inside=bool(end.server))
