"""Makes docs/data/ranges.csv and the table of README.md: for which sizes files are, and whether they lose there.

    PYTHONPATH=tests python tests/benchmarks/ranges.py

Each file is of the default command. It is read back and timed at the sizes of nccl-tests inside its range, beside
the library: by more than the band of the library's errors no file may be slower there. Rows that are there are
kept; to measure one again delete it.
"""

from __future__ import annotations

import csv
import io
import itertools
import json
import re
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from statistics import median

from benchmarks.generated_clusters import generated_clusters
from benchmarks.tables import markdown
from hetesynth.cli import main as command_line
from hetesynth.engine.predictors import CostOptions, contents_predictor
from hetesynth.engine.rival import SIZES as ASKED
from hetesynth.engine.rival import Rival
from hetesynth.engine.time_verdict import rival_at
from hetesynth.files.atomic import write_atomically
from hetesynth.model.collective import ROOTED, CollectiveName
from hetesynth.model.runtime_costs import NCCL_TABLES
from hetesynth.model.target import PORTABLE
from hetesynth.model.usable_links import usable
from hetesynth.topology.language import load_topology

ROOT = Path(__file__).resolve().parents[2]
TABLE = ROOT / "docs" / "data" / "ranges.csv"
OPTIONS = CostOptions(runtime=NCCL_TABLES)
EXAMPLES = (
    "fig10", "dgx1", "ring8", "v100_fail_one8", "h20_4p8", "v100_4p8_sharednic", "two_dc_50km", "a100_x2",
    "mi250_x1", "h20_8x2p4",
)  # fmt: skip
SEEDS = range(100, 112)
MEASURED = ("a100x4", "h200x7_of_8", "abci_v_2", "h100x8", "b200x8", "mi300x8", "a100x8_2", "h100x8_2")
COLLECTIVES: dict[CollectiveName, str] = {
    "allgather": "AllGather", "reducescatter": "ReduceScatter", "allreduce": "AllReduce", "broadcast": "Broadcast",
    "alltoall": "AllToAll",
}  # fmt: skip
SIZES = ("64KB", "1MB", "16MB", "1GB")
Row = dict[str, str]
COLUMNS = (
    "cluster", "gpus", "collective", "size", "program_us", "percent", "library", "library_us", "factor", "low",
    "high", "unchecked", "from", "to", "lost", "worst", "candidate", "seconds", "verdict",
)  # fmt: skip
_RANGE = re.compile(rb'minBytes="(\d+)" maxBytes="(\d+)"')


def files(folder: Path) -> dict[str, Path]:
    """The topology of each cluster by its name; generated ones are written into ``folder``."""
    named = {name: ROOT / "examples" / name / "topo.dsl" for name in EXAMPLES}
    for cluster in generated_clusters(SEEDS):
        named[cluster.name] = folder / f"{cluster.name}.dsl"
        named[cluster.name].write_text(cluster.text, encoding="utf-8")
    return named | {name: ROOT / "examples" / "measured" / f"{name}.dsl" for name in MEASURED}


def row(cluster: str, file: Path, collective: CollectiveName, size: str) -> Row:
    """One file: what ``synth --json`` says, and at how many sizes of its range it loses; ``worst``: the least
    factor over the library there, with the band's upper end."""
    said = io.StringIO()
    with tempfile.TemporaryDirectory() as folder:
        with redirect_stdout(said), redirect_stderr(io.StringIO()):
            asked = ["synth", str(file), "--coll", collective, "--size", size, "--json", "-o", f"{folder}/x"]
            code = command_line.run(asked)
        told = json.loads(said.getvalue())
        if code:
            return {
                "cluster": cluster,
                "collective": collective,
                "size": size,
                "verdict": told["error"]["message"],
            }
        program = Path(folder, "x.xml")
        data = program.read_bytes() if program.exists() else b""
    found = _RANGE.search(data)
    low, high = (int(found[1]), int(found[2])) if found else (1, 0)
    lost, worst = 0, float("inf")
    if found:
        topology, root = load_topology(file), 0 if collective in ROOTED else None
        predictor = contents_predictor(data, "x.xml", PORTABLE, usable(topology, (PORTABLE,)), OPTIONS)
        for n in (n for n in ASKED if low <= n <= high):
            rival = rival_at(topology, collective, root, n, OPTIONS)
            if predictor is None or not isinstance(rival, Rival):
                continue
            factor = rival.seconds * rival.high / predictor.timeline(n).makespan
            lost, worst = lost + (factor < 1), min(worst, factor)
    values = {
        "cluster": cluster, "gpus": told["ranks"], "collective": collective, "size": size,
        "program_us": told["program_us"], "percent": told["percent_of_limit"], "library": told["library"],
        "library_us": told["library_us"], "factor": told["factor_over_library"], "low": told["factor_low"],
        "high": told["factor_high"], "unchecked": told["library_unchecked"], "from": low if found else None,
        "to": high if found else None, "lost": lost, "worst": None if worst == float("inf") else worst,
        "candidate": told["choice"]["candidate"], "seconds": told["seconds"], "verdict": told["verdict"],
    }  # fmt: skip
    return {
        name: "" if v is None else f"{v:.4g}" if isinstance(v, float) else str(v) for name, v in values.items()
    }


