"""Networks and connections that a file contradicts itself in: too narrow, stated twice, plugged in otherwise.

HS240 and HS244 (NICs, and what is not between two GPUs), HS255 to HS257. In: the cluster as built. Out: findings
with both figures. What `down` or `degrade` changed is not told.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from fractions import Fraction

from hetesynth.model.diagnostics import Diagnostic
from hetesynth.model.topology import Wire
from hetesynth.topology.language.inspection import Inspection
from hetesynth.topology.language.names import part_of
from hetesynth.topology.language.syntax import Network
from hetesynth.topology.lint.limits import told
from hetesynth.topology.lint.roles import BITS
from hetesynth.topology.lint.symmetry import broken, gb, listed

# what NICs carry together over what the network above them does: bits for bytes, or hardly built for GPUs
_NARROW = 8
_LONG = ("wan", "lan", "router")

Findings = dict[tuple[str, ...], list[str]]  # code, server, message, help, "note" where it is one: parts
_Mapping = tuple[tuple[str, str], ...]  # NIC within its server, fabric


def narrow(inspection: Inspection) -> Iterator[Diagnostic]:
    """Fabrics and their ways to other fabrics with less than their NICs together; far less is a warning."""
    topology = inspection.topology
    for item in inspection.stated[-1:]:
        for statement in item.items:
            for prop in statement.properties if isinstance(statement, Network) else ():
                number = prop.amount.number if prop.amount is not None else ""
                if prop.name == "oversubscription" and number and Fraction(number) < 1:
                    message = f"an oversubscription of {number} gives uplinks more than their NICs have"
                    help_ = "it is what NICs have over what uplinks have: 4 where uplinks have a quarter"
                    yield Diagnostic("HS255", prop.span, message, help_, "warning")
    if "" in broken(inspection):
        return
    arriving, leaving = defaultdict[str, list[Wire]](list), defaultdict[str, list[Wire]](list)
    for wire in topology.wires:
        arriving[topology.vertices[wire.dst].name].append(wire)
        leaving[topology.vertices[wire.src].name].append(wire)
    parts_of: Findings = defaultdict(list)
    for part in inspection.parts:
        if part.kind != "fabric" or part.disabled or part.link_kind.lower() in _LONG:
            continue
        nics = [
            wire.bandwidth * wire.lanes
            for wire in arriving[part.inlet]
            if wire.bandwidth is not None and topology.vertices[wire.src].kind == "nic"
        ]
        ups = [wire for wire in leaving[part.outlet] if topology.vertices[wire.dst].kind != "nic"]
        far = any(w.kind.lower() in _LONG or topology.vertices[w.dst].kind == "router" for w in ups)
        rates = [wire.bandwidth * wire.lanes for wire in ups if wire.bandwidth is not None]
        pipe = part.bandwidth * part.lanes if part.bandwidth is not None else None
        for rate, what in ((pipe, "one pipe"), (sum(rates, Fraction(0)) if rates else None, "uplinks")):
            if rate is None or far or len(nics) < 2 or rate >= sum(nics):
                continue
            thin = rate * _NARROW <= sum(nics)
            message = f"{what} of {gb(rate)} for {len(nics)} NICs of {gb(Fraction(sum(nics)))} together"
            help_ = (
                "`bandwidth` of a fabric is what all NICs share: leave it out where the switch does not block"
                if what == "one pipe"
                else "state all uplinks, as `bandwidth 200 GB/s x 4`; slow on purpose: `degrade` them"
            )
            said = (help_,) if thin else ("", "note")
            parts_of[("HS255", part.server, message, *said)].append(part.name)
    yield from told(inspection, parts_of)


def linked_twice(inspection: Inspection) -> Iterator[Diagnostic]:
    """Two connections of one kind between the same two parts."""
    topology = inspection.topology
    wires: dict[tuple[int, int, str], list[Wire]] = defaultdict(list)
    for wire in topology.wires:
        if wire.bandwidth is not None:
            wires[wire.src, wire.dst, wire.kind].append(wire)
    parts_of: Findings = defaultdict(list)
    for (src, dst, kind), several in wires.items():
        if len(several) > 1 and (src < dst or (dst, src, kind) not in wires):
            a, b = topology.vertices[src], topology.vertices[dst]
            rates = " and ".join(gb((w.bandwidth or Fraction(0)) * w.lanes) for w in several[:3])
            message = f"linked with `{part_of(b.name).removeprefix(f'{b.server}.')}` {len(several)} times: {rates}"
            help_ = "remove one, or write `x 2` behind the bandwidth where two lanes are meant"
            parts_of["HS256", a.server, message, help_].append(part_of(a.name))
    yield from told(inspection, parts_of)


def swapped_rails(inspection: Inspection) -> Iterator[Diagnostic]:
    """Servers of whose NICs some are in other fabrics than those of the same name in most servers beside them."""
    topology = inspection.topology
    fabric_of: dict[str, str] = {}
    for wire in topology.wires:
        nic, fabric = topology.vertices[wire.src], topology.vertices[wire.dst]
        if nic.kind == "nic" and fabric.kind == "fabric":
            fabric_of[nic.name] = part_of(fabric.name)
    order = {part.name: i for i, part in enumerate(inspection.parts)}
    rails: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for part in inspection.parts:
        if part.name in fabric_of:
            rails[part.server].append((part.name.removeprefix(f"{part.server}."), fabric_of[part.name]))
    alike: dict[tuple[str, ...], dict[_Mapping, list[str]]] = defaultdict(lambda: defaultdict(list))
    for server, pairs in rails.items():
        if len({fabric for _, fabric in pairs}) > 1:
            alike[tuple(nic for nic, _ in pairs)][tuple(pairs)].append(server)
    parts_of: Findings = defaultdict(list)
    for mappings in alike.values():
        for mine, servers in mappings.items():
            for usual, others in mappings.items():
                if mine == usual or not _is_odd(mine, usual, len(servers), len(others), order):
                    continue
                differ = [(nic, a, b) for (nic, a), (_, b) in zip(mine, usual, strict=True) if a != b]
                shown = ", ".join(f"{nic} to `{a}`, not `{b}`" for nic, a, b in differ[:4])
                message = f"plugged in unlike {listed(others[:2])}: {shown}"
                help_ = "join NIC i of every server with the same fabric"
                for server in servers:
                    parts_of["HS257", server, message, help_].append(f"{server}.{differ[0][0]}")
                break
    yield from told(inspection, parts_of)


def _is_odd(mine: _Mapping, usual: _Mapping, few: int, many: int, order: Mapping[str, int]) -> bool:
    """Whether ``mine`` is ``usual`` with NICs in the places of others, rather than another network."""
    left, right = [fabric for _, fabric in mine], [fabric for _, fabric in usual]
    if sorted(left) != sorted(right):
        differ = sum(a != b for a, b in zip(left, right, strict=True))
        doubled = len(set(left)) < len(left) == len(set(right)) and few <= many
        return set(left) <= set(right) and 2 * differ <= len(left) and (doubled or 2 * few <= many)
    places = [order.get(fabric, 0) for fabric in left]
    return few < many or (few == many and places != sorted(places))


def one_way_between(inspection: Inspection) -> Iterator[Diagnostic]:
    """Connections in one direction of switches and fabrics, where most have both; NICs with unlike directions."""
    topology = inspection.topology
    damaged = broken(inspection)
    ends: set[tuple[str, str]] = set()
    servers: dict[str, str] = {}
    for wire in topology.wires:
        a, b = topology.vertices[wire.src], topology.vertices[wire.dst]
        kinds = {a.kind, b.kind}
        names = part_of(a.name), part_of(b.name)
        if kinds <= {"gpu", "switch", "fabric", "router"} and kinds != {"gpu"} and names[0] != names[1]:
            ends.add(names)
            servers |= {names[0]: a.server, names[1]: b.server}
    alone = [(a, b) for a, b in ends if (b, a) not in ends and not {servers[a], servers[b]} & damaged]
    parts_of: Findings = defaultdict(list)
    if 2 * len(alone) <= len(ends):
        for left, right in sorted(alone):
            far = right.removeprefix(f"{servers[right]}.")
            message = f"a link to `{far}` and none back, where the others have both"
            parts_of["HS244", servers[left], message, "write `<->`, or add the link back"].append(left)
    for part in inspection.parts:
        if part.kind == "nic" and part.bandwidth is not None and part.receive is not None and not part.disabled:
            send, receive = part.bandwidth * part.lanes, part.receive[0] * part.receive[1]
            if send != receive:
                off = max(send, receive) >= BITS * min(send, receive)
                message = f"sends {gb(send)} and receives {gb(receive)}"
                said = ("a NIC has the same both ways: bits for bytes?",) if off else ("", "note")
                parts_of[("HS244", part.server, message, *said)].append(part.name)
    yield from told(inspection, parts_of)


def without_a_nic(inspection: Inspection) -> Iterator[Diagnostic]:
    """One or two GPUs of a server with less of its NICs than the others, most of which have the same."""
    topology = inspection.topology
    damaged = broken(inspection)
    beside: dict[str, dict[int, set[int]]] = defaultdict(lambda: defaultdict(set))  # server, NIC: GPUs
    others: set[str] = set()
    for wire in topology.wires:
        a, b = topology.vertices[wire.src], topology.vertices[wire.dst]
        if b.kind == "nic" and a.kind == "gpu":
            beside[b.server][wire.dst].add(wire.src)
        elif b.kind == "nic" and a.server == b.server:
            others.add(b.server)
    parts_of: Findings = defaultdict(list)
    gpus: dict[str, list[int]] = defaultdict(list)
    for rank, server in enumerate(topology.servers):
        gpus[server].append(rank)
    for server, nics in beside.items():
        if server in damaged or server in others:
            continue
        share = {rank: Fraction(0) for rank in gpus[server]}
        for users in nics.values():
            for rank in users & share.keys():
                share[rank] += Fraction(1, len(users))
        usual, alike = Counter(share.values()).most_common(1)[0]
        lesser = [rank for rank, part in share.items() if part < usual]
        if 0 < len(lesser) <= min(2, len(share) // 4) and 2 * alike >= len(share):
            for rank in lesser:
                has = f"{share[rank]} of a NIC" if share[rank] else "no NIC"
                message = f"{has}, where {alike} others of its server have {usual}"
                help_ = "attach it to a NIC, or `disable` the NIC that is out of order"
                parts_of["HS240", server, message, help_].append(topology.vertices[rank].name)
    yield from told(inspection, parts_of)
