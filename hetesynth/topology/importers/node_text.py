"""A machine as the statements of a node type.

GPUs meet over NVLink or xGMI; where that leaves pairs apart, over the PCIe tree. With an NVSwitch a GPU without
NVLink reaches the others through its PCIe slot. Otherwise GPUs are attached to the NICs nearest to them, and where
they share a slot or an uplink that is narrower than their NICs, over a bus of that bandwidth.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from fractions import Fraction

from hetesynth.topology.importers import pcie_text
from hetesynth.topology.importers.machine import GpuLink, Machine
from hetesynth.topology.importers.pcie import UNSTATED, Edge, Tree, gpus_of_nics, narrowest, slot
from hetesynth.topology.importers.wording import bandwidth, network_rate, parts, time

NVLINK_LATENCY = Fraction("0.7") / 10**6  # TE-CCL; the node library has the same
LATENCIES = f"a way over NVLink or xGMI takes {time(NVLINK_LATENCY)}"


def statements(machine: Machine) -> list[str]:
    """The lines between the braces of ``node NAME { ... }``, without comments and indentation."""
    lines = [f"gpus {len(machine.gpus)}"]
    if named := models(machine):
        lines.insert(0, f'model "{named[0]}"')
    lines += _links(machine)
    used = gpus_of_nics(machine)
    lines += _nics(machine, tuple(used))
    number = {nic: i for i, nic in enumerate(used)}
    if needs_tree(machine):
        return lines + pcie_text.tree(machine, number)
    return lines + _ports(machine) + _attached(machine, used, number)


def models(machine: Machine) -> tuple[str, ...]:
    """The models of its GPUs; the first is what the text says of all of them."""
    return tuple(sorted({gpu.model for gpu in machine.gpus} - {""}))


def needs_tree(machine: Machine) -> bool:
    """Whether pairs of GPUs meet over PCIe alone, and no switch of NVLinks joins the rest."""
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
    lines = [] if machine.domain else [port_line("nvswitch", machine, "")]
    ported = {port.gpu for port in machine.ports}
    others = list(range(len(machine.gpus)))
    for gpu in others.copy():
        if gpu not in ported and len(others) > 1:
            others.remove(gpu)
            rate = bandwidth(machine.gpus[gpu].place.rate or UNSTATED)
            members = f"gpu{gpu} <-> {parts('gpu', others)}"
            lines.append(f"bus pcie_gpu{gpu} {{ members {members}; bandwidth {rate}; kind pcie }}")
    return lines


def port_line(name: str, machine: Machine, prefix: str) -> str:
    """``switch NAME { ports ... }`` with a port for each GPU that has one."""
    kinds: dict[Fraction, list[int]] = defaultdict(list)
    for port in machine.ports:
        kinds[port.rate * port.lanes].append(port.gpu)
    main = max(kinds, key=lambda rate: (len(kinds[rate]), rate))
    rest = f"latency {time(NVLINK_LATENCY)}; kind nvlink }}"
    line = f"switch {name} {{ ports {prefix}{parts('gpu', kinds.pop(main))}; bandwidth {bandwidth(main)}; {rest}"
    slower = (f"link {prefix}{parts('gpu', gpus)} <-> {name}" for rate, gpus in kinds.items())
    rates = (f" {{ bandwidth {bandwidth(rate)}; kind nvlink }}" for rate in kinds)
    return "\n".join([line, *(a + b for a, b in zip(slower, rates, strict=True))])


def _nics(machine: Machine, used: Sequence[int]) -> list[str]:
    """NICs in order, those alike in one statement."""
    runs: list[tuple[str, list[int]]] = []
    for i, n in enumerate(used):
        nic = machine.nics[n]
        rate = nic.rate
        if rate is None:
            raise ValueError(f"{nic.name}: the rate of a NIC has to be known before it is written")
        latency = f"; latency {time(nic.latency)}" if nic.latency else ""
        body = f"bandwidth {network_rate(rate)}{latency}"
        if runs and runs[-1][0] == body:
            runs[-1][1].append(i)
        else:
            runs.append((body, [i]))
    return [f"nic {parts('nic', indices)} {{ {body} }}" for body, indices in runs]


def _attached(machine: Machine, used: dict[int, tuple[int, ...]], number: dict[int, int]) -> list[str]:
    """GPUs to NICs: plainly, at the rate of a narrow slot, or over a bus that several share."""
    lines: list[str] = []
    tree = Tree.of(machine)
    plain: list[tuple[tuple[int, ...], int, str]] = []
    for nics in _groups(machine, used, tree):
        gpus = tuple(sorted({gpu for n in nics for gpu in used[n]}))
        ways = [tree.way(g, n) for n in nics for g in used[n]]
        common = narrowest([edge for edge in ways[0] if all(edge in way for way in ways)])
        carried = sum((machine.nics[n].rate or Fraction(0) for n in nics), Fraction(0))
        if len(ways) > 1 and common is not None and common < carried:
            own = parts("nic", [number[n] for n in nics])
            members = f"{parts('gpu', gpus)} <-> {own}"
            rest = f"{{ members {members}; bandwidth {bandwidth(common)}; kind pcie }}"
            lines.append(f"bus pcie_{own.translate(_PLAIN)} {rest}")
            continue
        for n in nics:
            rate = narrowest([edge for g in used[n] for edge in tree.way(g, n)])
            limits = rate is not None and rate < (machine.nics[n].rate or 0)
            rest = f" {{ bandwidth {bandwidth(rate)}; kind pcie }}" if limits and rate is not None else ""
            plain.append((used[n], number[n], rest))
    return lines + _pairwise(plain)


_PLAIN = str.maketrans({"[": "", "]": "", ",": "_", "-": "_"})


def _groups(machine: Machine, used: dict[int, tuple[int, ...]], tree: Tree) -> list[list[int]]:
    """NICs by the slot they are in; those of one GPU together where the slot of the GPU carries less than they."""
    cards: dict[str, list[int]] = defaultdict(list)
    for n in used:
        cards[slot(n, machine.nics[n])].append(n)
    groups: list[list[int]] = []
    of_gpu: dict[tuple[int, ...], list[list[int]]] = defaultdict(list)
    for nics in cards.values():
        of_gpu[tuple(sorted({gpu for n in nics for gpu in used[n]}))].append(nics)
    for gpus, alike in of_gpu.items():
        together = [n for nics in alike for n in nics]
        limit = machine.gpus[gpus[0]].place.rate
        carried = sum((_carried(machine, nics, tree.way(gpus[0], nics[0])) for nics in alike), Fraction(0))
        narrow = len(gpus) == 1 and limit is not None and limit < carried
        groups += [together] if narrow else alike
    return sorted(groups)


def _carried(machine: Machine, nics: Sequence[int], way: Sequence[Edge]) -> Fraction:
    """What NICs of one slot carry to a GPU, the slot of the GPU left aside."""
    rates = sum((machine.nics[n].rate or Fraction(0) for n in nics), Fraction(0))
    return min([rates, *(rate for name, rate in way if not name.startswith("gpu"))])


def _pairwise(plain: Sequence[tuple[tuple[int, ...], int, str]]) -> list[str]:
    """``attach`` statements; GPUs with a NIC each share one."""
    single: dict[str, list[tuple[int, int]]] = defaultdict(list)
    lines = []
    for gpus, nic, rest in plain:
        if len(gpus) == 1:
            single[rest].append((gpus[0], nic))
        else:
            lines.append(f"attach {parts('gpu', gpus)} -> nic{nic}{rest}")
    for rest, pairs in single.items():
        gpus, nics = zip(*pairs, strict=True)
        if len(set(gpus)) == len(gpus):
            lines.append(f"attach {parts('gpu', gpus)} -> {parts('nic', nics)}{rest}")
        else:
            lines += [f"attach gpu{gpu} -> nic{nic}{rest}" for gpu, nic in pairs]
    return lines
