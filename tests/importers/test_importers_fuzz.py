"""Files at random, right and wrong: each is imported, or refused with a code; nothing else happens, and soon."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
from support.topology_files import mutated, pcie_only, random_edges, random_system, switched

from hetesynth.errors import HetesynthError
from hetesynth.topology.import_topology import ImportTopologyRequest, import_topology

MANY = 20_000  # of each sort in the slow test
FEW = 150


def nccl(random: Random) -> bytes:
    if random.random() < 0.5:
        return random_system(random)
    return mutated(random, random.choice([switched(), pcie_only()]))


def edges(random: Random) -> bytes:
    data = random_edges(random)
    return mutated(random, data) if random.random() < 0.2 else data


def fates(make: Callable[[Random], bytes], name: str, count: int, folder: Path) -> Counter[str]:
    """What became of ``count`` inputs: "imported" or the code of the refusal."""
    seen: Counter[str] = Counter()
    path = folder / name
    for seed in range(count):
        path.write_bytes(make(Random(seed)))
        try:
            imported = import_topology(ImportTopologyRequest((str(path),)))
            assert imported.topology.ranks > 0
            seen["imported"] += 1
        except HetesynthError as error:
            assert error.help, (seed, error.message)
            assert "bug" not in error.help, (seed, error.message)
            seen[error.code] += 1
    return seen


@pytest.mark.parametrize(("make", "name"), [(nccl, "a.xml"), (edges, "a.json")])
def test_every_input_is_imported_or_refused(make: Callable[[Random], bytes], name: str, tmp_path: Path) -> None:
    seen = fates(make, name, FEW, tmp_path)
    assert seen["imported"] > FEW // 20  # so that the writer is reached as well
    assert sum(seen.values()) - seen["imported"] > FEW // 20


@pytest.mark.slow
@pytest.mark.parametrize(("make", "name"), [(nccl, "a.xml"), (edges, "a.json")])
def test_many_inputs_are_imported_or_refused(make: Callable[[Random], bytes], name: str, tmp_path: Path) -> None:
    seen = fates(make, name, MANY, tmp_path)
    assert seen["imported"] > MANY // 20
