"""The language as data, in a checkout and in a wheel; the frontend is cheap to import; the examples all load."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from hetesynth.topology.language import library, parse_topology

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted(path.parent.name for path in (ROOT / "examples").glob("*/topo.dsl"))


def test_the_tiers_of_the_reference_are_true() -> None:
    """Half of what the NICs of a leaf carry goes up; a path up costs both leaves and the spine."""
    reference = (ROOT / "dsl" / "reference.md").read_text()
    section = reference.split("### 2.7")[1].split("### 2.8")[0]
    text = "\n".join(line[4:] for line in section.splitlines() if line.startswith("    "))
    topology = parse_topology(text)
    assert topology.ranks == 32
    inside, across = (next(k for k in topology.links if (k.src, k.dst) == (0, far)) for far in (8, 31))
    uplinks = [w for w, wire in enumerate(topology.wires) if wire.kind == "uplink"]
    assert not set(uplinks) & set(inside.wires)
    assert [topology.wire_name(w) for w in across.wires if w in uplinks] == ["leaf0->spine", "spine->leaf1"]
    carried = {w for k in topology.links if (k.src < 16) != (k.dst < 16) for w in k.wires if w in uplinks}
    assert carried == set(uplinks) and len(uplinks) == 4
    nics = [wire for w, wire in enumerate(topology.wires) if topology.wire_name(w).endswith("->leaf0")]
    into = [wire.bandwidth for wire in nics if wire.kind == "net" and wire.bandwidth is not None]
    assert topology.wires[uplinks[0]].bandwidth == sum(into, start=0 * into[0]) / 2
    assert (across.latency - inside.latency) * 10**7 == 13  # 0.6 + 0.7 us more
    alone = text.replace("leaf0, leaf1;", "leaf0;").replace(
        "}\n}", "}\n  link leaf1 <-> spine { bandwidth 100 GB/s }\n}"
    )
    assert parse_topology(alone).ranks == 32
    direct = text.replace("switch spine { ports leaf0, leaf1;", "link leaf0 <-> leaf1 {")
    assert parse_topology(direct).ranks == 32


@pytest.mark.slow
def test_a_wheel_carries_the_language(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "-q", "-w", str(tmp_path), str(ROOT)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if built.returncode != 0:
        pytest.skip(f"no wheel can be built here: {built.stderr[-200:]}")
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        assert "hetesynth/py.typed" in names  # PEP 561: the annotations are for users too
        assert {f"hetesynth/_dsl/library/{name}.dsl" for name in library.library_names()} <= names
        assert {f"hetesynth/_examples/{name}/topo.dsl" for name in EXAMPLES} <= names
        archive.extractall(tmp_path / "site")
    code = (
        f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r})\n"
        "from hetesynth.topology.language import library, load_topology\n"
        f"assert str(library.dsl_directory()).startswith({str(tmp_path)!r}), library.dsl_directory()\n"
        f"assert load_topology({str(ROOT / 'examples' / 'h20_4p8' / 'topo.dsl')!r}).ranks == 12\n"
        "from hetesynth.cli.main import run\n"
        "assert run(['topo', 'library']) == run(['init', 'first', '--node-type', 'mi300x8']) == 0\n"
        "assert load_topology('first/topo.dsl').ranks == 16\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert run.returncode == 0, run.stderr
