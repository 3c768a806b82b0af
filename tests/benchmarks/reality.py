"""Makes docs/reality.md and docs/data/reality.csv: published runs of nccl-tests and rccl-tests beside what
hetesynth/library expects.

The runs are in data/published_series.csv (what ran where, and its source) and data/published_runs.csv (bytes and
microseconds, out of place); the machines in examples/measured.
"""

from __future__ import annotations

import csv
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import product
from pathlib import Path
from statistics import median
from typing import get_args

from benchmarks.tables import csv_text, markdown
from hetesynth.engine.request import Request
from hetesynth.engine.synth import synthesize
from hetesynth.library.bands import ANY, CLASSES, Family, class_of, fabric_name, family_of
from hetesynth.library.machine import Machine, machine_of
from hetesynth.library.times import LibraryTime, chosen
from hetesynth.model.collective import CollectiveName
from hetesynth.model.runtime_costs import NCCL_TABLES
from hetesynth.topology.language import load_topology

ROOT = Path(__file__).resolve().parents[2]
DATA, MACHINES = Path(__file__).parent / "data", ROOT / "examples" / "measured"
KB, MB, GB = 1 << 10, 1 << 20, 1 << 30
LARGE, BAND = 64 * MB, 0.35
SIMULATED = 64  # GPUs
_RINGS_SET = "was told to use rings"
REASONS = {
    "stas_b200_1n_ar": "runs under PyTorch with the tuner of AWS",
    "stas_b200_8gpu_ar_ring": _RINGS_SET,
    "stas_h200_7gpu_ar_ring": _RINGS_SET,
    "dgx2_16n_ar": "NCCL 2.8; no cause was found, its larger size is 14 % slower than expected",
    "dgxh100_2x2_ar": "quicker than its tree should be; no cause was found",
    "aws_p4d_2n_ar": _RINGS_SET + ", by NCCL 2.9",
    "aws_p5_2n_ar_eks": "an older plug-in (aws-ofi-nccl 1.7) reaches half the rate up to 1 GiB and all but 5 %"
    " at 2 GiB; the later run on the same servers is as expected",
}
"""Why what a verdict prints of the library is further than 15 % off a run of 64 MiB or more."""
SMALL = """\
- `abci_A_allreduce_2n16` takes twice what is expected of four NICs of 200 Gbps; its neighbour on eight
  servers is an outlier that is left out. No cause was found.
- TCPXO: an AllReduce waits 0.6 ms from 16 MiB on, as `gcp_a3mega_2n_ar` does; a console log of what seems to be
  the same machine (left out, GPU not stated) takes 0.4 ms for 32 MiB.
- `stas_b200_1n_ar` runs under PyTorch with the tuner of AWS, takes 45 us below 1 MiB and gets faster at 8
  GiB.
- `polaris_1n_ar` and the H100 series of a fitting script start at 40 to 60 us, which other sites do not.
- Eight H100 or H200 take 64 KiB in 19, 31, 39 or 42 us by site; no model of the library tells them apart.
"""


