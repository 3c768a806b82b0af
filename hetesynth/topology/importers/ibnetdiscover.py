"""``ibnetdiscover`` to a network: switches, the NICs at their ports, the cables between them, with true rates.

A block ``Switch 41 "S-guid" # "name" ...`` or ``Ca 1 "H-guid" # "host mlx5_0"`` is followed by a line for each
cable, ``[1] "H-guid"[1](portguid) # "host mlx5_0" lid 7 4xHDR``. A cable is in the blocks of both of its ends.
"""

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from fractions import Fraction

from hetesynth.topology.importers.machine import Remark
from hetesynth.topology.importers.network import Attachment, Network, Trunk
from hetesynth.topology.importers.reading import Reading, ReadOptions, Source, lines_of, refused
from hetesynth.topology.importers.wording import natural, some

MAX_DEVICES = 200_000
HELP = "give the whole output of `ibnetdiscover`, or a part of a large fabric"

_BLOCK = re.compile(r'(Switch|Ca|Rt)\s+\d{1,4}\s+"([SHR]-[0-9a-fA-F]{1,16})"\s*(?:#\s*"([^"]{0,200})")?.*')
_CABLE = re.compile(
    r'\[(\d{1,3})\](?:\([0-9a-fA-F]{1,16}\))?\s+"([SHR]-[0-9a-fA-F]{1,16})"\[(\d{1,3})\](?:\([0-9a-fA-F]{1,16}\))?(.*)'
)
_SPEED = re.compile(r"\b(1|2|4|8|12)x(SDR|DDR|QDR|FDR10|FDR|EDR|HDR|NDR|XDR)\b")
_DESCRIPTION = re.compile(r'"([^"]{0,200})"')
_NO_CABLE = re.compile(r"(\[\d{1,3}\])(?:\([0-9a-fA-F]{1,16}\))?\s*(?:#.*)?")
# how a NIC calls itself before its host gives it a name
_OF_FACTORY = re.compile(
    r"(MT\d{3,6}( (ConnectX|BlueField).*)?|localhost\b.*|.*\b(Mellanox|NVIDIA|Nvidia) Technologies.*"
    r"|mlx\d_\d+|hfi\d_\d+|qib\d+|ibp\w+)"
)
_HOST = re.compile(r"[A-Za-z0-9_.:-]+")
# bits per second of a lane that carry data: the signalling rate less its line code
_LANE = {
    "SDR": Fraction(2),
    "DDR": Fraction(4),
    "QDR": Fraction(8),
    "FDR10": Fraction(10),
    "FDR": Fraction(150, 11),
    "EDR": Fraction(25),
    "HDR": Fraction(50),
    "NDR": Fraction(100),
    "XDR": Fraction(200),
}

End = tuple[str, int]  # guid, port


@dataclass(slots=True)
class _Devices:
    """The descriptions of devices, the cables by their ends with their rates, and the odd ports."""

    names: dict[str, str] = field(default_factory=dict)
    odd: list[str] = field(default_factory=list)
    cables: dict[tuple[End, End], Fraction | None] = field(default_factory=dict)

    def add_cable(self, one: End, other: End, rest: str) -> None:
        """Note a cable, at the lower rate where its other end said another."""
        speed = _SPEED.findall(rest)
        rate = Fraction(int(speed[-1][0])) * _LANE[speed[-1][1]] * 10**9 / 8 if speed else None
        ends = min(one, other), max(one, other)
        before = self.cables.get(ends)
        if rate and before and before != rate:
            self.odd.append(f"{self.names[one[0]] or one[0]}[{one[1]}] has another rate than its other end")
        self.cables[ends] = min(filter(None, (rate, before)), default=None)
        described = _DESCRIPTION.search(rest.partition("#")[2])
        if described and not self.names.get(other[0]) and one[0].startswith("S"):
            self.names[other[0]] = described[1]


