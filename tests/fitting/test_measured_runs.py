"""Published runs of benchmarks on machines of the library give no figure that their links cannot have."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from hetesynth.errors import HetesynthError
from hetesynth.topology.calibrate.calibrate_topology import CalibrationRequest, calibrate
from hetesynth.topology.calibrate.update import link_classes
from hetesynth.topology.language import load_topology

ROOT = Path(__file__).resolve().parents[2]
RUNS = Path(os.environ.get("HETESYNTH_CONFORMANCE", ROOT.parent / "shared" / "data")) / "measured/measured.jsonl"
# how a run's id begins: library file, node type
TYPES = {
    "aml_ndmA100": ("a100", "a100x8"), "a100_sxm80_1n": ("a100", "a100x8"), "aws_p4de": ("a100", "a100x8"),
    "gcp_a4_b200": ("b200", "b200x8"), "stas_b200_1n": ("b200", "b200x8"), "h100_1n": ("h100", "h100x8"),
    "h100_ring": ("h100", "h100x8"), "oci_h100_2n": ("h100", "h100x8"), "aws_p5": ("h100", "h100x8"),
    "gcp_a3mega": ("h100", "h100x8"), "mscclpp_perf_ndmv5": ("h100", "h100x8"), "h200_2n": ("h200", "h200x8"),
    "azure_ND_H200": ("h200", "h200x8"), "gdr116_v100": ("v100", "v100x4"), "abci_V": ("v100", "v100x4"),
    "p3dn": ("dgx1", "dgx1"), "mi250x": ("mi250", "mi250x16"), "oci_mi300x": ("mi300x", "mi300x8"),
    "mi325x": ("mi300x", "mi300x8"),
}  # fmt: skip
REFUSED = {"HS825", "HS826", "HS845"}


@pytest.mark.slow
@pytest.mark.skipif(not RUNS.is_file(), reason="the published runs are not here")
def test_published_runs_give_figures_that_the_links_can_have(tmp_path: Path) -> None:
    path, table = tmp_path / "c.dsl", tmp_path / "m.csv"
    written = refused = 0
    for run in map(json.loads, RUNS.read_text().splitlines()):
        machine, points = run["machine"], [p for p in run["points"] if p[1]]
        fits = next((named for start, named in TYPES.items() if run["id"].startswith(start)), None)
        servers, ranks = machine["nodes"], machine["nodes"] * machine["gpus_per_node"]
        if fits is None or len(points) < 2 or ranks > 64:
            continue
        fabric = "; fabric f { join *.nic* }" if servers > 1 else ""
        path.write_text(f"import {fits[0]}\ncluster c {{ instance a[0-{servers - 1}] = {fits[1]}{fabric} }}\n")
        table.write_text("size,us\n" + "".join(f"{p[0]},{p[1]}\n" for p in points))
        classes = link_classes(load_topology(path))
        links = next(c for c in classes if (c.kind == "net") == (servers > 1))
        request = CalibrationRequest(path, (table,), links.title, operation=run["collective"], ranks=ranks)
        try:
            figures = calibrate(request).figures
        except HetesynthError as error:
            assert error.code in REFUSED, (run["id"], error)
            refused += 1
            continue
        written += figures.rate is not None
        assert figures.rate is None or figures.rate <= float(links.rate), run["id"]
        assert figures.alpha is None or 1e-8 <= figures.alpha <= 200e-6, run["id"]
    assert written >= 6 and refused >= 4
