"""Files in order to what they tell: each by the reader of its format, neighbours of one server together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath

from hetesynth.errors import HetesynthError
from hetesynth.topology.importers.formats import Format, format_named, recognized
from hetesynth.topology.importers.machine import Machine, Remark
from hetesynth.topology.importers.network import Network
from hetesynth.topology.importers.reading import Reading, ReadOptions, Source


@dataclass(frozen=True, slots=True)
class Told:
    """What one file told, or several of one server: ``count`` is how many servers it stands for."""

    names: tuple[str, ...]
    count: int
    format: str
    reading: Reading

    def named_machines(self) -> list[tuple[str, Machine]]:
        """Every machine with the name of its file, as often as it stands for a server."""
        names = self.reading.files or self.names[:1] * len(self.reading.machines)
        return list(zip(names, self.reading.machines, strict=True)) * self.count


def read_in_order(inputs: Sequence[tuple[Source, int]], format_name: str, options: ReadOptions) -> list[Told]:
    """What the files tell, in their order."""
    groups: list[tuple[Format, int, list[Source]]] = []
    for source, count in inputs:
        row = format_named(format_name) if format_name else recognized(source)
        if groups and row.together and groups[-1][0] is row and groups[-1][1] == count == 1:
            groups[-1][2].append(source)
        else:
            groups.append((row, count, [source]))
    return [
        Told(
            tuple(source.name for source in sources),
            count,
            row.name,
            row.read_together(sources, options) if row.together else row.read(sources[0], options),
        )
        for row, count, sources in groups
    ]


def network_of(told: Sequence[Told]) -> Network | None:
    """The network that a file describes; HS742 where two do."""
    networks = [(answer.names[0], answer.reading.network) for answer in told if answer.reading.network is not None]
    if len(networks) > 1:
        raise HetesynthError(
            f"{networks[0][0]} and {networks[1][0]} both describe the network between servers",
            code="HS742",
            help="give one of them: ibnetdiscover tells more than Slurm's files",
        )
    return networks[0][1] if networks else None


def with_hosts(named: Sequence[tuple[str, Machine]], network: Network) -> list[Machine]:
    """The machines; those without a host get that of their file's name, if the network has it."""
    hosts = {host.split(".")[0].lower(): host for host in network.hosts}
    machines = []
    for name, machine in named:
        stem = PurePath(name).name.split(".")[0].lower()
        machines.append(machine if machine.host or stem not in hosts else replace(machine, host=hosts[stem]))
    return machines


def remarks_of(told: Sequence[Told]) -> list[Remark]:
    """What was remarked on files."""
    return [remark for answer in told for remark in answer.reading.remarks]
