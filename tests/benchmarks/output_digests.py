"""Which bytes a list of commands writes: run it before and after a change that must not change any.

    python tests/benchmarks/output_digests.py > before.json
    python tests/benchmarks/output_digests.py --against before.json

Every command runs in an empty folder of its own; what is digested is each file it leaves there and its exit code.
``--times N`` runs each several times with other hash seeds, which must not matter either.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COLLECTIVES = ("allgather", "reducescatter", "allreduce", "broadcast", "reduce", "gather", "scatter", "alltoall")
STEP_STRATEGIES = (
    "greedy", "tree-packing", "cegis", "monolithic", "ring", "double-tree", "server-rings", "sph",
    "hierarchical",
)  # fmt: skip
SIZED_STRATEGIES = (
    ("timed", "allgather"),
    ("timed-trees", "allreduce"),
    ("negotiated", "allgather"),
    ("exchange", "alltoall"),
)
BUDGET = "600"  # seconds: never what ends a search here
XML_TARGETS = "rccl-6,msccl-executor,msccl,mscclpp"


def commands() -> Iterator[str]:
    """The commands, one a line, with CLUSTER/ for a folder of examples."""
    for name in COLLECTIVES:
        yield f"synth h20_4p8/ --coll {name} -o out"
    for strategy in STEP_STRATEGIES:
        yield f"synth fig10/ --coll allgather --strategy {strategy} -o out"
    yield "synth fig10/ --coll alltoall --strategy direct -o out"
    yield "synth h20_4x3/ --coll allgather --strategy all-pairs -o out"
    yield "synth h20_16/ --coll allgather --strategy doubling -o out"
    yield "synth dgx1/ --coll allreduce --chunks 2 -o out"
    yield "synth v100_4p8/ --coll reducescatter --chunks 2 -o out"
    yield "synth v100_4p8_sharednic/ --coll allgather -o out"
    yield "synth v100_fail_one8/ --coll alltoall -o out"
    yield "synth h20_64/ --coll allgather --strategy greedy -o out"
    for name in ("allgather", "allreduce", "broadcast"):
        yield f"synth a100_x2/ --coll {name} --single-root --target {XML_TARGETS} -o out"
    for strategy, name in SIZED_STRATEGIES:
        yield f"synth fig10/ --coll {name} --size 64MB --strategy {strategy} -o out"
    yield "synth ring8/ --coll allreduce --size 1KB -o out"
    yield "synth h20_4x3/ --coll allgather --size 256MB -o out"
    yield "synth h20_4x3/ --coll alltoall --size 1MB -o out"
    yield "atlas ring8/ --coll allgather --sizes 1KB,64MB -o out"
    yield "synth h20_4p8/ --coll allgather -o out --report page.svg --trace trace.json"


def arguments(command: str) -> list[str]:
    """``command`` as the arguments of hetesynth: example folders in full and a budget that does not bind."""
    words = [
        str(ROOT / "examples" / word[:-1] / "topo.dsl") if word.endswith("/") else word for word in command.split()
    ]
    return [*words, "--time-budget", BUDGET]


def digest(command: str, seed: int) -> dict[str, str]:
    """The exit code and the SHA-256 of every file that ``command`` writes."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-m", "hetesynth", *arguments(command)], cwd=folder, env=environment,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            sys.stderr.write(done.stderr)
        files = sorted(p for p in Path(folder).rglob("*") if p.is_file())
        found = {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}
        return {"exit": str(done.returncode), **found}


def main() -> int:
    """Exit code 1 where bytes differ from those of ``--against``, or between two runs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--against", type=Path)
    parser.add_argument("--times", type=int, default=1)
    parser.add_argument("--only", default="", help="commands that contain this text")
    given = parser.parse_args()
    before = json.loads(given.against.read_text()) if given.against else {}
    result: dict[str, dict[str, str]] = {}
    differing = 0
    for command in (c for c in commands() if given.only in c):
        runs = [digest(command, seed) for seed in range(1, given.times + 1)]
        result[command] = runs[0]
        same = all(run == before.get(command, runs[0]) for run in runs)
        differing += not same
        sys.stderr.write(f"{'same' if same else 'DIFFERENT'}: {command}\n")
    sys.stdout.write(json.dumps(result, indent=2) + "\n")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
