"""Hardware that differs from its twins, that nothing uses, or that a file contradicts itself in."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from fractions import Fraction

from hetesynth.topology.language.names import part_of
from hetesynth.topology.language.paths import unreachable_pairs
from hetesynth.topology.lint.rates import BITS
from hetesynth.topology.lint.view import Finding, View, gb, listed, rate_of

FEW = 2  # GPUs of a server that may be the odd ones; more are a shape, such as the corners of a grid
_SOCKETS = ("cpu", "numa")  # they are there, whether NVLink makes them needless or not
_POINT = 10  # times that a latency may be that of the way back: a decimal point
# what NICs carry together over what the network above them does: bits for bytes, or hardly built for GPUs
_NARROW = 8
_LONG = ("wan", "lan", "router")

_Mapping = tuple[tuple[str, str], ...]  # NIC within its server, fabric


def unlike_twins(view: View) -> Iterator[Finding]:
    """Yield one or two GPUs with less bandwidth in their server, or of its NICs, than most, which are alike."""
    vertices = view.vertices
    inside: dict[int, Fraction] = defaultdict(Fraction)  # by GPU: what it can send over wires that limit
    users: dict[int, set[int]] = defaultdict(set)  # of each NIC
    indirect: set[str] = set()  # servers whose NICs hang on something else than GPUs
    for wire in view.topology.wires:
        src, dst = vertices[wire.src], vertices[wire.dst]
        if dst.kind == "nic" and src.kind == "gpu":
            users[wire.dst].add(wire.src)
        elif dst.kind == "nic" and src.server == dst.server:
            indirect.add(dst.server)
        elif src.kind == "gpu" and dst.kind != "fabric" and src.server == dst.server:
            inside[wire.src] += rate_of(wire)
    shares: dict[int, Fraction] = defaultdict(Fraction)  # by GPU: of NICs
    for gpus in users.values():
        for gpu in gpus:
            shares[gpu] += Fraction(1, len(gpus))
    metrics = (
        (inside, set[str](), gb, "to the others", "add the missing link; slow on purpose: `degrade` it"),
        (shares, indirect, str, "NICs", "attach it to a NIC, or `disable` the NIC that is out of order"),
    )
    for figures, passed, shown, what, help_ in metrics:
        for server, gpu_ranks in view.servers.items():
            usual, twins = Counter(figures[rank] for rank in gpu_ranks).most_common(1)[0]
            lesser = [rank for rank in gpu_ranks if figures[rank] < usual]
            odd = 0 < len(lesser) <= min(FEW, len(gpu_ranks) // 4) and 2 * twins >= len(gpu_ranks)
            for rank in lesser if odd and server not in view.damaged | passed else ():
                message = f"{shown(figures[rank])} {what}, where {twins} others of its server have {shown(usual)}"
                yield Finding("HS240", vertices[rank].name, message, help_)


def one_way(view: View) -> Iterator[Finding]:
    """Yield connections one way only where most go both ways, and those far slower or longer one way."""
    kinds: dict[str, dict[tuple[str, str], Fraction]] = defaultdict(dict)  # latencies; of GPUs by server
    for wire in view.topology.wires:
        a, b = view.vertices[wire.src], view.vertices[wire.dst]
        of_gpus = a.kind == b.kind == "gpu"
        ends = part_of(a.name), part_of(b.name)
        others = not of_gpus and {a.kind, b.kind} <= {"gpu", "switch", "fabric", "router"} and ends[0] != ends[1]
        if others or (of_gpus and a.server == b.server and not {a.server, b.server} & view.damaged):
            kinds[a.server if of_gpus else ""][ends] = wire.latency
    for kind in kinds.values():
        alone = [ends for ends in kind if ends[::-1] not in kind]
        for one, other in alone if 2 * len(alone) <= len(kind) else ():
            if not {view.parts[one].server, view.parts[other].server} & view.damaged:
                message = f"a link to `{other}` and none back, where the others have both"
                yield Finding("HS244", one, message, "write `<->`, or add the link back")
        for (one, other), longer in kind.items():
            if 0 < (shorter := kind.get((other, one), longer)) * _POINT <= longer:
                there, back = (f"{float(latency * 10**6):.6g} us" for latency in (longer, shorter))
                help_ = "a link has the same latency both ways: is a decimal point in its place?"
                yield Finding("HS244", one, f"reaches `{other}` in {there}, the way back takes {back}", help_)
    for part in view.parts.values():
        if part.kind == "nic" and part.bandwidth is not None and part.receive is not None and not part.disabled:
            send, receive = part.bandwidth * part.lanes, part.receive[0] * part.receive[1]
            if max(send, receive) >= BITS * min(send, receive):
                message = f"sends {gb(send)} and receives {gb(receive)}"
                yield Finding("HS244", part.name, message, "a NIC has the same both ways: bits for bytes?")


def idle(view: View) -> Iterator[Finding]:
    """Yield hardware that no link crosses, and the first GPU that cannot reach another one."""
    topology, vertices = view.topology, view.vertices
    if view.inspection.cluster is None:
        return
    used = {topology.wires[w].src for link in topology.links for w in link.wires} | set(range(topology.ranks))
    if len(view.servers) == 1:  # it needs neither NICs nor what stands between them and the rest
        border = {i for i, vertex in enumerate(vertices) if vertex.kind == "nic"}
        while border:
            used |= border
            ends = {(wire.src, wire.dst) for wire in topology.wires}
            border = {b for pair in ends for a, b in (pair, pair[::-1]) if a in border} - used
    for number in range(topology.ranks, len(vertices)):
        vertex = vertices[number]
        is_part = vertex.name in view.parts and vertex.kind not in _SOCKETS
        if is_part and number not in used and vertex.server not in view.damaged:
            what = "join it with a fabric" if vertex.kind == "nic" else "join GPUs through it"
            yield Finding("HS245", vertex.name, "no link between GPUs uses it", f"{what}, or remove it")
    for a, b in unreachable_pairs(topology)[:1]:
        message = f"no chain of links leads to `{vertices[b].name}`"
        help_ = "write `<->` where data may flow both ways: most collectives need every pair"
        yield Finding("HS245", vertices[a].name, message, help_)


def narrow(view: View) -> Iterator[Finding]:
    """Yield fabrics that carry, themselves or on their uplinks, far less than their NICs together."""
    topology, vertices = view.topology, view.vertices
    numbers = {vertex.name: i for i, vertex in enumerate(vertices)}
    arriving: dict[int, Fraction] = defaultdict(Fraction)  # of NICs
    for wire in topology.wires:
        if vertices[wire.src].kind == "nic":
            arriving[wire.dst] += rate_of(wire)
    for part in view.parts.values():
        if part.kind != "fabric" or part.disabled or part.link_kind.lower() in _LONG or "" in view.damaged:
            continue
        carried = arriving[numbers[part.inlet]]
        ups = [wire for wire in view.leaving[numbers[part.outlet]] if vertices[wire.dst].kind != "nic"]
        far = any(wire.kind.lower() in _LONG or vertices[wire.dst].kind == "router" for wire in ups)
        pipe = (part.bandwidth or Fraction(0)) * part.lanes
        for rate, what in ((pipe, "one pipe"), (sum(map(rate_of, ups), Fraction(0)), "uplinks")):
            if 0 < rate * _NARROW <= carried and not far:
                message = f"{what} of {gb(rate)} for NICs of {gb(carried)} together"
                help_ = "`bandwidth` of a fabric is what all NICs share, without it the switch does not block; "
                help_ += "state all uplinks, as `bandwidth 200 GB/s x 4`; slow on purpose: `degrade` it"
                yield Finding("HS255", part.name, message, help_)


def linked_twice(view: View) -> Iterator[Finding]:
    """Yield parts with two connections of one kind between them."""
    wires: dict[tuple[int, int, str], list[str]] = defaultdict(list)
    for wire in view.topology.wires:
        if wire.bandwidth is not None:
            wires[wire.src, wire.dst, wire.kind].append(gb(rate_of(wire)))
    for (src, dst, kind), rates in wires.items():
        if len(rates) > 1 and (src < dst or (dst, src, kind) not in wires):
            a, b = view.vertices[src], view.vertices[dst]
            far = part_of(b.name).removeprefix(f"{b.server}.")
            message = f"linked with `{far}` {len(rates)} times: {' and '.join(rates[:3])}"
            help_ = "remove one, or write `x 2` behind the bandwidth where two lanes are meant"
            yield Finding("HS256", a.name, message, help_)


def swapped_rails(view: View) -> Iterator[Finding]:
    """Yield servers with NICs in other fabrics than the NICs of the same names in most servers like them."""
    fabric_of: dict[str, str] = {}
    for wire in view.topology.wires:
        nic, fabric = view.vertices[wire.src], view.vertices[wire.dst]
        if nic.kind == "nic" and fabric.kind == "fabric":
            fabric_of[nic.name] = part_of(fabric.name)
    rails: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for part in view.parts.values():
        if part.name in fabric_of:
            rails[part.server].append((part.name.removeprefix(f"{part.server}."), fabric_of[part.name]))
    alike: dict[tuple[str, ...], dict[_Mapping, list[str]]] = defaultdict(lambda: defaultdict(list))
    for server, pairs in rails.items():
        if len({fabric for _, fabric in pairs}) > 1:
            alike[tuple(nic for nic, _ in pairs)][tuple(pairs)].append(server)
    order = {name: i for i, name in enumerate(view.parts)}
    for mappings in alike.values():
        for mine, servers in mappings.items():
            odd = (usual for usual in mappings if usual != mine and _is_odd(mine, usual, mappings, order))
            if usual := next(odd, None):
                differ = [(nic, a, b) for (nic, a), (_, b) in zip(mine, usual, strict=True) if a != b]
                shown = ", ".join(f"{nic} to `{a}`, not `{b}`" for nic, a, b in differ[:4])
                message = f"plugged in unlike {listed(mappings[usual][:2])}: {shown}"
                for server in servers:
                    help_ = "join NIC i of every server with the same fabric"
                    yield Finding("HS257", f"{server}.{differ[0][0]}", message, help_)


def _is_odd(mine: _Mapping, usual: _Mapping, servers: dict[_Mapping, list[str]], order: dict[str, int]) -> bool:
    """Return True if ``mine`` is ``usual`` with NICs in each other's places, and not another network."""
    few, many = len(servers[mine]), len(servers[usual])
    left, right = [fabric for _, fabric in mine], [fabric for _, fabric in usual]
    if sorted(left) != sorted(right):
        differ = sum(a != b for a, b in zip(left, right, strict=True))
        doubled = len(set(left)) < len(left) == len(set(right)) and few <= many
        return set(left) <= set(right) and 2 * differ <= len(left) and (doubled or 2 * few <= many)
    places = [order.get(fabric, 0) for fabric in left]
    return few < many or (few == many and places != sorted(places))
