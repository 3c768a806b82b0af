"""Machines and the rule for the network between them -> readable text of the topology language."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import combinations, groupby

from hetesynth.errors import HetesynthError
from hetesynth.topology.importers.machine import (
    UNSTATED,
    GpuLink,
    Machine,
    Place,
    Remark,
    Tree,
    gpus_of_nics,
    over_cpus,
    slot,
    with_nic_slots,
)
from hetesynth.topology.importers.network import Fabric, Network, Trunk, file_of, nic_rates
from hetesynth.topology.importers.wording import (
    bandwidth,
    comment,
    identifier,
    listed,
    network_rate,
    parts,
    some,
    time,
)
from hetesynth.topology.language.library import declared_types

LATENCY = Fraction("1.3") / 10**6  # NIC to NIC through one switch; examples/ and the node library agree
TIER = Fraction("0.65") / 10**6  # of a leaf and of a spine, so that two leaves and a spine take 1.95 us
NVLINK_LATENCY = Fraction("0.7") / 10**6  # TE-CCL; the node library has the same
CROSSING = Fraction("0.3") / 10**6  # of a PCIe switch, a CPU or a CPU link: 1.5 us for the five of the longest way
_PLAIN = str.maketrans({"[": "", "]": "", ",": "_", "-": "_"})
INDENT = "  "


@dataclass(frozen=True, slots=True)
class Server:
    """A machine with the name of its instance and of its node type."""

    name: str
    machine: Machine
    node_type: str


def _network_statements(servers: Sequence[Server], fabric: Fabric) -> list[str]:
    """Return the statements that join the servers. Raise HS733 if these would be apart, HS731 for uneven rails."""
    domains: dict[str, list[tuple[str, Fraction, int]]] = defaultdict(list)  # a switch of NVLinks over all servers
    for server in servers:
        if server.machine.domain:
            ports = _ported(server.machine).items()
            domains[server.machine.domain] += [
                (f"{server.name}.{parts('gpu', gpus)}", rate, 1) for rate, gpus in ports
            ]
    lines = [line for i, rated in enumerate(domains.values()) for line in _switch(f"nvlink{i}", rated, "nvlink")]
    if fabric.network is not None:
        return lines + _network(servers, fabric.network)
    rates = {s.name: nic_rates(s.machine) for s in servers if s.machine.node_type or gpus_of_nics(s.machine)}
    apart = "" in {s.machine.domain for s in servers} or len(domains) > 1
    if len(servers) == 1 or (not apart and len(rates) < 2):
        return lines
    if fabric.kind == "none" or (len(rates) < len(servers) and apart):
        what = f"{len(servers)} servers and no network between them, or one has no NIC that it could join"
        help_ = "state it with --net switch, --net rails or --net leafspine:4:2; take dumps that list NICs"
        raise HetesynthError(what, code="HS733", help=help_)
    if fabric.kind == "switch":
        return [*lines, f"fabric net {{ join *.nic*; latency {time(LATENCY)} }}"]
    if fabric.kind == "rails":
        if len({len(own) for own in rates.values()}) > 1:
            told = some([f"{name} {len(own)}" for name, own in rates.items()])
            what = f"no rails: the servers have different numbers of NICs: {told}"
            raise HetesynthError(what, code="HS731", help="take --net switch, or import servers of one kind")
        rails = range(min(len(own) for own in rates.values()))
        return lines + [f"fabric rail{i} {{ join *.nic{i}; latency {time(LATENCY)} }}" for i in rails]
    uplinks = []  # a fabric for every so many servers, and a spine above them
    for i, first in enumerate(range(0, len(rates), fabric.servers)):
        members = [*rates][first : first + fabric.servers]
        joined_nics = ", ".join(f"{member}.nic*" for member in members)
        lines.append(f"fabric leaf{i} {{ join {joined_nics}; latency {time(TIER)} }}")
        carried = sum((rate for member in members for rate in rates[member]), Fraction(0))
        uplinks.append((f"leaf{i}", carried / fabric.oversubscription, 1))
    return lines + (_switch("spine", uplinks, "uplink", uplinks[0][1:]) if len(uplinks) > 1 else [])


def _ported(machine: Machine) -> dict[Fraction, list[int]]:
    """Return the GPUs with ports into a switch, by the B/s of all ports of a GPU."""
    by_rate: dict[Fraction, list[int]] = defaultdict(list)
    for port in machine.ports:
        by_rate[port.rate * port.lanes].append(port.gpu)
    return by_rate


def _network(servers: Sequence[Server], network: Network) -> list[str]:
    """Return the statements of a network that a file describes, without hosts that are none of ``servers``."""
    by_host = {server.machine.host: server for server in servers} | {server.name: server for server in servers}
    joins: dict[str, list[str]] = defaultdict(list)
    carried: dict[str, Fraction] = defaultdict(Fraction)  # what goes up from each switch
    usual = network.usual_nics()  # of a whole host
    for host, attachments in network.by_host().items():
        server = by_host.get(host)
        if server is None:
            continue
        rates = nic_rates(server.machine)
        if attachments[0].nic == "":
            joins[attachments[0].switch].append(f"{server.name}.nic*")
            carried[attachments[0].switch] += sum(rates, Fraction(0))
            continue
        by_name = {one.nic: one for one in attachments}
        ordered = [by_name.get(server.machine.nics[n].name) for n in gpus_of_nics(server.machine)]
        if not any(ordered):  # the file about the network names NICs otherwise
            ordered = [*map(by_name.get, usual)] if by_name.keys() <= set(usual) else [*attachments]
        numbers: dict[str, list[int]] = defaultdict(list)
        for number, one in enumerate(ordered):
            if one is not None and number < len(rates):
                numbers[one.switch].append(number)
                carried[one.switch] += rates[number]
        for switch, group in numbers.items():
            joins[switch].append(f"{server.name}.{parts('nic', group)}")
    trunks, before = list(network.trunks), -1  # those on ways between leaves in use: ends that lead nowhere go
    while len(trunks) != before:
        before = len(trunks)
        degrees = Counter(end for pair in {frozenset((t.a, t.b)) for t in trunks} for end in pair)
        trunks = [t for t in trunks if all(end in joins or degrees[end] > 1 for end in (t.a, t.b))]
    names: dict[str, str] = {}
    for switch in dict.fromkeys([*joins, *(end for trunk in trunks for end in (trunk.a, trunk.b))]):
        names[switch] = _free(identifier(switch, "leaf"), {*names.values(), *(server.name for server in servers)})
    latency = time(TIER if trunks else LATENCY)
    lines = [f"fabric {names[s]} {{ join {', '.join(join)}; latency {latency} }}" for s, join in joins.items()]
    return lines + _above(network, trunks, carried, names)


def _above(
    network: Network, trunks: Iterable[Trunk], carried: dict[str, Fraction], names: dict[str, str]
) -> list[str]:
    """Return statements of the switches above the leaves, lower tiers first, and of trunks within a tier."""
    tiers = network.tiers()
    ups: dict[str, list[Trunk]] = defaultdict(list)
    level = []
    for trunk in trunks:
        lower, upper = sorted((trunk.a, trunk.b), key=lambda end: tiers[end])
        if tiers[lower] == tiers[upper]:
            level.append(trunk)
        else:
            ups[upper].append(Trunk(lower, upper, trunk.lanes, trunk.rate))
    parents = Counter(trunk.a for below in ups.values() for trunk in below)

    def rate_of(trunk: Trunk, parents: int) -> Fraction:
        """Return the rate as read, as stated, or as all below it spread over the switches above; HS733 if none."""
        rate = trunk.rate or network.uplink or carried[trunk.a] / network.oversubscription / parents
        if not rate:
            what = f"the rate of the uplinks of {trunk.a} is not known"
            raise HetesynthError(what, code="HS733", help="state it with --uplink, for example --uplink 1600Gbps")
        return rate

    lines: list[str] = []
    for upper in sorted(ups, key=lambda switch: tiers[switch]):
        rated = [(names[t.a], rate_of(t, parents[t.a]), t.lanes) for t in ups[upper]]
        carried[upper] += sum((rate * lanes for _, rate, lanes in rated), Fraction(0))
        lines += _switch(names[upper], rated, "uplink")
    for end in dict.fromkeys(end for trunk in level for end in (trunk.a, trunk.b) if end not in carried):
        lines.append(f"switch {names[end]} {{ }}")
    for trunk in level:
        rate = bandwidth(rate_of(trunk, 1), trunk.lanes)
        lines.append(f"link {names[trunk.a]} <-> {names[trunk.b]} {{ bandwidth {rate}; kind uplink }}")
    return lines


def _switch(
    name: str, rated: Sequence[tuple[str, Fraction, int]], kind: str, main: tuple[Fraction, int] | None = None
) -> list[str]:
    """Return a ``switch`` with ports of rate and lanes ``main``, else of most, and a ``link`` for each other."""
    counts = Counter((rate, lanes) for _, rate, lanes in rated)
    most = main or max(counts, key=lambda one: (counts[one], one))
    same = ", ".join(dict.fromkeys(below for below, rate, lanes in rated if (rate, lanes) == most))
    latency = time(TIER if kind == "uplink" else NVLINK_LATENCY)
    return [f"switch {name} {{ ports {same}; bandwidth {bandwidth(*most)}; latency {latency}; kind {kind} }}"] + [
        f"link {below} <-> {name} {{ bandwidth {bandwidth(rate, lanes)}; kind {kind} }}"
        for below, rate, lanes in rated
        if (rate, lanes) != most
    ]


def cluster_text(
    machines: Sequence[Machine], fabric: Fabric, remarks: Sequence[Remark], name: str, title: str, *measured: str
) -> str:
    """Return the text; the rates of the kinds ``measured`` are stated as what transfers get."""
    servers = _named(machines)
    libraries = {file_of(m.node_type.partition("(")[0]) for m in machines if m.node_type}
    lines = comment(title)
    lines += _remark_lines([*remarks, *(remark for m in machines if m.node_type for remark in m.remarks)])
    lines += [f"import {library}" for library in sorted(libraries)]
    for node_type in dict.fromkeys(server.node_type for server in servers if not server.machine.node_type):
        lines += ["", *_node_lines([server for server in servers if server.node_type == node_type])]
    lines += ["", f"cluster {identifier(name, 'c')} {{"]
    # neighbours of one type without hosts are one statement
    for _, run in groupby(servers, lambda server: (server.node_type, server.machine.host and server.name)):
        same = list(run)
        host = f' {{ host "{same[0].machine.host}" }}' if same[0].machine.host else ""
        lines.append(f"{INDENT}instance {listed([server.name for server in same])} = {same[0].node_type}{host}")
    lines += [INDENT + line for line in _network_statements(servers, fabric)]
    lines += [f"{INDENT}measured {', '.join(measured)}"] if measured else []
    return "\n".join([*lines, "}"]).lstrip("\n") + "\n"


def _named(machines: Sequence[Machine]) -> list[Server]:
    """Return every machine with a name and a type that no other has, nor the library that the text may import."""
    library = declared_types("node") if any(machine.node_type for machine in machines) else {}
    counted = Counter(machine.host for machine in machines)
    types: dict[tuple[str, ...], str] = {}
    names: set[str] = set()
    servers = []
    for i, machine in enumerate(machines):
        if machine.node_type:
            node_type = machine.node_type
            types["", node_type] = node_type
        else:
            body = tuple(node_statements(machine))
            if body not in types:
                model = next((gpu.model or gpu.arch for gpu in machine.gpus if gpu.model or gpu.arch), "server")
                wished = f"{identifier(model.lower(), 'gpu')}x{len(machine.gpus)}"
                types[body] = _free(wished, {*types.values(), *library})
            node_type = types[body]
        host = machine.host if counted[machine.host] == 1 else ""
        name = _free(identifier(host) if host else f"n{i}", names)
        names.add(name)
        servers.append(Server(name, machine, node_type))
    return servers


def _free(wished: str, used: set[str]) -> str:
    """Return ``wished``, or ``wished`` with a letter or number behind that makes it new."""
    letters = (f"{wished}_{chr(97 + i)}" if i < 26 else f"{wished}_{i}" for i in range(1, len(used) + 2))
    return next(name for name in (wished, *letters) if name not in used)


def _remark_lines(remarks: Sequence[Remark]) -> list[str]:
    """Return every remark once as comment lines, the suspicious ones first."""
    order = {"suspicious": 0, "found": 1, "assumed": 2}
    ordered = sorted(dict.fromkeys(remarks), key=lambda r: order[r.kind])
    return [line for remark in ordered for line in comment(f"{remark.kind}: {remark.text}")]


def assumed_figures(machines: Sequence[Machine]) -> list[Remark]:
    """Return the latencies, and the speeds of slots, that the text states and no file told."""
    texts = []
    if any(m.links or m.ports for m in machines):
        texts.append(f"a way over NVLink or xGMI takes {time(NVLINK_LATENCY)}")
    trees = [m for m in machines if not m.node_type and not m.is_joined]
    if trees:
        crossing = time(CROSSING)
        texts.append(f"each PCIe switch, CPU and link between CPUs on a way takes {crossing}")
    crossed = [m for m in machines if len(m.cpus) > 1 and not m.node_type and (not m.is_joined or over_cpus(m))]
    if between := sorted({m.between for m in crossed}):
        rates = " or ".join(bandwidth(rate) for rate in between)
        texts.append(f"{rates} between CPUs, what NCCL counts: the tools tell no such rate")
    if any(gpu.place.rate is None for m in trees for gpu in m.gpus):
        texts.append(f"slots of GPUs whose speed is not told carry {bandwidth(UNSTATED)}, 16 lanes of PCIe 3")
    if any(bridge.place.rate is None for m in trees for bridge in m.bridges):
        texts.append("bridges whose speed is not told are as fast as the fastest device below them")
    mixed = {models for m in machines if len(models := _models(m)) > 1}
    doubts = (f"GPUs of {', '.join(m)} in one server: `model` of all of them is {m[0]}" for m in sorted(mixed))
    return [*(Remark("assumed", text) for text in texts), *(Remark("suspicious", d) for d in doubts)]


def _node_lines(same: Sequence[Server]) -> list[str]:
    """``node NAME { ... }`` of servers that are alike, with remarks, and comments on which device is which."""
    server, machine = same[0], same[0].machine
    used = gpus_of_nics(machine)
    links = Counter(machine.links_of(i) for i in range(len(machine.gpus)))
    counts = ", ".join(f"{n} on {gpus}" if len(links) > 1 else f"{n}" for n, gpus in sorted(links.items()))
    models = ", ".join(sorted({gpu.model or gpu.arch for gpu in machine.gpus if gpu.model or gpu.arch}))
    summary = f"{len(machine.gpus)} GPUs{f' ({models})' if models else ''}, links per GPU: {counts}"
    summary += f"; {len(used)} NIC{'' if len(used) == 1 else 's'}"
    of = "" if len(same) == 1 else f" (as {len(same)} servers)"
    lines = comment(f"{server.node_type}{of}: {summary}")
    lines += _remark_lines([remark for other in same for remark in other.machine.remarks])
    lines.append(f"node {server.node_type} {{")
    buses = [gpu.place.bus for gpu in machine.gpus]
    if all(buses):
        lines += comment(f"{parts('gpu', range(len(buses)))}: {', '.join(buses)}", INDENT)
    if used:
        names = ", ".join(machine.nics[n].name for n in used)
        lines += comment(f"{parts('nic', range(len(used)))}: {names}", INDENT)
    if unused := [nic.name for n, nic in enumerate(machine.nics) if n not in used]:
        text = f"left out, as other NICs are nearer or faster, or as virtual: {', '.join(unused)}"
        lines += comment(text, INDENT)
    return [*lines, *(INDENT + line for line in node_statements(machine)), "}"]


def demand_rates(
    machines: Sequence[Machine], of_ports: Mapping[str, Fraction], nic_rate: Fraction | None
) -> list[Machine]:
    """Return the machines, every NIC with a rate and a slot; HS733 where there is no rate."""
    lacking = [
        nic.name for m in machines for nic in m.nics if not (nic.rate or of_ports.get(nic.name) or nic_rate)
    ]
    if lacking:
        what = f"the rate of {len(lacking)} NICs is not told: {', '.join(lacking[:4])}"
        raise HetesynthError(what, code="HS733", help="state it with --nic-rate, for example --nic-rate 400Gbps")
    rated = (tuple(replace(n, rate=n.rate or of_ports.get(n.name) or nic_rate) for n in m.nics) for m in machines)
    return [with_nic_slots(replace(m, nics=nics)) for m, nics in zip(machines, rated, strict=True)]


def node_statements(machine: Machine) -> list[str]:
    """Return the lines between the braces of ``node NAME { ... }``, without comments and indentation.

    Where NVLink or xGMI leaves pairs apart, GPUs meet over the PCIe tree. Otherwise they are attached to the NICs
    nearest to them, over a bus where they share a slot or an uplink that is narrower than their NICs.
    """
    lines = [f"gpus {len(machine.gpus)}"]
    if named := _models(machine):
        lines.insert(0, f'model "{named[0]}"')
    # direct links: a mesh where every pair has the same, else the links by what they carry
    kinds: dict[tuple[str, Fraction, int], list[GpuLink]] = defaultdict(list)
    for link in sorted(machine.links, key=lambda k: (min(k.a, k.b), max(k.a, k.b))):
        kinds[link.kind, link.rate, link.count].append(link)
    gpus = range(len(machine.gpus))
    for (kind, rate, count), links in kinds.items():
        rest = f"{{ bandwidth {bandwidth(rate, count)}; latency {time(NVLINK_LATENCY)}; kind {kind} }}"
        if len(links) == len(gpus) * (len(gpus) - 1) // 2:
            lines.append(f"mesh {parts('gpu', gpus)} {rest}")
            continue
        partners: dict[int, list[int]] = defaultdict(list)
        for link in links:
            partners[min(link.a, link.b)].append(max(link.a, link.b))
        lines += [f"link gpu{a} <-> {parts('gpu', sorted(b))} {rest}" for a, b in partners.items()]
    used = gpus_of_nics(machine)
    runs: list[tuple[str, list[int]]] = []  # NICs in order, those alike in one statement
    for i, n in enumerate(used):
        nic = machine.nics[n]
        if nic.rate is None:
            raise ValueError(f"{nic.name}: the rate of a NIC has to be known before it is written")
        body = f"bandwidth {network_rate(nic.rate)}" + (f"; latency {time(nic.latency)}" if nic.latency else "")
        if not runs or runs[-1][0] != body:
            runs.append((body, []))
        runs[-1][1].append(i)
    lines += [f"nic {parts('nic', indices)} {{ {body} }}" for body, indices in runs]
    number = {nic: i for i, nic in enumerate(used)}
    if not machine.is_joined:
        return lines + _pcie_tree(machine, number)
    return lines + _ports(machine) + _attached(machine, used, number)


def _models(machine: Machine) -> tuple[str, ...]:
    """Return the models of its GPUs; the first is what the text says of all of them."""
    return tuple(sorted({gpu.model for gpu in machine.gpus} - {""}))


def _ports(machine: Machine) -> list[str]:
    """The NVSwitch, unless it reaches beyond the server, and a way for the GPUs that have no port."""
    if not machine.ports:
        return []
    lines = []
    if not machine.domain:
        kinds = _ported(machine)
        main = max(kinds, key=lambda rate: (len(kinds[rate]), rate))
        rated = [(parts("gpu", gpus), rate, 1) for rate, gpus in kinds.items()]
        lines += _switch("nvswitch", rated, "nvlink", (main, 1))
    ported = {port.gpu for port in machine.ports}
    others = list(range(len(machine.gpus)))
    for gpu in others.copy():
        if gpu not in ported and len(others) > 1:
            others.remove(gpu)
            rest = f"bandwidth {bandwidth(machine.gpus[gpu].place.rate or UNSTATED)}; kind pcie }}"
            lines.append(f"bus pcie_gpu{gpu} {{ members gpu{gpu} <-> {parts('gpu', others)}; {rest}")
    return lines


def _attached(machine: Machine, used: dict[int, tuple[int, ...]], number: dict[int, int]) -> list[str]:
    """GPUs to NICs: plainly, at the rate of a narrow slot, or over a bus that several share."""
    lines: list[str] = []
    tree = Tree(machine)
    attached: list[str] = []  # of several GPUs to a NIC
    single: dict[str, list[tuple[int, int]]] = defaultdict(list)  # GPUs with a NIC each, by the rate of the slot
    # NICs by their slot; those of one GPU together where the slot of the GPU carries less than they
    cards: dict[str, list[int]] = defaultdict(list)
    for n in used:
        cards[slot(n, machine.nics[n])].append(n)
    of_gpus: dict[tuple[int, ...], list[list[int]]] = defaultdict(list)
    for nics in cards.values():
        of_gpus[tuple(sorted({gpu for n in nics for gpu in used[n]}))].append(nics)
    groups: list[list[int]] = []
    for users, alike in of_gpus.items():
        carried = Fraction(0)  # by the NICs of each slot, the slot of the GPU left aside
        for nics in alike:
            together = sum((machine.nics[n].rate or Fraction(0) for n in nics), Fraction(0))
            way = tree.way(users[0], nics[0])
            carried += min([together, *(rate for name, rate in way if not name.startswith("gpu"))])
        limit = machine.gpus[users[0]].place.rate
        narrow = len(users) == 1 and limit is not None and limit < carried
        groups += [[n for nics in alike for n in nics]] if narrow else alike
    for nics in sorted(groups):
        gpus = sorted({gpu for n in nics for gpu in used[n]})
        ways = [tree.way(g, n) for n in nics for g in used[n]]
        shared = [rate for name, rate in ways[0] if all((name, rate) in way for way in ways)]
        carried = sum((machine.nics[n].rate or Fraction(0) for n in nics), Fraction(0))
        if len(ways) > 1 and shared and min(shared) < carried:
            own = parts("nic", [number[n] for n in nics])
            rest = f"bandwidth {bandwidth(min(shared))}; kind pcie }}"
            lines.append(f"bus pcie_{own.translate(_PLAIN)} {{ members {parts('gpu', gpus)} <-> {own}; {rest}")
            continue
        for n in nics:
            rates = [rate for g in used[n] for _, rate in tree.way(g, n)]
            rest = ""
            if rates and min(rates) < (machine.nics[n].rate or 0):
                rest = f" {{ bandwidth {bandwidth(min(rates))}; kind pcie }}"
            if len(used[n]) == 1:
                single[rest].append((used[n][0], number[n]))
            else:
                attached.append(f"attach {parts('gpu', used[n])} -> nic{number[n]}{rest}")
    for rest, pairs in single.items():
        own_gpus, own_nics = zip(*pairs, strict=True)
        if len(set(own_gpus)) == len(own_gpus):
            attached.append(f"attach {parts('gpu', own_gpus)} -> {parts('nic', own_nics)}{rest}")
        else:
            attached += [f"attach gpu{gpu} -> nic{nic}{rest}" for gpu, nic in pairs]
    return lines + attached


def _pcie_tree(machine: Machine, number: dict[int, int]) -> list[str]:
    """The PCIe tree, in which NIC n is ``nic{number[n]}``; what joins fewer than two things is left out."""
    below: dict[str, list[tuple[str, Fraction]]] = defaultdict(list)

    def hang(place: Place, name: str) -> None:
        below[place.parent].append((name, place.rate or UNSTATED))

    for i, gpu in enumerate(machine.gpus):
        hang(gpu.place, f"gpu{i}")
    cards: dict[str, list[int]] = defaultdict(list)
    for n in number:
        cards[slot(n, machine.nics[n])].append(n)
    for card, nics in cards.items():
        place = machine.nics[nics[0]].place
        if len(nics) == 1:
            hang(place, f"nic{number[nics[0]]}")
            continue
        hang(place, card)
        below[card] = [(f"nic{number[n]}", place.rate or UNSTATED) for n in nics]
    for bridge in reversed(machine.bridges):  # children stand behind their parents
        under = below.get(bridge.name, [])
        rate = bridge.place.rate or max((rate for _, rate in under), default=UNSTATED)
        if len(under) == 1:  # no more than a longer wire
            child, own = under.pop()
            below[bridge.place.parent].append((child, min(own, rate)))
        elif under:
            below[bridge.place.parent].append((bridge.name, rate))
    kinds = {"gpu": 0, "nic": 2}  # GPUs first and NICs last, both by number; the others by name
    for under in below.values():
        under.sort(key=lambda c: (kinds.get(c[0][:3], 1), len(c[0]) if c[0][:3] in kinds else 0, c[0]))
    cpus = [cpu for cpu in machine.cpus if below.get(cpu)]
    joined = list(combinations(cpus, 2))
    switches = [b.name for b in machine.bridges if len(below.get(b.name, ())) > 1]
    switches += [name for name in below if name.startswith("slot ")]
    names = {name: f"cpu{i}" for i, name in enumerate(cpus)}
    names |= {name: f"pcie{i}" for i, name in enumerate(switches)}
    lines: list[str] = []
    for name in (*switches, *cpus):
        if name not in cpus or joined or len(below[name]) > 1:
            children = [(names.get(child, child), rate) for child, rate in below[name]]
            lines.append(_pcie_switch("cpu" if name in cpus else "pcie", names[name], children))
    for a, b in joined:
        rest = f"{{ bandwidth {bandwidth(machine.between)}; latency {time(CROSSING)} }}"
        lines.append(f"upi {names[a]} <-> {names[b]} {rest}")
    if loose := below.get(""):
        lines.append(_pcie_switch("pcie", "pcie_unknown", loose))
    return lines


def _pcie_switch(word: str, name: str, children: Sequence[tuple[str, Fraction]]) -> str:
    """A switch with ports at the commonest rate, and those at another stated one by one."""
    ports: dict[Fraction, list[str]] = defaultdict(list)
    for child, rate in children:
        ports[rate].append(child)
    main = max(ports, key=lambda rate: (len(ports[rate]), rate))
    body = [f"ports {listed(ports.pop(main))}", f"bandwidth {bandwidth(main)}"]
    body += [f"port {listed(others)} {bandwidth(rate)}" for rate, others in ports.items()]
    return f"{word} {name} {{ {'; '.join(body)}; latency {time(CROSSING)} }}"
