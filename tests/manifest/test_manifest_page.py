"""docs/manifest.md: its example is read as it says, and every key has its meaning there."""

from __future__ import annotations

import re
from pathlib import Path

from hetesynth.deploy.manifest.keys import CLUSTER, GATES, MANIFEST, OUTPUT, SETTINGS
from hetesynth.deploy.manifest.reader import read_manifest

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "manifest.md").read_text()
RING = (Path(__file__).resolve().parent / "wrong" / "ring.dsl").read_text()


def test_the_example_is_read_as_the_page_says(tmp_path: Path) -> None:
    (example,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "clusters" / "lab").mkdir(parents=True)
    for name in ("prod.dsl", "lab/topo.dsl"):
        (tmp_path / "clusters" / name).write_text(RING)
    (tmp_path / "hetesynth.toml").write_text(example)
    manifest = read_manifest(tmp_path / "hetesynth.toml")
    count = {
        name: sum(cell.cluster == name for cell in manifest.cells) for name in ("prod", "prod-degraded", "lab")
    }
    assert count == {"prod": 11, "prod-degraded": 11, "lab": 1} and len(manifest.cells) == 23
    (big,) = [cell for cell in manifest.cells if cell.name == "prod/rccl-6/allreduce/16MB.."]
    assert f"algorithms/{big.stem}.xml" in PAGE and f"`{big.stem}.inplace.xml`" in PAGE
    assert (big.options.effort, big.gates.percent_of_limit, big.gates.factor_over_library) == (4, 60, 1)
    assert {cell.gates.percent_of_limit for cell in manifest.cells if cell.cluster == "prod-degraded"} == {40}


def test_every_key_is_on_the_page() -> None:
    tables = [table["properties"] for table in (MANIFEST, OUTPUT, CLUSTER, GATES)]
    names = {name for table in (*tables, SETTINGS) for name in table}
    assert [name for name in sorted(names) if not re.search(rf"`[\[]*{name}[\]]*`", PAGE)] == []
