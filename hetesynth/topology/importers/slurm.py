"""Slurm's ``topology.conf`` and ``topology.yaml``, and topograph's models, to a network of switches with hosts.

They tell neither rates (LinkSpeed is a word without a unit) nor what a server is. A host of a ring or a torus has
a switch of its own, joined to those of its neighbours. Sources: topology.yaml(5) of Slurm 26.11;
NVIDIA/topograph, docs/modeling.md and pkg/models.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from math import prod

from hetesynth.topology.importers.machine import Remark
from hetesynth.topology.importers.network import Attachment, Network, Trunk
from hetesynth.topology.importers.reading import (
    Reading,
    ReadOptions,
    Source,
    lacking,
    lines_of,
    plain_yaml,
    refused,
)
from hetesynth.topology.importers.wording import some
from hetesynth.topology.language.names import hosts_named

MAX_HOSTS = 100_000
HELP = "see Slurm's manual: SwitchName=s0 Nodes=node[0-3,12],login, SwitchName=top Switches=s[0-1]"
MODEL_HELP = "see topology.yaml(5) of Slurm, or docs/modeling.md of topograph: switches, and blocks with nodes"
GRID_HELP = "see topology.yaml(5): a ring has nodes, a torus dims of x, y and z and a node for each cell"

# the sections of a topology in topology.yaml: their list, and the name of an entry
_PLUGINS = {
    "tree": ("switches", "switch"),
    "block": ("blocks", "block"),
    "ring": ("rings", "ring"),
    "torus3d": ("toruses", "name"),
}
_DOMAINS = ("accelerator.topology.test/domain", "network.topology.nvidia.com/accelerator")
_SETTING = re.compile(r"(\w{1,40})=(\"[^\"]{0,8000}\"|\S{1,8000})")
_KEYS = {"switchname", "nodes", "switches", "linkspeed", "blockname", "blocksizes"}


@dataclass(frozen=True, slots=True)
class _Switch:
    """A switch, or a block (``block``): the hosts or the switches below it."""

    name: str
    nodes: list[str]
    switches: list[str]
    block: bool


def _switch(where: str, names: list[str], nodes: object, below: object, *, block: bool) -> _Switch:
    """Return a switch as either file states it. Raise HS732 unless it has one name, and hosts or switches."""
    stated = [text for text in (nodes, below) if text]
    if len(names) != 1 or len(stated) != 1 or not isinstance(stated[0], str):
        raise refused(where, f"{', '.join(names)[:60]} needs one name, and hosts or switches below it", HELP)
    hosts = hosts_of(stated[0], where)
    return _Switch(names[0], hosts if nodes else [], [] if nodes else hosts, block)


def read_slurm_conf(source: Source, options: ReadOptions) -> Reading:
    """Return the network of a ``topology.conf``."""
    switches: list[_Switch] = []
    continued, unknown, total = "", set[str](), 0
    for number, line in enumerate(lines_of(source.data, source.name), 1):
        text, where = continued + line.split("#")[0].strip(), f"{source.name}: line {number}"
        continued = text[:-1] + " " if text.endswith("\\") else ""
        if not text or continued:
            continue
        settings = {match[1].lower(): match[2].strip('"') for match in _SETTING.finditer(text)}
        if _SETTING.sub("", text).strip():
            raise refused(where, f"{text[:60]!r} is nothing of topology.conf", HELP)
        unknown |= settings.keys() - _KEYS
        if not settings.keys() & {"blockname", "switchname"}:
            continue
        names = hosts_of(settings.get("blockname") or settings.get("switchname") or "", where)
        nodes, below = settings.get("nodes"), settings.get("switches")
        switches.append(_switch(where, names, nodes, below, block="blockname" in settings))
        total = _few(where, total + len(switches[-1].nodes) + len(switches[-1].switches))
    left = [Remark("found", f"not read: {', '.join(sorted(unknown))[:200]}")] if unknown else []
    return _reading(source.name, switches, options, left)


def read_slurm_yaml(source: Source, options: ReadOptions) -> Reading:
    """Return the network of a ``topology.yaml``: its only topology, else the one named, else the default one.

    Every ring and torus is a topology by itself, and has its own name too.
    """
    described: dict[str, tuple[bool, str, list[object]]] = {}  # by name: is it the default, plugin, entries
    for topology in _objects(plain_yaml(source.data, source.name), source.name):
        name, default = str(topology.get("topology")), topology.get("cluster_default") is True
        for plugin, (key, own) in _PLUGINS.items():
            section = topology.get(plugin)
            entries = section.get(key) if isinstance(section, dict) else None
            if not isinstance(entries, list):
                continue  # flat topologies have no entries
            if plugin in ("tree", "block"):
                described[name] = (default, plugin, entries)
                continue
            for entry in _objects(entries, source.name):
                described[f"{name}/{entry.get(own)}"] = (default, plugin, [entry])
    asked, names = options.topology, some([*described]) or "none"
    meant = [name for name in described if asked in (name, *name.split("/"))] if asked else [*described]
    defaults = [name for name in meant if described[name][0]]
    meant = defaults if defaults and not asked else meant
    if len(meant) != 1:
        what = f"topologies with hosts are {names}, and {len(meant)} of them are meant"
        raise lacking(source.name, what, "name one with --topology, or mark it with cluster_default: true")
    _, plugin, group = described[meant[0]]
    text = f"{meant[0]} of the topologies {names}; --topology takes another"
    left = [Remark("found", text)] if len(described) > 1 else []
    if plugin in ("ring", "torus3d"):
        (entry,) = _objects(group, source.name)
        return _grid(source.name, entry, options, left)
    switches, total = list[_Switch](), 0
    _, word = _PLUGINS[plugin]
    for entry in _objects(group, source.name):
        title = [str(entry[word])] if isinstance(entry.get(word), (str, int)) else []
        below = entry.get("children", entry.get("switches"))
        switches.append(_switch(source.name, title, entry.get("nodes"), below, block=plugin == "block"))
        total = _few(source.name, total + len(switches[-1].nodes) + len(switches[-1].switches))
    return _reading(source.name, switches, options, left)


def read_topograph(source: Source, options: ReadOptions) -> Reading:
    """Return the network of a topograph model, of this year's form or of those before it."""
    document = plain_yaml(source.data, source.name)
    facts = document if isinstance(document, dict) else {}
    stated, blocks = facts.get("switches") or {}, facts.get("blocks") or facts.get("capacity_blocks") or []
    if isinstance(stated, dict):
        stated = [{"name": name, **(facts if isinstance(facts, dict) else {})} for name, facts in stated.items()]
    switches: dict[str, _Switch] = {}
    at: dict[str, str] = {}  # the switch of a block that a switch names
    total = 0
    for entry in _objects(stated, source.name):
        name, below = str(entry.get("name")), _words(entry.get("switches"), source.name)
        if name in switches:
            raise refused(source.name, f"the switch {name[:40]} is there twice", MODEL_HELP)
        switches[name] = _Switch(name, _words(entry.get("nodes"), source.name), below, block=False)
        total = _few(source.name, total + len(below) + len(switches[name].nodes))
        at |= dict.fromkeys(_words(entry.get("capacity_blocks"), source.name), name)
    for name in [below for switch in switches.values() for below in switch.switches]:
        switches.setdefault(name, _Switch(name, [], [], block=False))
    domains, loose = [], []
    for number, block in enumerate(_objects(blocks, source.name)):
        name = str(block.get("name", f"block{number}"))
        tags = [block.get(key) for key in ("annotations", "labels")]
        marks = [tag.get(key) for tag in tags if isinstance(tag, dict) for key in _DOMAINS]
        domains += [str(mark) for mark in (block.get("nvlink"), *marks) if mark]
        hosts, switch = _words(block.get("nodes"), source.name), at.get(name, block.get("switch"))
        total = _few(source.name, total + len(hosts))
        if not stated and name not in switches:
            switches[name] = _Switch(name, hosts, [], block=True)
        elif switch is None and stated:
            loose += hosts
        elif str(switch) in switches:
            own = switches[str(switch)].nodes
            attached = set(own)
            own += [host for host in hosts if host not in attached]
        else:
            what = (
                f"the block {name[:40]} is there twice, or at {str(switch)[:40]}, which is no switch of the file"
            )
            raise refused(source.name, what, MODEL_HELP)
    texts = {
        f"accelerator domains ({some(list(dict.fromkeys(domains)))}) are not joined by NVLink here": domains,
        f"hosts at no switch are left out: {some(loose)}": loose,
    }
    return _reading(source.name, [*switches.values()], options, [Remark("assumed", t) for t in texts if texts[t]])