@dataclass(frozen=True)
class Series:
    """One published run: sizes in bytes and seconds, on a machine of examples/measured."""

    name: str
    row: Mapping[str, str]
    points: tuple[tuple[int, float], ...]

    @property
    def machine(self) -> Machine:
        """Its machine with what only the run says."""
        machine = machine_named(self.row["machine"])
        if self.row["version"]:
            major, minor = map(int, self.row["version"].split("."))
            machine = replace(machine, version=(major, minor))
        return replace(machine, processes=self.row["processes"] != "one", ll128=self.row["ll128"] != "no")

    def expected(self, size: int) -> LibraryTime:
        """What the library would do; with the algorithm that the run was told to use."""
        collective, told = self.row["collective"], self.row["algorithm"] or None
        return chosen(self.machine, collective, size, told)  # type: ignore[arg-type]

    def printed_errors(self) -> dict[int, float]:
        """Expected over measured less one for sizes from 64 MiB on, as a verdict on its file prints it."""
        machine, collective = machine_named(self.row["machine"]), self.row["collective"]
        return {
            size: chosen(machine, collective, size).expected / seconds - 1  # type: ignore[arg-type]
            for size, seconds in self.points
            if size >= LARGE
        }

    def errors(self, least: int, below: int = 1 << 62) -> list[float]:
        """Expected over measured less one, for sizes from ``least`` to under ``below``."""
        return [
            self.expected(size).expected / seconds - 1 for size, seconds in self.points if least <= size < below
        ]

    @cached_property
    def simulated(self) -> float | None:
        """The same of our own program along the library's rings, trees or sends, simulated, for the largest size
        from 64 MiB to 1 GiB; none of NVLS, of clusters too large to be simulated quickly, and of chains, whose
        repetitions overlap in these tests."""
        file = MACHINES / f"{self.row['machine']}.dsl"
        name: CollectiveName = self.row["collective"]  # type: ignore[assignment]
        sizes = [size for size, _ in self.points if LARGE <= size <= GB and size.bit_count() == 1]
        if not sizes or load_topology(file).ranks > SIMULATED or name in ("broadcast", "reduce"):
            return None
        size, algorithm = sizes[-1], self.expected(sizes[-1]).algorithm
        if algorithm.startswith("NVLS"):
            return None
        strategy = "double-tree" if algorithm == "Tree" else "all-pairs" if name == "alltoall" else "ring"
        root = 0 if name in ("gather", "scatter") else None
        chosen_by = {"size": size, "root": root, "strategy": strategy, "single_root": True}
        request = Request(file, name, runtime=NCCL_TABLES, **chosen_by)  # type: ignore[arg-type]
        seconds = synthesize(request).program_seconds
        return None if seconds is None else seconds / dict(self.points)[size] - 1

    @property
    def large_error(self) -> float | None:
        """The median of the errors from 64 MiB on, without sign."""
        errors = self.errors(LARGE)
        return median(map(abs, errors)) if errors else None


@cache
def machine_named(name: str) -> Machine:
    """The machine of a file of examples/measured."""
    machine = machine_of(load_topology(MACHINES / f"{name}.dsl"))
    if machine is None:
        raise ValueError(f"{name} is not modelled")
    return machine


