"""Circumstances that must not change what a cell comes to, and the cells that are tried in them.

In: cells in words (``cell_digests``), a circumstance. Out: the digest of each cell, made by a process of its own.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.generated_clusters import generated_cluster
from support.cell_digests import SCRIPT

ROOT = Path(__file__).parents[2]
TARGETS = ("rccl-6", "rccl-5", "msccl", "msccl-executor", "mscclpp", "portable")
COLLECTIVES = (
    "allgather", "reducescatter", "allreduce", "broadcast", "reduce", "alltoall", "gather", "scatter",
)  # fmt: skip
TAKE_GATHER = ("mscclpp", "portable", "rccl-6")
EXTENTS: tuple[Any, ...] = ([16_000_000, 1_000_000_000], [1000, 256_000], 1, [256_000, 16_000_000], 2)
OLD_PROCESSOR = {
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
    "OPENBLAS_CORETYPE": "Nehalem",
    "NUMBA_CPU_NAME": "generic",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX,-AVX512F",
}
"""An x86 processor without wide vectors and without fused products, as far as libraries can be told."""


@dataclass(frozen=True)
class Circumstance:
    """``shuffle``: the seed of the order in which one process makes the cells; None: as they come. ``alone``: each
    in a process of its own. ``busy``: processes beside it."""

    name: str
    environment: dict[str, str] = field(default_factory=dict)
    flags: tuple[str, ...] = ()
    before: tuple[str, ...] = ()
    folder: Path = ROOT
    shuffle: int | None = None
    alone: bool = False
    busy: int = 0

    def digests(self, cells: Sequence[list[Any]]) -> dict[str, str]:
        """By cell."""
        order = list(cells)
        if self.shuffle is not None:
            random.Random(self.shuffle).shuffle(order)
        others = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(self.busy)]
        try:
            groups = [[cell] for cell in order] if self.alone else [order]
            return {name: digest for group in groups for name, digest in self._made(group)}
        finally:
            for other in others:
                other.kill()
                other.wait()

    def _made(self, cells: list[list[Any]]) -> list[tuple[str, str]]:
        paths = os.pathsep.join((str(ROOT), str(ROOT / "tests")))
        environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": paths, **self.environment}
        command = [*self.before, sys.executable, *self.flags, str(SCRIPT)]
        process = subprocess.run(
            command, input=json.dumps(cells), text=True, capture_output=True, env=environment, cwd=self.folder
        )
        assert process.returncode == 0, process.stderr
        answers = [json.loads(line) for line in process.stdout.splitlines()]
        return [(json.dumps(answer["cell"]), answer["digest"]) for answer in answers]


def example(name: str) -> str:
    """The topology file of an example."""
    return str(ROOT / "examples" / name / "topo.dsl")


def generated(seed: int, folder: Path) -> str:
    """A topology file of a generated cluster."""
    path = folder / f"gen{seed:03d}.dsl"
    path.write_text(generated_cluster(seed).text)
    return str(path)


def drawn_cells(number: int, seed: int, clusters: Sequence[str]) -> list[list[Any]]:
    """Cells in which each pair of a collective and a target comes once before any comes twice."""
    rng = random.Random(seed)
    pairs = list(itertools.product(COLLECTIVES, TARGETS))
    rng.shuffle(pairs)
    cells = []
    for i in range(number):
        collective, target = pairs[i % len(pairs)]
        if collective in ("gather", "scatter") and target not in TAKE_GATHER:
            target = rng.choice(TAKE_GATHER)
        cells.append([rng.choice(clusters), collective, target, EXTENTS[i % len(EXTENTS)]])
    return [json.loads(text) for text in dict.fromkeys(json.dumps(cell) for cell in cells)]
