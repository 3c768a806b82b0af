"""What a process made before decides nothing: the same cell twice is the same bytes."""

from __future__ import annotations

from pathlib import Path

from hetesynth.deploy.compute import compute
from hetesynth.deploy.job import job, pickled
from hetesynth.deploy.manifest.values import Cell, CellOptions
from hetesynth.model.size_range import SizeRange
from hetesynth.topology.language import load_topology

CLUSTER = """node two {
  gpus 2
  reduce 200 GB/s
  link gpu0 <-> gpu1 { bandwidth 40 GB/s; latency 1 us }
  nic nic0 { bandwidth 100 Gbps }
  attach gpu* -> nic0
}
node three {
  gpus 3
  reduce 200 GB/s
  link gpu[0-2] <-> gpu[1-2,0] { bandwidth 50 GB/s; latency 1 us }
  nic nic0 { bandwidth 100 Gbps }
  attach gpu* -> nic0
}
cluster odd {
  instance a = two
  instance b = three
  fabric eth { join *.nic*; latency 2 us }
}
"""


def test_a_cell_that_was_made_before_comes_out_the_same(tmp_path: Path) -> None:
    """A report simulates NCCL's rings, against which a gather is not held while it is chosen."""
    path = tmp_path / "odd.dsl"
    path.write_text(CLUSTER)
    sizes = SizeRange(1_000_000, None, "1MB..")
    cell = Cell("odd", "gather", sizes, "rccl-5", CellOptions(root=1, single_root=True))
    asked = job(cell, *pickled(load_topology(path)))
    first, second = compute(asked), compute(asked)
    assert first.record["candidate"] == second.record["candidate"]
    assert first.packed() == second.packed()
