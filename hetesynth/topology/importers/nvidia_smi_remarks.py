"""What is remarkable in the output of nvidia-smi: GPUs with fewer links, contradictions, hidden NVLinks."""

from __future__ import annotations

from collections.abc import Iterator

from hetesynth.topology.importers.gpu_models import GpuModel
from hetesynth.topology.importers.machine import Remark
from hetesynth.topology.importers.nvidia_smi_lists import GpuList
from hetesynth.topology.importers.nvidia_smi_table import DeviceTable


def remarks_on(
    table: DeviceTable, models: GpuList | None, links: GpuList | None, access: DeviceTable | None,
    model: GpuModel | None,
) -> tuple[Remark, ...]:  # fmt: skip
    """The remarks on one server."""
    listed = models or links
    texts = [f"{len(table.gpus)} GPUs and {len(table.nics)} NICs by nvidia-smi topo -m"]
    if listed and listed.gpus:
        texts.append(f"GPUs: {listed.gpus[0].model}")
    doubts = [*_unequal_links(table), *_contradictions(table), *_hidden(table, model)]
    doubts += [*_too_many(table, model), *_link_states(table, links), *_no_access(access)]
    return (
        *(Remark("found", text) for text in texts),
        *(Remark("suspicious", text, "warning") for text in doubts),
    )


def _sums(table: DeviceTable) -> dict[str, int]:
    """The number of NVLinks in the row of each GPU."""
    cells = {gpu: [table.cell(gpu, other) or "" for other in table.gpus if other != gpu] for gpu in table.gpus}
    return {gpu: sum(int(cell[2:]) for cell in row if cell.startswith("NV")) for gpu, row in cells.items()}


def _unequal_links(table: DeviceTable) -> Iterator[str]:
    """GPUs whose links are fewer than those of most."""
    sums = _sums(table)
    usual = max(set(sums.values()), key=list(sums.values()).count) if sums else 0
    for gpu, count in sums.items():
        if count < max(usual, 1) and usual:
            peers = max(len(table.gpus) - 1, 1)
            yield f"{gpu} has fewer NVLinks than most: {count} in its row, {usual} in theirs ({peers} peers)"


def _contradictions(table: DeviceTable) -> Iterator[str]:
    """Distances that do not go with the NUMA nodes of two GPUs."""
    for i, one in enumerate(table.gpus):
        for other in table.gpus[i + 1 :]:
            cell, a, b = table.cell(one, other), table.numa.get(one), table.numa.get(other)
            if a is None or b is None:
                continue
            if cell in ("SYS", "SOC") and a == b:
                yield f"{one} and {other} are at NUMA node {a}, and the table says {cell}: between NUMA nodes"
            elif cell in ("PIX", "PXB", "PHB", "NODE") and a != b:
                yield f"{one} is at NUMA node {a} and {other} at {b}, and the table says {cell}: within one node"


def _hidden(table: DeviceTable, model: GpuModel | None) -> Iterator[str]:
    """No NVLink where the model mostly has it."""
    if model and model.switched and len(table.gpus) > 1 and not any(_sums(table).values()):
        yield "no NVLink between GPUs that mostly have it: `topo -mp` hides it, and so do some virtual machines"


def _too_many(table: DeviceTable, model: GpuModel | None) -> Iterator[str]:
    """More links between two GPUs than one of the model has."""
    cells = [table.cell(one, other) or "" for one in table.gpus for other in table.gpus if one != other]
    most = max((int(cell[2:]) for cell in cells if cell.startswith("NV")), default=0)
    if model and most > model.links:
        yield f"NV{most} in the table, and such a GPU has {model.links} NVLinks: is it another model?"


def _link_states(table: DeviceTable, links: GpuList | None) -> Iterator[str]:
    """Links that are not active, slower than others, or not as many as in the table."""
    rates = [rate for gpu in links.gpus for _, rate in gpu.links if rate] if links else []
    most = max((gpu.active for gpu in links.gpus), default=0) if links else 0
    for gpu in links.gpus if links else ():
        name = f"GPU{gpu.index}"
        cells = [cell for other in table.gpus if other != name and (cell := table.cell(name, other) or "")]
        stated = {int(cell[2:]) for cell in cells if cell.startswith("NV")}
        if gpu.active < most:
            yield f"{name} has {gpu.active} active NVLinks, and others have {most}"
        if gpu.active not in ({*stated} | {_sums(table)[name]}):
            yield f"{name} has {gpu.active} active NVLinks by nvlink -s, NV{max(stated, default=0)} in the table"
        if any(rate and rate < max(rates) for _, rate in gpu.links):
            yield f"{name} has NVLinks that are slower than others"


def _no_access(access: DeviceTable | None) -> Iterator[str]:
    """Pairs that may not read each other's memory."""
    for i, one in enumerate(access.gpus if access else ()):
        for other in access.gpus[i + 1 :] if access else ():
            cell = access.cell(one, other) if access else None
            if cell not in (None, "OK"):
                yield f"{one} and {other} have no peer access ({cell}): their traffic passes through the host"