def stored_rows() -> list[dict[str, str]]:
    with (DATA / "published_series.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def stored_points() -> dict[str, list[tuple[int, float]]]:
    """Bytes and seconds by series."""
    points: dict[str, list[tuple[int, float]]] = defaultdict(list)
    with (DATA / "published_runs.csv").open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            points[row["series"]].append((int(row["bytes"]), float(row["microseconds"]) * 1e-6))
    return points


def all_series() -> list[Series]:
    """The series that are compared."""
    known = stored_points()
    rows = [row for row in stored_rows() if not row["left_out"]]
    return [Series(row["series"], row, tuple(known[row["series"]])) for row in rows]


# the page


def page(series: Sequence[Series]) -> str:
    """The whole page as Markdown."""
    head = ("GPUs", "joined", "fabric", "collectives", "points", *(sizes for _, sizes in CLASSES))
    return f"{_HEAD}\n{_summary(series)}\n\n{_HOW_TO_READ}\n{markdown(head, _kinds(series))}\n"


def _kinds(series: Sequence[Series]) -> list[tuple[str, ...]]:
    """A row for every kind and family: what it is, how many points, and the band of each class of sizes."""
    found, known = ratios(series), band_rows(series)
    rows = []
    for kind in sorted({row[:4] for row in known}):
        cells = [known.get((*kind, sizes)) for _, sizes in CLASSES]
        texts = (f"{cell[0]:.2f} to {cell[1]:.2f}" if cell else "-" for cell in cells)
        points = "" if kind[0] == ANY else str(sum(len(found.get((*kind, sizes), ())) for _, sizes in CLASSES))
        rows.append((*kind, points, *texts))
    return rows


_HEAD = """\
# Published runs beside what is expected

How far off are predicted times? hetesynth works out from the sources of NCCL and RCCL (`hetesynth/library`) what
they do on a cluster: rings, trees, NVLS, channels, protocols, and which of them their tables choose. Here that is
compared with runs of nccl-tests and rccl-tests that others published. `PYTHONPATH=tests python
tests/benchmarks/reality.py` makes this page.
"""
_HOW_TO_READ = """\
Not modelled: CollNet and SHARP, tuner plug-ins, registered buffers, incomplete meshes, an oversubscribed network.
Factors that are no constants of the libraries but of such runs are in `hetesynth/library/facts.py` and
`machine.py`.

## Bands

From which to which share of the expected time published runs take. A kind of machine is the generation of its
GPUs, what joins them, and the fabric between nodes: errors differ most by these, and by whether a collective
runs along rings (trees, NVLS), chains (Broadcast, Reduce) or as sends (AllToAll, Gather, Scatter). A band spans
all points of a kind from 1 KiB on; where these are of fewer than three series, also all points of the class but
a fortieth at either end. What has no row gets that of `any` and is called unchecked: other models of GPUs, mixed
servers, shared limits, slow parts.

Every series is a row of [data/reality.csv](data/reality.csv), with measured and expected times in us, algorithm,
channels and protocol, and its source; runs that are left out, and why, are in tests/benchmarks/data.
"""
COLUMNS = (
    "series", "machine", "collective", "library", "us_64KiB", "expected_64KiB", "us_16MiB", "expected_16MiB",
    "us_1GiB", "expected_1GiB", "largest", "us_largest", "expected_largest", "error", "simulated", "source",
)  # fmt: skip


def _summary(series: Sequence[Series]) -> str:
    large = {one.name: error for one in series if (error := one.large_error) is not None}
    printed = {one.name: one.printed_errors() for one in series}
    far = {name: {n: abs(e) for n, e in of.items() if abs(e) > 0.15} for name, of in printed.items()}
    count, outside = (sum(map(len, of.values())) for of in (printed, far))
    middle = [abs(error) for one in series for error in one.errors(MB + 1, LARGE)]
    small = [abs(error) for one in series for error in one.errors(32 * KB, MB + 1)]
    lines = [
        f"{len(series)} series, {sum(len(one.points) for one in series)} points.",
        "",
        f"- From 64 MiB on: {len(large)} series, median error {_percent(median(large.values()))}.",
        f"- Between 1 and 64 MiB: median error of {len(middle)} points {_percent(median(middle))}.",
        f"- From 32 KiB to 1 MiB: {_percent(sum(e <= BAND for e in small) / len(small))} of {len(small)} points"
        f" are in the band of {_percent(BAND)} either way.",
    ]
    for sizes, (own, kinds, every) in held_out(series).items():
        lines.append(
            f"- Bands ({sizes}): {_percent(own / every)} of {every} points are in the band that other series give,"
            f" {_percent(kinds / every)} in what other kinds give."
        )
    simulated = [abs(one.simulated) for one in series if one.simulated is not None]
    lines.append(
        f"- Our own programs along rings, trees or sends (`--strategy`, that of the library), simulated,"
        f" at the largest size from 64 MiB to 1 GiB: {len(simulated)} series, median error"
        f" {_percent(median(simulated))};"
        f" {sum(error <= 0.15 for error in simulated)} of {len(simulated)} within 15 %."
    )
    lines.append(
        f"- What a verdict prints is within 15 % of {count - outside} of {count} points from 64 MiB on. Not:"
    )
    for name, of in far.items():
        if of:
            sizes = " to ".join(dict.fromkeys(map(_size, (min(of), max(of)))))
            lines.append(f"  - `{name}` ({sizes}, up to {_percent(max(of.values()))}): {REASONS.get(name, '?')}.")
    return "\n".join([*lines, "", "Smaller sizes that are further off:", "", SMALL.rstrip()])


def table(series: Sequence[Series]) -> str:
    """CSV: a line for every series."""
    rows = []
    for one in series:
        known = dict(one.points)
        told = f", {one.row['algorithm']} set" if one.row["algorithm"] else ""
        cells = [one.name, one.row["machine"], one.row["collective"], one.row["library"] + told]
        for size in (64 * KB, 16 * MB, GB):
            cells += _cells(one, size, known.get(size))
        last = max(known)
        cells += [_size(last), *_cells(one, last, known[last])]
        cells.append("" if one.large_error is None else _percent(one.large_error))
        cells.append("" if one.simulated is None else _percent(abs(one.simulated)))
        rows.append([*cells, one.row["source"]])
    return csv_text(COLUMNS, rows)


def _cells(series: Series, size: int, seconds: float | None) -> list[str]:
    """What was measured and what is expected; nothing where nothing was measured."""
    if seconds is None:
        return ["", ""]
    time = series.expected(size)
    low, high = (time.expected * (1 - BAND), time.expected * (1 + BAND))
    text = f"{_us(low)} to {_us(high)}" if size <= MB else _us(time.expected)
    return [_us(seconds), f"{text}: {time.label}"]


def _size(size: int) -> str:
    """``64 KiB``: the sizes of these tests are powers of two."""
    unit, name = next(((u, n) for u, n in ((GB, "GiB"), (MB, "MiB"), (KB, "KiB")) if size >= u), (1, "B"))
    return f"{size / unit:g} {name}"


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:,.0f}" if seconds >= 1e-4 else f"{seconds * 1e6:.1f}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if share < 0.1 else f"{100 * share:.0f} %"


