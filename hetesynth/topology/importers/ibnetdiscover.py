"""``ibnetdiscover`` to a network: switches, the NICs at their ports, the cables between them, with true rates.

A block ``Switch 41 "S-guid" # "name" ...`` or ``Ca 1 "H-guid" # "host mlx5_0"`` is followed by a line for each
cable, ``[1] "H-guid"[1](portguid) # "host mlx5_0" lid 7 4xHDR``. A cable is in the blocks of both of its ends.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from hetesynth.topology.importers.machine import Remark
from hetesynth.topology.importers.network import Attachment, Network, TooLarge, Trunk
from hetesynth.topology.importers.node_types import without_nvlink
from hetesynth.topology.importers.reading import Reading, ReadOptions, Source
from hetesynth.topology.importers.tool_text import lines_of, refused
from hetesynth.topology.importers.wording import some

MAX_DEVICES = 200_000
HELP = "give the whole output of `ibnetdiscover`"

_BLOCK = re.compile(r'(Switch|Ca|Rt)\s+\d{1,4}\s+"([SHR]-[0-9a-fA-F]{1,16})"\s*(?:#\s*"([^"]{0,200})")?.*')
_CABLE = re.compile(
    r'\[(\d{1,3})\](?:\([0-9a-fA-F]{1,16}\))?\s+"([SHR]-[0-9a-fA-F]{1,16})"\[(\d{1,3})\](?:\([0-9a-fA-F]{1,16}\))?(.*)'
)
_SPEED = re.compile(r"\b(1|2|4|8|12)x(SDR|DDR|QDR|FDR10|FDR|EDR|HDR|NDR|XDR)\b")
_DESCRIPTION = re.compile(r'"([^"]{0,200})"')
_NO_CABLE = re.compile(r"(\[\d{1,3}\])(?:\([0-9a-fA-F]{1,16}\))?\s*(?:#.*)?")
_IMAGE = re.compile(r"sysimgguid=0x([0-9a-fA-F]{1,16})")
# how a NIC calls itself before its host gives it a name
_OF_FACTORY = re.compile(
    r"(MT\d{3,6}( (ConnectX|BlueField).*)?|localhost\b.*|.*\b(Mellanox|NVIDIA|Nvidia) Technologies.*"
    r"|mlx\d_\d+|hfi\d_\d+|qib\d+|ibp\w+)"
)
_HOST = re.compile(r"[A-Za-z0-9_.:-]+")
# bits per second of a lane that carry data: the signalling rate less its line code
_LANE = {
    "SDR": Fraction(2), "DDR": Fraction(4), "QDR": Fraction(8), "FDR10": Fraction(10), "FDR": Fraction(150, 11),
    "EDR": Fraction(25), "HDR": Fraction(50), "NDR": Fraction(100), "XDR": Fraction(200),
}  # fmt: skip

End = tuple[str, int]  # guid, port


@dataclass(slots=True)
class _Devices:
    """What was read so far: descriptions of devices, the card that a device is on, cables by their ends with
    their rates, and what is odd about single ports."""

    names: dict[str, str] = field(default_factory=dict)
    images: dict[str, str] = field(default_factory=dict)
    odd: list[str] = field(default_factory=list)
    cables: dict[tuple[End, End], Fraction | None] = field(default_factory=dict)


def read_ibnetdiscover(source: Source, options: ReadOptions) -> Reading:
    """The network of a file; HS732 where it is no such output."""
    devices = _devices(lines_of(source.data, source.name), source.name)
    switches = _switch_names(devices)
    attachments, remarks = _attachments(devices, switches)
    remarks += without_nvlink(options.node_type)
    if not attachments:
        raise refused(source.name, "no NIC of a host at a switch", HELP)
    trunks = _trunks(devices, switches)
    try:
        network = Network(attachments, trunks, tuple(remarks), options.uplink, options.oversubscription)
    except TooLarge as error:
        raise refused(source.name, str(error), "import a part of the fabric") from error
    return Reading(network=network)


def _devices(lines: Sequence[str], name: str) -> _Devices:
    """Every device and cable; both ends of a cable have to say the same."""
    devices = _Devices()
    current = image = ""
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if match := _BLOCK.fullmatch(text):
            current = match[2]
            devices.names[current] = match[3] or devices.names.get(current, "")
            devices.images[current], image = image, ""
        elif match := _IMAGE.fullmatch(text):
            image = match[1]
        elif match := _CABLE.fullmatch(text):
            if not current:
                raise refused(name, f"line {number}: a port without a device above it", HELP)
            _add_cable(devices, (current, int(match[1])), (match[2], int(match[3])), match[4])
        elif current and (match := _NO_CABLE.fullmatch(text)):
            devices.odd.append(f"{devices.names[current] or current}{match[1]} has no link")
        elif text.startswith("["):
            raise refused(name, f"line {number}: a port that is not written as ibnetdiscover does", HELP)
        if len(devices.names) + len(devices.cables) > MAX_DEVICES:
            raise refused(name, f"more than {MAX_DEVICES} devices and cables", "import a part of the fabric")
    return devices


def _add_cable(devices: _Devices, one: End, other: End, rest: str) -> None:
    """Note a cable, at the lower rate where its other end said another."""
    speed = _SPEED.findall(rest)
    rate = Fraction(int(speed[-1][0])) * _LANE[speed[-1][1]] * 10**9 / 8 if speed else None
    ends = min(one, other), max(one, other)
    before = devices.cables.get(ends)
    if rate and before and before != rate:
        devices.odd.append(f"{devices.names[one[0]] or one[0]}[{one[1]}] has another rate than its other end")
    devices.cables[ends] = min(filter(None, (rate, before)), default=None)
    described = _DESCRIPTION.search(rest.partition("#")[2])
    if described and not devices.names.get(other[0]) and one[0].startswith("S"):
        devices.names[other[0]] = described[1]


def _switch_names(devices: _Devices) -> dict[str, str]:
    """A name for each switch: that of its description, with the guid where several have it."""
    guids = {guid for ends in devices.cables for guid, _ in ends} | set(devices.names)
    switches = sorted(guid for guid in guids if guid.startswith("S"))
    short = {guid: _short(devices.names.get(guid, "")) or guid for guid in switches}
    counted = Counter(short.values())
    return {guid: name if counted[name] == 1 else f"{name}_{guid[2:]}" for guid, name in short.items()}


def _short(description: str) -> str:
    """The name in ``MF0;leaf1:MQM8700/U1`` or ``leaf1``."""
    match = re.search(r"(?:MF\d+;)?([\w.-]+)", description.replace("Quantum Mellanox Technologies", ""))
    return match[1] if match else ""


def _attachments(devices: _Devices, switches: dict[str, str]) -> tuple[tuple[Attachment, ...], list[Remark]]:
    """Every NIC at a switch, by host and name, in the order of the hosts."""
    attachments: list[Attachment] = []
    unnamed = passed = 0
    ports: dict[str, list[tuple[int, str, Fraction | None]]] = defaultdict(list)
    for (one, port), (other, other_port) in devices.cables:
        rate = devices.cables[(one, port), (other, other_port)]
        for (nic, number), switch in (((one, port), other), ((other, other_port), one)):
            if nic.startswith("H") and switch.startswith("S"):
                ports[nic].append((number, switch, rate))
    described = {guid: " ".join(devices.names.get(guid, "").split()) for guid in ports}
    times = Counter(described.values())
    for guid, cables in ports.items():
        words = described[guid].split()
        if "Aggregation" in words:
            passed += 1
            continue
        repeated = len(words) > 1 and times[described[guid]] > 1  # by cards of several hosts
        if repeated or not words or not _HOST.fullmatch(words[0]) or _OF_FACTORY.fullmatch(described[guid]):
            unnamed += 1
            words = [devices.images.get(guid) or guid[2:], guid[2:]]
        host, nic = words[0], " ".join(words[1:]) or guid
        for number, switch, rate in sorted(cables, key=lambda cable: cable[0]):
            label = nic if len(cables) == 1 else f"{nic}/{number}"
            attachments.append(Attachment(host, switches[switch], label, rate))
    order = sorted(_renamed(attachments), key=lambda one: (_natural(one.host), _natural(one.nic)))
    remarks = [Remark("found", f"{len(order)} NICs of {len({one.host for one in order})} hosts")]
    if passed:
        remarks.append(Remark("found", f"{passed} aggregation nodes of switches are passed over"))
    if unnamed:
        text = "their descriptions name no one host, so that each card is a host of its own, called by its GUID"
        way_out = "name hosts by `ibnetdiscover --node-name-map FILE`, or take the others with --hosts"
        remarks.append(Remark("suspicious", f"{unnamed} NICs: {text}; {way_out}", "warning"))
    unplugged = [name or guid for guid, name in devices.names.items() if guid[0] == "H" and guid not in ports]
    if odd := list(dict.fromkeys([*(f"{name} has no link" for name in unplugged), *devices.odd])):
        remarks.append(Remark("suspicious", f"ports to look at: {some(odd)}", "warning"))
    remarks.append(
        Remark(
            "assumed",
            "hosts are joined by InfiniBand alone: it does not show an NVLink domain of several hosts (NVL72), "
            "which a dump of NCCL tells, or a pod of the library such as gb200_nvl72",
        )
    )
    return tuple(order), remarks


def _renamed(attachments: list[Attachment]) -> list[Attachment]:
    """With numbers behind the names of NICs that a host has twice."""
    seen: Counter[tuple[str, str]] = Counter()
    unique = []
    for one in attachments:
        seen[one.host, one.nic] += 1
        count = seen[one.host, one.nic]
        label = one.nic if count == 1 else f"{one.nic}#{count}"
        unique.append(Attachment(one.host, one.switch, label, one.rate))
    return unique


def _natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """A key by which node2 comes before node10."""
    return tuple(
        (0, int(word), "") if word.isdigit() else (1, 0, word) for word in re.findall(r"[0-9]{1,18}|[^0-9]+", text)
    )


def _trunks(devices: _Devices, switches: dict[str, str]) -> tuple[Trunk, ...]:
    """Cables between switches, those of one pair and rate together."""
    counted: Counter[tuple[str, str, Fraction | None]] = Counter()
    for ((one, _), (other, _)), rate in devices.cables.items():
        if one != other and one in switches and other in switches:
            counted[switches[one], switches[other], rate] += 1
    return tuple(
        Trunk(a, b, lanes, rate)
        for (a, b, rate), lanes in sorted(
            counted.items(), key=lambda item: (item[0][0], item[0][1], item[0][2] or 0)
        )
    )
