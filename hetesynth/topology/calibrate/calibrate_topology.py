"""The work of ``hetesynth topo calibrate``: measurements and a topology to figures, and the topology with them."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from hetesynth.errors import HetesynthError
from hetesynth.model.diagnostics import visible
from hetesynth.model.runtime_costs import NCCL_TABLES
from hetesynth.model.topology import Topology
from hetesynth.topology.calibrate.fit import ROBUST_SCALE, Algorithm, Figure, Fit, Observation, coefficients, fit
from hetesynth.topology.calibrate.readers import PAIRWISE, Operation, Series, read_file
from hetesynth.topology.calibrate.update import Figures, LinkClass, named_class, rounded, updated
from hetesynth.topology.language import load_topology
from hetesynth.topology.language.source import line_end_of, read_source
from hetesynth.topology.lint.limits import NVLINK_KINDS, limits_of
from hetesynth.topology.lint.rates import NETWORK, NVLINK

_MOST_ERROR = 0.25  # a figure whose 95 % interval is wider to either side is not written
_LIMITING = 0.98  # a rate that reaches this share of the stated one is the links', not that of thread blocks


@dataclass(frozen=True, slots=True)
class CalibrationRequest:
    """The topology, the measurements and the options of a calibration."""

    topology: Path
    measurements: tuple[Path, ...]
    link_class: str | None = None
    operation: Operation | None = None
    algorithm: Algorithm | None = None
    ranks: int | None = None
    channels: int | None = None  # of the measured program, whose thread blocks may have been what limited it
    sizes: tuple[float, float] | None = None  # bytes, least and most
    start: float | None = None  # seconds before a collective moves anything; None: by the tables of the GPU
    hold_out: int | None = None  # every so manieth size is kept from the fit and predicted instead


@dataclass(frozen=True, slots=True)
class Compared:
    """A measured point beside what the fit says; ``used``: it was fitted, not predicted."""

    series: str
    size: float
    measured: float
    predicted: float
    used: bool

    @property
    def off(self) -> float:
        """The quotient of measured over predicted seconds, less 1."""
        return self.measured / self.predicted - 1


@dataclass(frozen=True, slots=True)
class Calibrated:
    """``figures`` are those that are written, ``copy`` is a thread block's rate, ``text`` the new topology."""

    topology: Topology
    links: LinkClass
    fit: Fit
    copy: Figure | None
    points: tuple[Compared, ...]
    remarks: tuple[str, ...]
    text: str
    figures: Figures
    series: tuple[Series, ...]

    def mean_off(self, *, used: bool) -> float | None:
        """Return the mean absolute ``off`` of the fitted points, or of the others; None without points."""
        shares = [abs(point.off) for point in self.points if point.used == used]
        return sum(shares) / len(shares) if shares else None


def calibrate(request: CalibrationRequest) -> Calibrated:
    """Return the figures of ``request.link_class``; HetesynthError HS825, HS826, HS840 to HS848."""
    topology = load_topology(request.topology)
    links = named_class(topology, request.link_class)
    series = [s for path in request.measurements for s in read_file(path, request.operation, request.ranks)]
    observed: list[tuple[str, Observation]] = []  # the points of the sizes that are asked for, as terms
    least, largest = request.sizes or (0.0, math.inf)
    for s in series:
        pair = s.operation in PAIRWISE
        terms = coefficients(s.operation, request.algorithm, s.ranks or request.ranks)
        width, start = 1 if pair else links.width, request.start
        if pair or start is None:
            start = 0.0 if pair else NCCL_TABLES.start(topology.models, "Simple")
        for p in s.points:
            if least <= p.size <= largest:
                moved, reduced = p.size * terms[1] / width, p.size * terms[2]
                point = Observation(p.size, p.seconds, terms[0], moved, reduced, start, p.line)
                observed.append((s.title, point))
    if not observed:
        help_ = "widen --sizes, or leave it out for all points"
        raise HetesynthError("no point is within --sizes", code="HS848", help=help_)
    sizes = sorted({o.size for _, o in observed})
    held_out = set(sizes[1 :: request.hold_out]) if request.hold_out else set()
    reduce = [float(r) for r in topology.reduce_bandwidth if r is not None]
    used = [o for _, o in observed if o.size not in held_out]
    fitted = fit(used, float(links.alpha), float(links.rate), min(reduce, default=None))
    points = tuple(Compared(s, o.size, o.seconds, fitted.seconds(o), o.size not in held_out) for s, o in observed)
    most = _demand_possible(fitted, observed, topology, links)
    copy: Figure | None = None  # what one thread block copies, where the links carried less than they can
    if request.channels is not None and fitted.rate.value < _LIMITING * float(links.rate):
        copy = Figure(fitted.rate.value * links.width / request.channels, fitted.rate.error)
    figures, doubts = _written(fitted, copy, links, most)
    latencies = sorted({topology.links[i].latency for i in links.links})
    had = f"{' and '.join(f'{float(s) * 1e6:g}' for s in latencies)} us"
    # the note, on one line: where the figures come from
    sources = ", ".join(dict.fromkeys(f"{Path(s.source).name} ({s.tool})" for s in series))
    rated = f"{float(links.rate) / 1e9:g} GB/s"
    before = [rated] * (figures.rate is not None) + [had] * (figures.alpha is not None)
    was = f"; before: {', '.join(before)}" if before else ""
    note = f"{len(fitted.residuals)} points of {sources}, spread {fitted.spread:.1%}{was}"
    source = read_source(request.topology)
    note = re.sub(r"\s+", " ", visible(note))[:400]
    changed, effects = updated(source.text, source.name, topology, links, figures, note)
    told = dict.fromkeys(f"{Path(s.source).name}: {remark}" for s in series for remark in s.remarks)
    remarks = [*told, *fitted.remarks, *doubts]
    if fitted.outliers:
        title, farthest = max(observed, key=lambda o: abs(math.log(o[1].seconds / fitted.seconds(o[1]))))
        remarks.append(f"farthest from the fit: {_shown(title, farthest)}")
    if len(latencies) > 1:
        remarks.append(f"links of the class had {had}: the fit is given to all of them")
    text = changed.replace("\n", line_end_of(request.topology))
    return Calibrated(topology, links, fitted, copy, points, (*remarks, *effects), text, figures, tuple(series))