def read_ibnetdiscover(source: Source, options: ReadOptions) -> Reading:
    """Return the network of a file; HS732 where it is no such output."""
    devices = _Devices()
    current = ""
    for number, line in enumerate(lines_of(source.data, source.name), 1):
        text = line.strip()
        if match := _BLOCK.fullmatch(text):
            current = match[2]
            devices.names[current] = match[3] or devices.names.get(current, "")
        elif current and (match := _CABLE.fullmatch(text)):
            devices.add_cable((current, int(match[1])), (match[2], int(match[3])), match[4])
        elif current and (match := _NO_CABLE.fullmatch(text)):
            devices.odd.append(f"{devices.names[current] or current}{match[1]} has no link")
        elif text.startswith("[") or len(devices.cables) > MAX_DEVICES:
            raise refused(source.name, f"line {number}: no port of a device, or one of too many", HELP)
    guids = {guid for ends in devices.cables for guid, _ in ends} | set(devices.names)
    # the name in `MF0;leaf1:MQM8700/U1` or `leaf1`, with the guid where several switches have it
    short: dict[str, str] = {}
    for guid in sorted(guid for guid in guids if guid.startswith("S")):
        description = devices.names.get(guid, "").replace("Quantum Mellanox Technologies", "")
        match = re.search(r"(?:MF\d+;)?([\w.-]+)", description)
        short[guid] = match[1] if match else guid
    counted = Counter(short.values())
    switches = {guid: name if counted[name] == 1 else f"{name}_{guid[2:]}" for guid, name in short.items()}
    attachments, remarks = _attachments(devices, switches)
    if not attachments:
        what = "no NIC at a switch whose description names its host: `ibnetdiscover --node-name-map` gives names"
        raise refused(source.name, what, HELP)
    cables: Counter[tuple[str, str, Fraction | None]] = Counter()  # between switches, by pair and rate
    for ((one, _), (other, _)), rate in devices.cables.items():
        if one != other and one in switches and other in switches:
            cables[switches[one], switches[other], rate] += 1
    ordered = sorted(cables.items(), key=lambda item: (item[0][0], item[0][1], item[0][2] or 0))
    trunks = tuple(Trunk(a, b, lanes, rate) for (a, b, rate), lanes in ordered)
    described = (tuple(attachments), trunks, tuple(remarks))
    return Reading(network=Network(*described, options.uplink, options.oversubscription))


def _attachments(devices: _Devices, switches: dict[str, str]) -> tuple[list[Attachment], list[Remark]]:
    """Return every NIC at a switch, by host and name, in the order of the hosts."""
    attachments: list[Attachment] = []
    ports: dict[str, list[tuple[int, str, Fraction | None]]] = defaultdict(list)
    for ends, rate in devices.cables.items():
        for (nic, number), (switch, _) in (ends, ends[::-1]):
            if nic.startswith("H") and switch.startswith("S"):
                ports[nic].append((number, switch, rate))
    described = {guid: " ".join(devices.names.get(guid, "").split()) for guid in ports}
    times = Counter(described.values())
    unnamed: list[str] = []
    seen: Counter[tuple[str, str]] = Counter()  # a host may have two NICs of one name
    for guid, cables in ports.items():
        words = described[guid].split()
        if "Aggregation" in words:  # a part of a switch
            continue
        # by cards of several hosts
        repeated = len(words) > 1 and times[described[guid]] > 1
        if repeated or not words or not _HOST.fullmatch(words[0]) or _OF_FACTORY.fullmatch(described[guid]):
            unnamed.append(guid[2:])
            continue
        host, nic = words[0], " ".join(words[1:]) or guid
        for number, switch, rate in sorted(cables, key=lambda cable: cable[0]):
            label = nic if len(cables) == 1 else f"{nic}/{number}"
            seen[host, label] += 1
            if seen[host, label] > 1:
                label = f"{label}#{seen[host, label]}"
            attachments.append(Attachment(host, switches[switch], label, rate))
    attachments.sort(key=lambda one: (natural(one.host), natural(one.nic)))
    remarks = [Remark("found", f"{len(attachments)} NICs of {len({one.host for one in attachments})} hosts")]
    if unnamed:
        text = "their descriptions name no one host, so that they are left out: name hosts by "
        remarks.append(Remark("suspicious", f"NICs {some(unnamed)}: {text}`--node-name-map FILE`"))
    unplugged = [name or guid for guid, name in devices.names.items() if guid[0] == "H" and guid not in ports]
    if odd := list(dict.fromkeys([*(f"{name} has no link" for name in unplugged), *devices.odd])):
        remarks.append(Remark("suspicious", f"ports to look at: {some(odd)}"))
    text = "hosts are joined by InfiniBand alone: it does not show an NVLink domain of several hosts (NVL72), "
    text += "which a dump of NCCL tells, or a pod of the library such as gb200_nvl72"
    remarks.append(Remark("assumed", text))
    return attachments, remarks