def _few(where: str, hosts: int) -> int:
    """Return the number ``hosts``. Raise HS732 if it is too large."""
    if hosts > MAX_HOSTS:
        raise refused(where, f"more than {MAX_HOSTS} hosts and switches", "import a part of the file")
    return hosts


def _objects(value: object, where: str) -> list[dict[str, object]]:
    """Return ``value`` if it is a list of objects; else raise HS732."""
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise refused(where, f"{str(value)[:60]!r} is no list of objects", MODEL_HELP)
    return value


def _words(value: object, where: str) -> list[str]:
    """Return the hosts named in a host list, or in a list of host lists; HS732 if it is none."""
    texts = value if isinstance(value, list) else [] if value is None else [value]
    if not all(isinstance(text, (str, int)) for text in texts):
        raise refused(where, f"{str(value)[:60]!r} is no list of names", MODEL_HELP)
    hosts: list[str] = []
    for text in texts:
        hosts += hosts_of(str(text), where)
        _few(where, len(hosts))
    return hosts


def _sizes(value: object, where: str, least: int) -> list[int]:
    """Return x, y and z. Raise HS732 if one is no number from ``least`` to MAX_HOSTS."""
    facts = value if isinstance(value, dict) else {}
    sides = [facts.get(axis, 0) for axis in "xyz"]
    if not all(type(side) is int and least <= side <= MAX_HOSTS for side in sides):
        raise refused(where, f"{str(value)[:60]!r} has no x, y and z from {least} to {MAX_HOSTS}", GRID_HELP)
    return sides