def _demand_possible(
    fitted: Fit, observed: Sequence[tuple[str, Observation]], topology: Topology, links: LinkClass
) -> float:
    """Return a link's most B/s, as stated and by data sheets; HS825 if times fall, HS826 if the fit exceeds it."""
    for title in dict.fromkeys(title for title, _ in observed):
        points = sorted((o for t, o in observed if t == title), key=lambda o: o.size)
        half = len({o.size for o in points}) > 1 and len(points) // 2
        if half:
            small, large = (median(o.seconds for o in part) for part in (points[:half], points[-half:]))
            if large * (1 + ROBUST_SCALE) < small:
                what = f"{title}: the larger half of the sizes takes {large * 1e6:.4g} us, the smaller half "
                what += f"{small * 1e6:.4g} us: times fall as sizes grow"
                help_ = "check the columns and the order of the sizes, and measure again"
                raise HetesynthError(what, code="HS825", help=help_)
    most = links.rate
    joined = {topology.models[topology.links[i].src] for i in links.links} if links.kind in NVLINK_KINDS else ()
    for limits in filter(None, map(limits_of, sorted(joined))):
        one = limits.most if limits.word == "xGMI" else limits.spec  # NVLink's `most` is what is signalled
        if limits.links:
            most = min(most, one * limits.links / links.width)
    rate = fitted.rate
    title, fastest = max(observed, key=lambda o: o[1].moved / o[1].seconds)
    sure = 0.0 if rate.stated else rate.value * (1 - rate.error)
    if sure * _LIMITING > most or fastest.moved > fastest.seconds * float(most) * (1 + _MOST_ERROR):
        what = f"the fastest point, {_shown(title, fastest)}, carries "
        what += f"{fastest.moved / fastest.seconds / 1e9:.4g} GB/s, and the fit says {rate.value / 1e9:.4g} GB/s: "
        what += f"{links.title} carries {float(most) / 1e9:.4g} GB/s at most, as stated or by the data sheet of "
        what += ", ".join(sorted(joined)) or "its parts"
        help_ = "the run may have used other links or a reduction in the switch (NVLS, SHARP; NCCL_ALGO=Ring does "
        help_ += "without), the point may be wrong, or the topology states an earlier measured rate: "
        help_ += "state what the hardware carries"
        raise HetesynthError(what, code="HS826", help=help_)
    return float(most)


def _shown(title: str, point: Observation) -> str:
    """Return ``point`` as text, like ``m.csv: in place, line 7, 1024 bytes in 2.5 us``."""
    line = f", line {point.line}" if point.line else ""
    return f"{title}{line}, {point.size:.0f} bytes in {point.seconds * 1e6:.4g} us"


def _written(fitted: Fit, copy: Figure | None, links: LinkClass, most: float) -> tuple[Figures, list[str]]:
    """Return the fitted figures that are sure enough to be written, and doubts; with ``copy`` only that."""
    role = NETWORK if links.kind == "net" else NVLINK if links.kind in NVLINK_KINDS else None
    scattered = fitted.spread > _MOST_ERROR or 2 * fitted.outliers > len(fitted.residuals)
    least_alpha, most_alpha = (role.least_latency, role.most_latency) if role else (0, math.inf)
    candidates = {"copy": (copy, 0.0, math.inf)}
    if copy is None:
        candidates = {
            "alpha": (fitted.alpha, float(least_alpha), float(most_alpha)),
            "rate": (fitted.rate, 0.0, most),
            "reduce": (fitted.reduce, 0.0, math.inf),
        }
    figures: dict[str, float] = {}
    remarks: list[str] = []
    for name, (figure, least, largest) in candidates.items():
        if figure is None or figure.stated:
            continue
        value = float(rounded(figure.value))
        if not scattered and figure.error <= _MOST_ERROR and least <= value <= largest:
            figures[name] = value
            continue
        doubt = "more than these links can have" if value > largest else "less than these links have"
        if scattered or figure.error > _MOST_ERROR:
            share = f"{figure.error:.0%}" if figure.error < math.inf else "any amount"
            doubt = f"uncertain by {share}, the points spread by {fitted.spread:.0%} around the model"
        remarks.append(f"{name}, {figure.value:.3g}, is {doubt}: it stays as stated; measure more points")
    return Figures(**figures), remarks
