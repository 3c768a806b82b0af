"""``host "node[10-13]"`` in an instance: the machine that each server is.

In: an instance statement and the names it makes. Out: a host for each name, put on the parts of the server.
A number keeps its leading zeros, as in lists of hosts elsewhere: ``node[08-11]``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from hetesynth.topology.language.findings import Findings
from hetesynth.topology.language.names import MAX_RANGE, Scope
from hetesynth.topology.language.syntax import Instance, NodeType, PodType, Property, Word

MAX_HOST_NAME = 253

_RANGES = re.compile(r"\[([0-9, \t-]*)\]")
_INTERVAL = re.compile(r"\s*(\d{1,9})\s*(?:-\s*(\d{1,9})\s*)?")
_HOST = re.compile(r"[A-Za-z0-9_.:-]+")


def hosts_of(item: Instance, names: Sequence[str], findings: Findings) -> list[str]:
    """A host for each of ``names``, "" where none is stated."""
    stated = [o for o in item.overrides if isinstance(o, Property) and o.name == "host"]
    if not stated:
        return [""] * len(names)
    if len(stated) > 1:
        findings.add("HS209", stated[1].span, "`host` is given twice", "keep one: a name for each instance")
    word = stated[0].words[0]
    hosts = _expanded(word, findings)
    if hosts and len(hosts) != len(names):
        message = f"{len(hosts)} hosts cannot be paired with {len(names)} instances"
        findings.add("HS212", word.span, message, 'name as many: instance a[0-1] = h20x8 { host "node[10-11]" }')
    return hosts if len(hosts) == len(names) else [""] * len(names)


def state_host(
    item: Instance, host: str, node: NodeType | PodType, scope: Scope, hosts: dict[str, str], findings: Findings
) -> None:
    """Put ``host`` on the parts of one server; ``hosts`` are those of the cluster so far."""
    if not host:
        return
    if isinstance(node, PodType):
        message = f"`{node.name.text}` is a pod of several servers, which has no host"
        findings.add("HS211", item.node.span, message, "state `host` at the instances inside the pod")
    if host in hosts:
        message = f"there are two servers on host `{host}`, {hosts[host]} and {scope.prefix[:-1]}"
        findings.add("HS203", item.name.span, message, "give every server its host")
    hosts[host] = scope.prefix[:-1]
    for part in scope.parts.values():
        part.host = host


def _expanded(word: Word, findings: Findings) -> list[str]:
    """``node[08-11]-ib`` as its four names; none, with a finding, where that is no list of hosts."""
    names = [""]
    for position, piece in enumerate(_RANGES.split(word.text)):
        options = [piece] if position % 2 == 0 else _numbers(piece)
        if len(names) * len(options) > MAX_RANGE:
            findings.add("HS208", word.span, f"`host` names more than {MAX_RANGE} hosts", "use less")
            return []
        names = [name + option for name in names for option in options]
    if not names or not all(_HOST.fullmatch(name) and len(name) <= MAX_HOST_NAME for name in names):
        help_ = 'write it like host "node17" or host "node[10-13]"'
        findings.add("HS210", word.span, f"`{word.text[:60]}` does not name hosts", help_)
        return []
    return names


def _numbers(text: str) -> list[str]:
    numbers: list[str] = []
    for piece in text.split(","):
        match = _INTERVAL.fullmatch(piece)
        if match is None:
            return []
        first, last = match[1], match[2] or match[1]
        width = len(first) if first.startswith("0") else 0
        if int(last) - int(first) >= MAX_RANGE:
            return []
        numbers += [str(number).zfill(width) for number in range(int(first), int(last) + 1)]
    return numbers
