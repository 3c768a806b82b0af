"""Small projects with a manifest, built by the command line, and what must hold of every folder and cache."""

from __future__ import annotations

import json
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

RING = """node ring{gpus} {{
  gpus {gpus}
  link gpu[0-{last}] <-> gpu[1-{last},0] {{ bandwidth {rate} GB/s; latency 2 us }}
}}

cluster {name} {{
  instance a = ring{gpus}
}}
"""
MANIFEST = """[defaults]
collectives = ["allgather", "broadcast"]
sizes = ["1KB..1MB", "1MB..64MB"]
targets = ["portable", "mscclpp"]

[[cluster]]
topology = "three.dsl"

[[cluster]]
topology = "four.dsl"
"""


ONE_CELL = MANIFEST.partition('[[cluster]]\ntopology = "four')[0]
ONE_CELL = ONE_CELL.replace(', "broadcast"', "").replace(', "mscclpp"', "")
ONE_CELL = ONE_CELL.replace('sizes = ["1KB..1MB", "1MB..64MB"]', "chunks = 1")


def write_project(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "three.dsl").write_text(RING.format(name="three", gpus=3, last=2, rate=25))
    (folder / "four.dsl").write_text(RING.format(name="four", gpus=4, last=3, rate=10))
    (folder / "hetesynth.toml").write_text(MANIFEST)
    return folder


def command(folder: Path, cache: Path, *options: str) -> list[str]:
    manifest = str(folder / "hetesynth.toml")
    return [sys.executable, "-m", "hetesynth", "build", manifest, "--cache", str(cache), "--jobs", "2", *options]


def run(folder: Path, cache: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(folder, cache, *options), capture_output=True, text=True, timeout=300, check=False
    )


def tree(folder: Path) -> dict[str, bytes]:
    """Every visible file; what begins with a dot is a temporary."""
    files = {}
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if path.is_file() and not any(part.startswith(".") for part in parts):
            files["/".join(parts)] = path.read_bytes()
    return files


def whole_entries(cache: Path) -> set[str]:
    """The entries of the cache, each with the digest that it begins with."""
    names = set()
    for path in cache.glob("*/*.cell"):
        data = path.read_bytes()
        assert data[:64].decode() == sha256(data[64:]).hexdigest(), path
        names.add(path.name)
    return names


def check_folders(output: Path) -> None:
    """Every folder with an index has exactly the files that it names, as it names them."""
    for path in output.rglob("index.json"):
        if any(part.startswith(".") for part in path.relative_to(output).parts):
            continue
        digests = json.loads(path.read_text())["files"]
        inside = {p.relative_to(path.parent).as_posix(): p for p in path.parent.rglob("*") if p.is_file()}
        assert digests.keys() <= inside.keys()
        for name, digest in digests.items():
            assert sha256(inside[name].read_bytes()).hexdigest() == digest, (path, name)
