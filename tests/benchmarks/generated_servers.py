"""Server types of generated clusters: what joins their GPUs and where their NICs hang, as text.

In: a ``ServerType``. Out: a node type of the topology language, whole or with one link degraded. Knows nothing
of networks. Figures are those of data sheets, as in dsl/library: NVLink and PCIe rates of one direction;
``reduce`` is 90 % of a third of the memory's rate. Latencies: 0.7 us for NVLink (TE-CCL, see dsl/library); 1 us
for a PCIe switch and 1.5 us between sockets are estimates.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

Inside = Literal["mesh", "switch", "ring", "pcie"]


@dataclass(frozen=True, slots=True)
class Generation:
    """A GPU model: its direct links and their GB/s, the GB/s of its PCIe slot and of a reduction kernel."""

    model: str
    links: int
    rate: float
    pcie: float
    reduce: int
    kind: str = "nvlink"


GENERATIONS = (
    Generation("P100", 4, 20, 15.75, 219),
    Generation("V100", 6, 25, 15.75, 270),
    Generation("A100", 12, 25, 31.5, 466),
    Generation("H100", 18, 25, 63, 1005),
    Generation("H20", 18, 25, 63, 1200),
    Generation("B200", 18, 50, 63, 2400),
    Generation("MI300X", 7, 64, 63, 1590, "xgmi"),
    Generation("T4", 0, 0, 15.75, 96),
    Generation("A10", 0, 0, 31.5, 180),
    Generation("L40S", 0, 0, 31.5, 259),
)
WITH_SWITCHES = ("V100", "A100", "H100", "H20", "B200")  # sold behind NVSwitches


def possible(generation: Generation, inside: Inside, gpus: int) -> bool:
    """Whether ``gpus`` of a generation can be joined that way."""
    match inside:
        case "mesh":
            return gpus - 1 <= generation.links
        case "switch":
            return generation.model in WITH_SWITCHES
        case "ring":
            return generation.links >= 2
        case _:
            return not generation.links


@dataclass(frozen=True, slots=True)
class ServerType:
    """Servers of one type. ``nics`` of ``gbps`` each; ``per_switch``: GPUs of a PCIe switch of a PCIe tree;
    ``buses``: NICs are reached over PCIe buses that limit; ``halves``: GB/s of a limit that is stated between the
    first and the second half of the GPUs, or None."""

    generation: Generation
    inside: Inside
    gpus: int
    nics: int = 0
    gbps: int = 0
    per_switch: int = 0
    buses: bool = False
    halves: float | None = None

    @property
    def name(self) -> str:
        """The name of the node type, such as ``a100_mesh4``."""
        return f"{self.generation.model.lower()}_{self.inside}{self.gpus}"

    @property
    def switches(self) -> int:
        """PCIe switches of a PCIe tree."""
        return self.gpus // self.per_switch if self.per_switch else 0

    def node(self, degraded: float | None = None) -> str:
        """The node type; with ``degraded`` its last link runs at that part of its rate, and its name says so."""
        name = self.name if degraded is None else f"{self.name}_slow"
        lines = [f'model "{self.generation.model}"', f"gpus {self.gpus}", f"reduce {self.generation.reduce} GB/s"]
        lines += {"mesh": self._mesh, "switch": self._switch, "ring": self._ring, "pcie": self._tree}[self.inside](
            degraded
        )
        lines += self._nics()
        if self.halves is not None:
            half = self.gpus // 2
            sides = f"{span('gpu', 0, half - 1)} <-> {span('gpu', half, self.gpus - 1)}"
            lines.append(f"shared halves {self.halves:g} GB/s {{ {sides} }}")
        return "".join([f"node {name} {{\n", *(f"  {line}\n" for line in lines), "}\n"])

    def _link(self, rate: float, lanes: int = 1) -> str:
        many = f" x {lanes}" if lanes > 1 else ""
        return f"{{ bandwidth {rate:g} GB/s{many}; latency 0.7 us; kind {self.generation.kind} }}"

    def _mesh(self, degraded: float | None) -> Iterator[str]:
        rate, last = self.generation.rate, self.gpus - 1
        lanes = self.generation.links // last
        if degraded is None:
            yield f"mesh {span('gpu', 0, last)} {self._link(rate, lanes)}"
            return
        if last > 1:
            yield f"mesh {span('gpu', 1, last)} {self._link(rate, lanes)}"
            yield f"link gpu0 <-> {span('gpu', 1, last - 1)} {self._link(rate, lanes)}"
        yield f"link gpu0 <-> gpu{last} {self._link(rate * lanes * degraded)}"

    def _ring(self, degraded: float | None) -> Iterator[str]:
        rate, last = self.generation.rate, self.gpus - 1
        lanes = self.generation.links // min(2, last)
        closing = self._link(rate, lanes) if degraded is None else self._link(rate * lanes * degraded)
        if last > 1:
            yield f"link {span('gpu', 0, last - 1)} <-> {span('gpu', 1, last)} {self._link(rate, lanes)}"
        yield f"link gpu{last} <-> gpu0 {closing}"

    def _switch(self, degraded: float | None) -> Iterator[str]:
        rate, last = self.generation.rate * self.generation.links, self.gpus - 1
        whole = last if degraded is None else last - 1
        port = f"bandwidth {rate:g} GB/s; latency 0.7 us; kind nvlink"
        yield f"switch nvswitch {{ ports {span('gpu', 0, whole)}; {port} }}"
        if degraded is not None:
            yield f"link gpu{last} <-> nvswitch {{ bandwidth {rate * degraded:g} GB/s; kind nvlink }}"

    def _tree(self, degraded: float | None) -> Iterator[str]:
        rate, last = self.generation.pcie, self.gpus - 1
        for number in range(self.switches):
            first, end = number * self.per_switch, (number + 1) * self.per_switch - 1
            whole = end if degraded is None or end < last else end - 1
            yield (
                f"switch plx{number} {{ ports {span('gpu', first, whole)}; bandwidth {rate:g} GB/s; "
                "latency 1 us; kind pcie }"
            )
        if degraded is not None:
            port = f"{{ bandwidth {rate * degraded:g} GB/s; kind pcie }}"
            yield f"link gpu{last} <-> plx{self.switches - 1} {port}"
        if self.switches > 1:
            members = "plx0 <-> plx1" if self.switches == 2 else span("plx", 0, self.switches - 1)
            yield f"bus host {{ members {members}; bandwidth {rate:g} GB/s; latency 1.5 us; kind upi }}"

    def _nics(self) -> Iterator[str]:
        if not self.nics:
            return
        yield f"nic {span('nic', 0, self.nics - 1)} {{ bandwidth {self.gbps} Gbps }}"
        each = self.gpus // self.nics
        if self.inside == "pcie":
            yield from (f"attach plx{nic * self.switches // self.nics} -> nic{nic}" for nic in range(self.nics))
        elif each == 1:
            yield f"attach {span('gpu', 0, self.gpus - 1)} -> {span('nic', 0, self.nics - 1)}"
        else:
            for nic in range(self.nics):
                sharing = span("gpu", nic * each, nic * each + each - 1)
                if self.buses:
                    rate = f"bandwidth {self.generation.pcie:g} GB/s; kind pcie"
                    yield f"bus pcie{nic} {{ members {sharing} <-> nic{nic}; {rate} }}"
                else:
                    yield f"attach {sharing} -> nic{nic}"


def span(name: str, first: int, last: int) -> str:
    """``gpu[0-3]``, or ``gpu0`` where it is one."""
    return f"{name}{first}" if first == last else f"{name}[{first}-{last}]"
