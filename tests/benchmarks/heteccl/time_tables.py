"""The sections of docs/hetecclpaper.md about time: programs beside the others, training steps, appendix K.

In: the entries of a run. Out: lines of markdown for each section that has any.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks.heteccl import clusters
from benchmarks.heteccl.cases import ProgramCase, Table
from benchmarks.heteccl.published import CLAIMS, TRAINING, Rival
from benchmarks.heteccl.run import Entries
from benchmarks.heteccl.scores import allreduce_seconds, cases_of, of_table, shorter
from benchmarks.heteccl.sublinks import BatchedPath
from benchmarks.heteccl.training import ASSUMPTIONS, MODELS
from benchmarks.heteccl.words import wrapped
from hetesynth.model.words import size_text

_TITLES: dict[Table, tuple[str, tuple[str, ...]]] = {
    "6-7": ("Figures 6 and 7: AllGather and AllReduce on H20", ("6", "7")),
    "8": (
        "Figure 8: AllGather and AllReduce on V100, 4 MB to 2 GB",
        ("8a", "8b", "8c", "8d", "8e", "8f-h"),
    ),
    "13": ("Figure 13: homogeneous A100 servers", ()),
    "15": ("Figure 15: failed GPUs", ("15",)),
    "16": ("Figure 16: a server at 18 Gbps", ("16",)),
    "17": ("Figure 17: A100, 4 + 8", ("17",)),
}
_NOTES: dict[Table, str] = {
    "6-7": "The figures' buffer sizes are not stated; two are taken.",
    "8": (
        "(a) is (4+8), (c) (4x3) and (d) (4x3+8) by the text, which does not name (b): (4x2+8) is assumed, and so "
        "for (f) to (h). Sizes of (e) to (h) are 3 MB to 3 GB in the paper, those of (a) to (d) here too. Which "
        "4-GPU servers have 64 Gbps is assumed in [the examples](../examples/README.md)."
    ),
    "13": "The paper states no ratio, number of servers or size: two and four servers of 8 and 1 GB are taken.",
    "15": (
        "Base clusters are assumed: (4+8), and (4x2+8) for one GPU of each 4-GPU server. Neither collective nor "
        "size is stated; both collectives are taken, with 1 GB."
    ),
    "16": (
        "The paper does not say whether 18 Gbps is the rate of each NIC or of the server; both are taken. The "
        "slow server has 4 GPUs. One slow NIC is not the paper's case and not scored."
    ),
    "17": "NVSwitch of 300 GB/s a GPU in the server of 8, direct NVLinks in that of 4, NICs of "
    "200 Gbps (assumed).",
}
_HEAD = (
    "| cluster | collective | size | ours | of the limit | x NCCL | paper | x TACCL | paper | x "
    "TE-CCL HS, SE | paper "
    "| limit x NCCL | our program | TACCL's sketch |\n"
    "|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"
)
_BEFORE_TRAINING: tuple[Table, ...] = ("6-7", "8")
_AFTER_TRAINING: tuple[Table, ...] = ("13", "15", "16", "17")
HOPS, SUBLINKS = 4, 4
WHOLE = 1000.0  # microseconds from which no fractions are shown
BATCHES = (4, 16, 64, 256, 1024)


def sections(entries: Entries) -> Iterator[Iterator[str]]:
    """Each section that something was measured for; appendix K always."""
    for table in _BEFORE_TRAINING:
        yield from _programs(table, entries)
    if any(allreduce_seconds(model, entries) for model in MODELS):
        yield _training(entries)
    for table in _AFTER_TRAINING:
        yield from _programs(table, entries)
    yield appendix_k()


def _programs(table: Table, entries: Entries) -> Iterator[Iterator[str]]:
    cases = [c for c in of_table(table) if isinstance(c, ProgramCase) and c.name in entries]
    if cases:
        yield _program_lines(table, cases, entries)


def _program_lines(table: Table, cases: Sequence[ProgramCase], entries: Entries) -> Iterator[str]:
    title, figures = _TITLES[table]
    yield f"## {title}"
    yield ""
    yield wrapped(_NOTES[table])
    yield ""
    claims = [claim for claim in CLAIMS if claim.figure in figures]
    if claims:
        yield "The paper:"
        yield ""
    for claim in claims:
        words, _, where = claim.sentence.partition(" (")
        yield f'- figure {claim.figure}: "{words}" ({where}'
    if claims:
        yield ""
    yield _HEAD
    for case in cases:
        entry = entries[case.name]
        if entry.error:
            yield f"| {case.cluster} | {case.collective} | {entry.error} |{' - |' * 11}"
        for row in entry.said.get("rows", ()):
            yield _row(case, row)


def _row(case: ProgramCase, row: dict[str, Any]) -> str:
    ours, limit = row["ours"], row["limit"]
    shown = {**clusters.FAILURES, **clusters.SLOW}.get(case.cluster)
    cells = (
        case.cluster if shown is None else f"{case.cluster}: {shown}", case.collective, size_text(row["size"]),
        _time(ours), f"{100 * limit / ours:.1f} %",
        _ratio(row["NCCL"], ours), _paper(case, "NCCL"), _ratio(row["TACCL"], ours), _paper(case, "TACCL"),
        f"{_ratio(row['HS'], ours)}, {_ratio(row['SE'], ours)}", _paper(case, "TE-CCL"),
        _ratio(row["NCCL"], limit), row["candidate"], row["sketch"] or "-",
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _time(seconds: float) -> str:
    """Microseconds with four digits, or all of them."""
    us = 1e6 * seconds
    return f"{us:,.0f} us" if us >= WHOLE else f"{us:.4g} us"


def _paper(case: ProgramCase, rival: Rival) -> str:
    """What the paper says of this cluster and collective."""
    for claim in CLAIMS:
        if claim.rival == rival and case in cases_of(claim):
            return "-".join(f"{number:g}" for number in claim.numbers)
    return "-"


def _ratio(theirs: float | None, ours: float) -> str:
    return "no program" if theirs is None else f"{theirs / ours:.2f}"


def _training(entries: Entries) -> Iterator[str]:
    yield "## Figure 9: training iterations, as a model"
    yield ""
    taccl, teccl = TRAINING["TACCL"], TRAINING["TE-CCL"]
    yield wrapped(
        f'The paper: "Compared to TACCL, HeteCCL reduces iteration time by {taccl[0]:g}%-{taccl[1]:g}%, '
        f'and compared to TE-CCL, achieves a speedup of {teccl[0]:g}%-{teccl[1]:g}%" (section 6.4). Assumed:'
    )
    yield ""
    yield from (wrapped(f"- {text}", "  ") for text in ASSUMPTIONS)
    yield ""
    yield (
        "| model | GPUs | an allreduce | ours | rings | compute | iteration, ours | iteration, rings "
        "| shorter than with rings "
        "| TACCL | TE-CCL HS | TE-CCL SE |\n|---|---|---|---|---|---|---|---|---|---|---|---|"
    )
    for model in MODELS:
        seconds = allreduce_seconds(model, entries)
        if seconds:
            cells = (
                model.name, str(model.gpus), size_text(model.size), _time(seconds["ours"]),
                _time(seconds["NCCL"]), f"{1e3 * model.compute:.0f} ms",
                *(f"{1e3 * model.iteration(seconds[name]):.0f} ms" for name in ("ours", "NCCL")),
                *(f"{shorter(model, seconds, name):.1f} %" for name in ("NCCL", "TACCL", "HS", "SE")),
            )  # fmt: skip
            yield f"| {' | '.join(cells)} |"


def appendix_k() -> Iterator[str]:
    """Equations 9 to 11 beside a simulated path."""
    first = BatchedPath(HOPS, SUBLINKS, BATCHES[0])
    yield "## Appendix K: what sub-links cost"
    yield ""
    yield wrapped(
        f"A message in batches of {size_text(first.batch)} over H = {HOPS} hops of {first.rate / 1e9:g} GB/s and "
        f"{float(first.latency) * 1e6:g} us, K = {SUBLINKS} batches at once, or one after another. "
        "Equations 9 and 10, and the same as schedules in the simulator. Both equations leave out that the first "
        "batch has to cross "
        f"the last hop too, S / B = {first.left_out * 1e6:g} us; with it the simulator agrees to a nanosecond (a "
        "test). Equation 11: the ratio goes to 1."
    )
    yield ""
    yield "| batches | T_seq (9) | simulated | T_HeteCCL (10) | simulated | ratio (11) | simulated |"
    yield "|---|---|---|---|---|---|---|"
    for batches in BATCHES:
        path = BatchedPath(HOPS, SUBLINKS, batches)
        sequential, together = path.simulated(1), path.simulated()
        cells = (
            f"{batches:,}", _time(path.sequential), _time(sequential),
            _time(path.heteccl), _time(together),
            f"{path.heteccl / path.sequential:.4f}", f"{together / sequential:.4f}",
        )  # fmt: skip
        yield f"| {' | '.join(cells)} |"