# bands

FEWEST = 3
"""Series of a kind from which on its band is the span of its points; with fewer, that of all machines is added."""
Row = tuple[str, str, str, str, str]
Ratio = tuple[str, str, float]


def ratios(series: Sequence[Series]) -> dict[Row, list[Ratio]]:
    """Series, model of the GPUs, and measured over expected time, of each kind and of all."""
    found: dict[Row, list[Ratio]] = defaultdict(list)
    for one in series:
        machine, family = one.machine, family_of(one.row["collective"])  # type: ignore[arg-type]
        node = machine.nodes[0]
        for size, seconds in one.points:
            if size < KB:
                continue
            ratio = one.name, machine.model, seconds / one.expected(size).expected
            kind = node.generation.name, node.joined, fabric_name(machine)
            for row in ((*kind, family, class_of(size)), (ANY, "", "", family, class_of(size))):
                found[row].append(ratio)
    return found


def of_all(row: Row) -> Row:
    """The row of all machines with its family and class of sizes."""
    return ANY, "", "", row[3], row[4]


def band(own: Sequence[Ratio], every: Sequence[Ratio]) -> tuple[float, float]:
    """From which to which share of the expected time runs take: the span of ``own`` points, and where these are of
    few series, of all but a fortieth of ``every`` point at either end. What is expected is always inside."""
    ordered = sorted(ratio for *_, ratio in every)
    beyond = len(ordered) // 40
    values = [1.0, *(ratio for *_, ratio in own)]
    if len({name for name, *_ in own}) < FEWEST:
        values += ordered[beyond : len(ordered) - beyond]
    return min(values), max(values)


def band_rows(series: Sequence[Series]) -> dict[Row, tuple[float, float]]:
    """The bands of every kind, and of all machines for every family and class of sizes; where there are few runs
    of that, with the points of the whole family and of rings."""
    found = ratios(series)
    for family, (_, sizes) in product(get_args(Family), CLASSES):
        pooled = (ANY, "", "", family, sizes)
        if len(found[pooled]) < 20:  # too few for a band: with those of rings and of other sizes
            others = [row for row in found if row[0] == ANY and (row[3] == family or row[3:] == ("rings", sizes))]
            found[pooled] = [ratio for row in others for ratio in found[row]]
    return {row: band([] if row[0] == ANY else some, found[of_all(row)]) for row, some in sorted(found.items())}


def bands(series: Sequence[Series]) -> str:
    """CSV: a line for every band."""
    found, rows = ratios(series), []
    for row, (low, high) in band_rows(series).items():
        some = found[row]
        models = "" if row[0] == ANY else " ".join(sorted({model for _, model, _ in some}))
        points = "" if row[0] == ANY else str(len(some))
        rows.append([*row, models, points, f"{low:.3f}", f"{high:.3f}"])
    return csv_text(("generation", "joined", "fabric", "family", "sizes", "models", "points", "low", "high"), rows)


def held_out(series: Sequence[Series]) -> dict[str, tuple[int, int, int]]:
    """Of each class of sizes: points in the band that all other series give, points in that of `any` from other
    kinds, and all points."""
    found, counts = ratios(series), {sizes: [0, 0, 0] for _, sizes in CLASSES}
    for row, some in found.items():
        if row[0] == ANY:
            continue
        names = {name for name, *_ in some}
        low, high = band([], [r for r in found[of_all(row)] if r[0] not in names])
        counts[row[4]][1] += sum(low <= ratio <= high for *_, ratio in some)
        for name, _, ratio in some:
            own, every = ([r for r in found[kind] if r[0] != name] for kind in (row, of_all(row)))
            low, high = band(own, every)
            counts[row[4]][0] += low <= ratio <= high
            counts[row[4]][2] += 1
    return {sizes: (own, kinds, every) for sizes, (own, kinds, every) in counts.items()}


def main() -> int:
    """Write the page, its table and the bands."""
    series = all_series()
    (ROOT / "hetesynth" / "library" / "bands.csv").write_text(bands(series), encoding="utf-8")
    (ROOT / "docs" / "reality.md").write_text(page(series), encoding="utf-8")
    (ROOT / "docs" / "data" / "reality.csv").write_text(table(series), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