def readme(rows: list[Row]) -> str:
    """The table of README.md: by collective and size the medians of the factor and of the share of the limit."""
    lines = []
    for name, title in COLLECTIVES.items():
        line = [title]
        for size in SIZES:
            some = [row for row in rows if (row["collective"], row["size"]) == (name, size)]
            factors, shares = ([float(row[c]) for row in some if row[c]] for c in ("factor", "percent"))
            line.append(f"{median(factors):.1f} x, {median(shares):.0f} %" if factors and shares else "-")
        lines.append(line)
    files_of_use, lost = sum(bool(row["from"]) for row in rows), sum(int(row["lost"] or 0) for row in rows)
    gpus = [int(row["gpus"]) for row in rows if row["gpus"]]
    text = TEXT.format(
        clusters=len({row["cluster"] for row in rows}), least=min(gpus), most=max(gpus), files=len(rows),
        of_use=files_of_use, lost=lost or "none",
    )  # fmt: skip
    return f"{text}\n{markdown(['', *SIZES], lines)}"


TEXT = """\
Default files (XML for RCCL, and for Azure's executor, which stands still) on {clusters} clusters of {least} to
{most} GPUs, mostly generated: medians of the estimated factor over NCCL's or RCCL's own formula, and share
of the proved limit. No published run of mixed servers checks that formula; below 64 MiB it is off by a quarter
and more ([reality](docs/reality.md)). {of_use} of {files} files are for some sizes; at {lost} of these they are
slower than the library by more than its band ([every file](docs/data/ranges.csv)).
"""
FIRST, LAST = "<!-- ranges: written by tests/benchmarks/ranges.py -->", "<!-- /ranges -->"


def publish(rows: list[Row]) -> None:
    """Write the table into README.md."""
    first, _, rest = (ROOT / "README.md").read_text(encoding="utf-8").partition(FIRST)
    last = rest.partition(LAST)[2]
    write_atomically(ROOT / "README.md", f"{first}{FIRST}\n{readme(rows)}\n{LAST}{last}".encode())


def rows_of(path: Path) -> list[Row]:
    """The rows of the table; none where there is no file."""
    if not path.exists():
        return []
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def main() -> None:
    """Measure what is missing of the table; a row is kept as soon as it is there."""
    rows = rows_of(TABLE)
    known = {(r["cluster"], r["collective"], r["size"]) for r in rows}
    with tempfile.TemporaryDirectory() as folder:
        cells = itertools.product(files(Path(folder)).items(), COLLECTIVES, SIZES)
        for (name, file), collective, size in cells:
            if (name, collective, size) in known:
                continue
            rows.append(row(name, file, collective, size))
            text = io.StringIO()
            lines = csv.DictWriter(text, COLUMNS, lineterminator="\n", restval="")
            lines.writeheader()
            lines.writerows(sorted(rows, key=lambda row: SIZES.index(row["size"])))
            write_atomically(TABLE, text.getvalue().encode())
            sys.stderr.write(f"{name} {collective}: {rows[-1]['verdict']}\n")
    publish(rows)


if __name__ == "__main__":
    main()
