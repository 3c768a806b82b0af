"""A machine as the statements of a node type.

GPUs meet over NVLink or xGMI; where that leaves pairs apart, over the PCIe tree as `pcie` and `cpu` statements.
With an NVSwitch a GPU without NVLink reaches the others through its PCIe slot. Otherwise GPUs are attached to the
NICs nearest to them, and where they share a slot or an uplink that is narrower than their NICs, over a bus of that
bandwidth.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction

from hetesynth.topology.importers.machine import GpuLink, Machine, Place
from hetesynth.topology.importers.pcie import UNSTATED, Tree, gpus_of_nics, slot
from hetesynth.topology.importers.wording import bandwidth, listed, network_rate, parts, time

NVLINK_LATENCY = Fraction("0.7") / 10**6  # TE-CCL; the node library has the same
CROSSING = (
    Fraction("0.3") / 10**6
)  # of a PCIe switch, a CPU and a CPU link: 1.5 us for the five of the longest way
_PLAIN = str.maketrans({"[": "", "]": "", ",": "_", "-": "_"})


def statements(machine: Machine) -> list[str]:
    """Return the lines between the braces of ``node NAME { ... }``, without comments and indentation."""
    lines = [f"gpus {len(machine.gpus)}"]
    if named := models(machine):
        lines.insert(0, f'model "{named[0]}"')
    lines += _links(machine)
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
    if needs_tree(machine):
        return lines + _pcie_tree(machine, number)
    return lines + _ports(machine) + _attached(machine, used, number)


def models(machine: Machine) -> tuple[str, ...]:
    """Return the models of its GPUs; the first is what the text says of all of them."""
    return tuple(sorted({gpu.model for gpu in machine.gpus} - {""}))


def needs_tree(machine: Machine) -> bool:
    """Return True where pairs of GPUs meet over PCIe alone, and no switch of NVLinks joins the rest."""
    pairs = len(machine.gpus) * (len(machine.gpus) - 1) // 2
    return not machine.ports and len(machine.links) < pairs and not machine.domain


def _links(machine: Machine) -> list[str]:
    """Direct links: a mesh where every pair has the same, else the links by what they carry."""
    kinds: dict[tuple[str, Fraction, int], list[GpuLink]] = defaultdict(list)
    for link in sorted(machine.links, key=lambda k: (min(k.a, k.b), max(k.a, k.b))):
        kinds[link.kind, link.rate, link.count].append(link)
    gpus = range(len(machine.gpus))
    lines = []
    for (kind, rate, count), links in kinds.items():
        rest = f"{{ bandwidth {bandwidth(rate, count)}; latency {time(NVLINK_LATENCY)}; kind {kind} }}"
        if len(links) == len(gpus) * (len(gpus) - 1) // 2:
            lines.append(f"mesh {parts('gpu', gpus)} {rest}")
            continue
        partners: dict[int, list[int]] = defaultdict(list)
        for link in links:
            partners[min(link.a, link.b)].append(max(link.a, link.b))
        lines += [f"link gpu{a} <-> {parts('gpu', sorted(b))} {rest}" for a, b in partners.items()]
    return lines


def _ports(machine: Machine) -> list[str]:
    """The NVSwitch, unless it reaches beyond the server, and a way for the GPUs that have no port."""
    if not machine.ports:
        return []
    lines = []
    if not machine.domain:
        kinds: dict[Fraction, list[int]] = defaultdict(list)
        for port in machine.ports:
            kinds[port.rate * port.lanes].append(port.gpu)
        main = max(kinds, key=lambda rate: (len(kinds[rate]), rate))
        rest = f"bandwidth {bandwidth(main)}; latency {time(NVLINK_LATENCY)}; kind nvlink }}"
        lines.append(f"switch nvswitch {{ ports {parts('gpu', kinds.pop(main))}; {rest}")
        for rate, gpus in kinds.items():
            rest = f"{{ bandwidth {bandwidth(rate)}; kind nvlink }}"
            lines.append(f"link {parts('gpu', gpus)} <-> nvswitch {rest}")
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
    tree = Tree.of(machine)
    attached: list[str] = []  # of several GPUs to a NIC
    single: dict[str, list[tuple[int, int]]] = defaultdict(list)  # GPUs with a NIC each, by the rate of the slot
    for nics in _groups(machine, used, tree):
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


def _groups(machine: Machine, used: dict[int, tuple[int, ...]], tree: Tree) -> list[list[int]]:
    """NICs by the slot they are in; those of one GPU together where the slot of the GPU carries less than they."""
    cards: dict[str, list[int]] = defaultdict(list)
    for n in used:
        cards[slot(n, machine.nics[n])].append(n)
    of_gpus: dict[tuple[int, ...], list[list[int]]] = defaultdict(list)
    for nics in cards.values():
        of_gpus[tuple(sorted({gpu for n in nics for gpu in used[n]}))].append(nics)
    groups: list[list[int]] = []
    for gpus, alike in of_gpus.items():
        carried = Fraction(0)  # by the NICs of each slot, the slot of the GPU left aside
        for nics in alike:
            rates = sum((machine.nics[n].rate or Fraction(0) for n in nics), Fraction(0))
            way = tree.way(gpus[0], nics[0])
            carried += min([rates, *(rate for name, rate in way if not name.startswith("gpu"))])
        limit = machine.gpus[gpus[0]].place.rate
        narrow = len(gpus) == 1 and limit is not None and limit < carried
        groups += [[n for nics in alike for n in nics]] if narrow else alike
    return sorted(groups)


def _pcie_tree(machine: Machine, number: dict[int, int]) -> list[str]:
    """The PCIe tree, in which NIC n is ``nic{number[n]}``; what joins fewer than two things is left out."""
    below = _hanging(machine, number)
    cpus = [cpu.name for cpu in machine.cpus if below.get(cpu.name)]
    joined = [link for link in machine.cpu_links if link.a in cpus and link.b in cpus]
    switches = [b.name for b in machine.bridges if len(below.get(b.name, ())) > 1]
    switches += [name for name in below if name.startswith("slot ")]
    names = {name: f"cpu{i}" for i, name in enumerate(cpus)}
    names |= {name: f"pcie{i}" for i, name in enumerate(switches)}
    lines: list[str] = []
    for name in (*switches, *cpus):
        if name not in cpus or joined or len(below[name]) > 1:
            children = [(names.get(child, child), rate) for child, rate in below[name]]
            lines.append(_pcie_switch("cpu" if name in cpus else "pcie", names[name], children))
    for k in joined:
        rest = f"{{ bandwidth {bandwidth(k.rate)}; latency {time(CROSSING)} }}"
        lines.append(f"upi {names[k.a]} <-> {names[k.b]} {rest}")
    if loose := below.get(""):
        lines.append(_pcie_switch("pcie", "pcie_unknown", loose))
    return lines


def _hanging(machine: Machine, number: dict[int, int]) -> dict[str, list[tuple[str, Fraction]]]:
    """What hangs below each bridge and CPU at which rate, bridges of one thing taken out.

    A bridge with one thing below it is no more than a longer wire: the wire gets the rate of the narrower.
    """
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
        if len(under) == 1:
            child, own = under.pop()
            below[bridge.place.parent].append((child, min(own, rate)))
        elif under:
            below[bridge.place.parent].append((bridge.name, rate))
    for under in below.values():
        under.sort(key=_order)
    return below


def _order(child: tuple[str, Fraction]) -> tuple[int, int, str]:
    """GPUs first and NICs last, both by number."""
    name = child[0]
    sort = {"gpu": 0, "nic": 2}.get(name[:3], 1)
    return (sort, int(name[3:]), "") if sort != 1 and name[3:].isdigit() else (sort, 0, name)


def _pcie_switch(word: str, name: str, children: Sequence[tuple[str, Fraction]]) -> str:
    """A switch with ports at the commonest rate, and those at another stated one by one."""
    ports: dict[Fraction, list[str]] = defaultdict(list)
    for child, rate in children:
        ports[rate].append(child)
    main = max(ports, key=lambda rate: (len(ports[rate]), rate))
    body = [f"ports {listed(ports.pop(main))}", f"bandwidth {bandwidth(main)}"]
    body += [f"port {listed(others)} {bandwidth(rate)}" for rate, others in ports.items()]
    return f"{word} {name} {{ {'; '.join(body)}; latency {time(CROSSING)} }}"