def _grid(file: str, entry: dict[str, object], options: ReadOptions, before: list[Remark]) -> Reading:
    """Return a ring or torus: hosts in order of x, y, then z, each joined to the next, the last to the first."""
    where = f"{file}: {str(entry.get('ring', entry.get('name')))[:40]}"
    whole = {"nodes": entry.get("nodes"), "dims": entry.get("dims"), "anchor": {}}
    if "ring" in entry:
        whole["dims"] = {"x": len(_words(entry.get("nodes"), where)), "y": 1, "z": 1}
    sides = _sizes(whole["dims"], where, 1)
    cells: dict[tuple[int, ...], str] = {}
    seen: set[str] = set()
    for region in _objects(entry.get("regions") or [whole], where):
        own, anchor = _sizes(region.get("dims"), where, 1), _sizes(region.get("anchor") or {}, where, 0)
        hosts = _words(region.get("nodes"), where)
        corner = [a + size for a, size in zip(anchor, own, strict=True)]
        if len(hosts) != prod(own) or any(end > side for end, side in zip(corner, sides, strict=True)):
            what = f"{len(hosts)} hosts for {' x '.join(map(str, own))} cells, or cells beyond the torus"
            raise refused(where, what, GRID_HELP)
        places = ((x, y, z) for z in range(own[2]) for y in range(own[1]) for x in range(own[0]))
        for place, host in zip(places, hosts, strict=True):
            cell = tuple(a + b for a, b in zip(place, anchor, strict=True))
            if cell in cells or host in seen:
                raise refused(where, f"{host[:40]}, or its cell, is there twice", GRID_HELP)
            cells[cell] = host
            seen.add(host)
    pairs: dict[frozenset[str], tuple[str, str]] = {}  # unordered: two cells in a row have one cable
    for cell, host in cells.items():
        for axis in range(3):
            beside = cells.get(tuple((c + (i == axis)) % sides[i] for i, c in enumerate(cell)))
            if beside and beside != host:
                pairs.setdefault(frozenset((host, beside)), (host, beside))
    degree = max(Counter(host for pair in pairs.values() for host in pair).values(), default=1)
    text = f"{len(cells)} hosts in a ring or torus of {' x '.join(map(str, sides))}"
    rule = (
        f"a cable to a neighbour carries what the NICs of a host do, over {degree}: --uplink states another rate"
    )
    remarks = (*before, Remark("found", text), *([] if options.uplink else [Remark("assumed", rule)]))
    attachments = tuple(Attachment(host, f"at_{host}") for host in cells.values())
    trunks = tuple(Trunk(f"at_{a}", f"at_{b}") for a, b in pairs.values())
    return Reading(
        network=Network(attachments, trunks, remarks, options.uplink, options.oversubscription * degree)
    )


def _reading(name: str, switches: list[_Switch], options: ReadOptions, before: Sequence[Remark] = ()) -> Reading:
    """Return the network; parts that the file leaves apart meet in one more switch. HS732 if it is no tree."""
    hosts = [host for switch in switches for host in switch.nodes]
    above = {below: switch.name for switch in switches for below in switch.switches}
    names = {switch.name for switch in switches}
    trunks = [Trunk(below, switch.name) for switch in switches for below in switch.switches]
    once = len(set(hosts)) == len(hosts) and len(names) == len(switches) and len(above) == len(trunks)
    try:
        TopologicalSorter({lower: [upper] for lower, upper in above.items()}).prepare()
    except CycleError:
        once = False
    if not once or not hosts or not above.keys() <= names:
        what = "no hosts, or a switch or host that is named twice, not described, or below itself"
        raise refused(name, what, HELP)
    leaves = sum(bool(switch.nodes) for switch in switches)
    remarks = [*before, Remark("found", f"{len(hosts)} hosts below {leaves} switches or blocks")]
    tops = [switch.name for switch in switches if switch.name not in above]
    if len(tops) > 1:
        spine = "spine"
        while spine in names:
            spine += "_"
        trunks += [Trunk(top, spine) for top in tops]
        text = "a switch that joins the switches or blocks which nothing joins in the file"
        remarks.append(Remark("assumed", text))
    if any(switch.block for switch in switches):
        text = "a block is a leaf switch; the file does not tell whether NVLink joins it"
        remarks.append(Remark("assumed", text))
    attachments = tuple(Attachment(host, switch.name) for switch in switches for host in switch.nodes)
    described = (attachments, tuple(trunks), tuple(remarks))
    return Reading(network=Network(*described, options.uplink, options.oversubscription))


def hosts_of(text: str, where: str) -> list[str]:
    """Return the hosts of ``tux[0-3,12],rack[0-1]node[01-16]`` in order; HS732 for no list or too many hosts."""
    hosts: list[str] = []
    for word in re.split(r",(?![^\[]*\])", text):
        names = hosts_named(word, MAX_HOSTS)
        if not names or re.search(r"[\s\[\]]", names[0]) or not names[0] or len(hosts) + len(names) > MAX_HOSTS:
            raise refused(where, f"{text[:60]!r} is no host list, or one of too many hosts", HELP)
        hosts += names
    return hosts
