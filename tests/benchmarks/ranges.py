"""Makes docs/data/ranges.csv and the table of README.md: for which sizes files are, and whether they lose there.

    PYTHONPATH=tests python tests/benchmarks/ranges.py [CLUSTERS [SIZE]]

Each file is read back and timed at the sizes of nccl-tests inside its range, beside the library: by more than the
band of the library's errors no file may be slower there. All but the last lines of a table that is there are kept.
"""

from __future__ import annotations

import csv
import io
import json
import re
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from statistics import median

from benchmarks.programs_page import COLLECTIVES, files, with_plans
from benchmarks.tables import markdown
from hetesynth.cli import main as command_line
from hetesynth.engine.predictors import CostOptions, buffer_size, contents_predictor
from hetesynth.engine.rival import SIZES, Rival
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
COLUMNS = (
    "cluster", "gpus", "collective", "size", "program_us", "percent", "library", "library_us", "factor", "low",
    "high", "unchecked", "from", "to", "lost", "worst", "seconds", "verdict",
)  # fmt: skip
_RANGE = re.compile(rb'minBytes="(\d+)" maxBytes="(\d+)"')


def row(cluster: str, file: Path, collective: CollectiveName, size: str) -> dict[str, str]:
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
        for n in (n for n in SIZES if low <= n <= high):
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
        "seconds": told["seconds"], "verdict": told["verdict"],
    }  # fmt: skip
    return {
        name: "" if v is None else f"{v:.4g}" if isinstance(v, float) else str(v) for name, v in values.items()
    }


def readme(rows: list[dict[str, str]]) -> str:
    """The table of README.md: by collective and size the medians of the factor and of the share of the limit."""
    sizes = list(dict.fromkeys(row["size"] for row in sorted(rows, key=lambda row: buffer_size(row["size"], ""))))
    lines = []
    for name, title in COLLECTIVES.items():
        line = [title]
        for size in sizes:
            some = [row for row in rows if (row["collective"], row["size"]) == (name, size)]
            factors, shares = ([float(row[c]) for row in some if row[c]] for c in ("factor", "percent"))
            line.append(f"{median(factors):.1f} x, {median(shares):.0f} %" if factors and shares else "-")
        lines.append(line)
    files_of_use, lost = sum(bool(row["from"]) for row in rows), sum(int(row["lost"] or 0) for row in rows)
    compared = sum(bool(row["factor"]) for row in rows)
    gpus = [int(row["gpus"]) for row in rows if row["gpus"]]
    text = TEXT.format(
        clusters=len({row["cluster"] for row in rows}), least=min(gpus), most=max(gpus), files=len(rows),
        compared=compared, of_use=files_of_use, lost=lost or "none",
    )  # fmt: skip
    return f"{text}\n{markdown(['', *sizes], lines)}"


TEXT = """\
Medians of {clusters} clusters of {least} to {most} GPUs, most of them generated: estimated factor over NCCL or
RCCL, and share of the proved limit. Of {files} files {of_use} are for some sizes, no slower than the library;
{lost} of these sizes are lost by more than the band of its errors ([every file](docs/data/ranges.csv)).
"""
FIRST, LAST = "<!-- ranges: written by tests/benchmarks/ranges.py -->", "<!-- /ranges -->"


def publish(rows: list[dict[str, str]]) -> None:
    """Write the table into README.md."""
    first, _, rest = (ROOT / "README.md").read_text(encoding="utf-8").partition(FIRST)
    last = rest.partition(LAST)[2]
    write_atomically(ROOT / "README.md", f"{first}{FIRST}\n{readme(rows)}\n{LAST}{last}".encode())


def main(arguments: list[str]) -> None:
    """Measure what is missing of the table; a row is kept as soon as it is there."""
    most, size = int(arguments[0]) if arguments else 30, arguments[1] if len(arguments) > 1 else "16MB"
    rows: list[dict[str, str]] = []
    if TABLE.exists():
        with TABLE.open(encoding="utf-8", newline="") as stream:
            rows = list(csv.DictReader(stream))
    known = {(r["cluster"], r["collective"], r["size"]) for r in rows}
    with tempfile.TemporaryDirectory() as folder:
        named = {name: file for name, file in files(Path(folder)).items() if name in with_plans()}
        for name, file in list(named.items())[:most]:
            for collective in COLLECTIVES:
                if (name, collective, size) in known:
                    continue
                rows.append(row(name, file, collective, size))  # type: ignore[arg-type]
                text = io.StringIO()
                lines = csv.DictWriter(text, COLUMNS, lineterminator="\n", restval="")
                lines.writeheader()
                lines.writerows(rows)
                write_atomically(TABLE, text.getvalue().encode())
                sys.stderr.write(f"{name} {collective}: {rows[-1]['verdict']}\n")
    publish(rows)


if __name__ == "__main__":
    main(sys.argv[1:])
