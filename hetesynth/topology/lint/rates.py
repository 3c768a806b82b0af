"""Bandwidths and latencies that no such hardware has: bits for bytes, a prefix too much (HS241, HS242).

In: the cluster as built. Out: findings that name the value that was probably meant.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from hetesynth.model.topology import Vertex
from hetesynth.topology.lint.roles import BITS, INSIDE, NETWORK, NIC, NVLINK, PCIE, REDUCE, Role, role_of
from hetesynth.topology.lint.view import Finding, View, gb, rate_of

_MEANT = (Fraction(BITS), Fraction(1, BITS), Fraction(1000), Fraction(1, 1000))


def doubtful_rates(view: View) -> Iterator[Finding]:
    """Rates and latencies outside of what such hardware has; not of servers that are slow on purpose."""
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
        yield Finding(
            "HS242", part, message, "is it in another unit? a latency is alpha: seconds for each transfer"
        )


def _odd_rate(part: str, role: Role, rate: Fraction) -> Iterator[Finding]:
    if not role.least <= rate <= role.most:
        meant = [gb(rate * factor) for factor in _MEANT if role.least <= rate * factor <= role.most]
        help_ = f"{gb(role.least)} to {gb(role.most)} is usual"
        if meant:
            help_ = f"did you mean {meant[0]}? (b is a bit, B a byte)"
        yield Finding("HS241", part, f"{gb(rate)}, which {role.what} does not have", help_)


def _end_and_role(src: Vertex, dst: Vertex, kind: str) -> tuple[Vertex, Role]:
    """Which part a wire is of, and what that is: what joins GPUs, a NIC, or a connection of two alike."""
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
