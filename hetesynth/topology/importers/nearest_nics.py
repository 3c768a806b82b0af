"""Which GPUs use which NIC, by the distances in a table: the nearest, spread evenly in their order.

NICs that are nearest to no GPU (for management, for storage) are left out, and that is remarked.
"""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

from hetesynth.topology.importers.machine import Nic, Remark
from hetesynth.topology.importers.nvidia_smi_table import DISTANCES, DeviceTable


def nearest_nics(
    table: DeviceTable, rate: Fraction | None, otherwise: Fraction | None = None
) -> tuple[tuple[Nic, ...], tuple[Remark, ...]]:  # fmt: skip
    """The NICs in use with the GPUs next to them, and remarks on those left out."""
    if not table.nics:
        return one_nic_a_gpu(len(table.gpus), rate, otherwise)
    sharers: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for index, gpu in enumerate(table.gpus):
        sharers[_nearest(table, gpu)].append(index)
    users: dict[str, list[int]] = defaultdict(list)
    for nics, gpus in sharers.items():
        for nic, index in _spread(nics, gpus):
            users[nic].append(index)
    used = [nic for nic in table.nics if users[nic]]
    idle = [_name(table, nic) for nic in table.nics if not users[nic]]
    remarks = []
    if idle:
        remarks.append(Remark("assumed", f"NICs that are nearest to no GPU are left out: {', '.join(idle)}"))
    if used and any(_distance(table, table.gpus[users[nic][0]], nic) >= DISTANCES.index("NODE") for nic in used):
        remarks.append(
            Remark("assumed", "the table does not tell which NIC is near a GPU: they are shared in order")
        )
    return tuple(Nic(_name(table, nic), rate, gpus=tuple(sorted(users[nic]))) for nic in used), tuple(remarks)


def one_nic_a_gpu(
    gpus: int, rate: Fraction | None, otherwise: Fraction | None = None
) -> tuple[tuple[Nic, ...], tuple[Remark, ...]]:  # fmt: skip
    """What stands for NICs that a tool does not name: none, or one a GPU where their rate is stated."""
    if rate is None and otherwise is None:
        return (), (Remark("assumed", "no NICs: the tool names none; --nic-rate adds one a GPU"),)
    nics = tuple(Nic(f"nic{gpu}", rate, gpus=(gpu,)) for gpu in range(gpus))
    return nics, (Remark("assumed", "one NIC a GPU: the tool names none"),)


def _name(table: DeviceTable, nic: str) -> str:
    return table.nic_names.get(nic, nic)


def _distance(table: DeviceTable, gpu: str, nic: str) -> int:
    """How far a NIC is, as a place in DISTANCES; SOC is what SYS was called before."""
    cell = table.cell(gpu, nic)
    return DISTANCES.index(cell) if cell in DISTANCES else len(DISTANCES) - 1


def _nearest(table: DeviceTable, gpu: str) -> tuple[str, ...]:
    """The NICs with the least distance to a GPU."""
    distances = {nic: _distance(table, gpu, nic) for nic in table.nics}
    return tuple(nic for nic, distance in distances.items() if distance == min(distances.values()))


def _spread(nics: tuple[str, ...], gpus: list[int]) -> list[tuple[str, int]]:
    """Pairs in which each NIC and each GPU stands, as evenly as they go."""
    if not nics:
        return []
    most = max(len(nics), len(gpus))
    return [(nics[i * len(nics) // most], gpus[i * len(gpus) // most]) for i in range(most)]
