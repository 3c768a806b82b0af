"""Circumstances that must not change what a cell comes to, and the cells that are tried in them.

In: cells in words (``cell_digests``), a circumstance. Out: the digest of each cell, made by a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.generated_clusters import generated_cluster
from support.cell_digests import SCRIPT

ROOT = Path(__file__).parents[2]
OLD_PROCESSOR = {
    "NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR",
    "OPENBLAS_CORETYPE": "Nehalem",
    "NUMBA_CPU_NAME": "generic",
    "GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4,-AVX,-AVX512F",
}
"""An x86 processor without wide vectors and without fused products, as far as libraries can be told."""


def digests(
    cells: Sequence[list[Any]], environment: dict[str, str], flags: Sequence[str] = (), folder: Path = ROOT
) -> dict[str, str]:
    """By cell, made by one process in ``environment``."""
    paths = os.pathsep.join((str(ROOT), str(ROOT / "tests")))
    process = subprocess.run(
        [sys.executable, *flags, str(SCRIPT)],
        input=json.dumps(cells),
        text=True,
        capture_output=True,
        env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": paths, **environment},
        cwd=folder,
    )
    assert process.returncode == 0, process.stderr
    answers = [json.loads(line) for line in process.stdout.splitlines()]
    return {json.dumps(answer["cell"]): answer["digest"] for answer in answers}


def example(name: str) -> str:
    """The topology file of an example."""
    return str(ROOT / "examples" / name / "topo.dsl")


def generated(seed: int, folder: Path) -> str:
    """A topology file of a generated cluster."""
    path = folder / f"gen{seed:03d}.dsl"
    path.write_text(generated_cluster(seed).text)
    return str(path)
