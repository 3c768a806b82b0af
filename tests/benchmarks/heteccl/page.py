"""docs/hetecclpaper.md: the evaluation of HeteCCL beside ours, as markdown.

In: the entries of a run. Out: text. Measures nothing but appendix K, which is arithmetic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from benchmarks.heteccl import step_tables, time_tables
from benchmarks.heteccl.cases import all_cases
from benchmarks.heteccl.run import Entries
from benchmarks.heteccl.scores import Score, scores
from benchmarks.heteccl.words import wrapped
from benchmarks.machine import load, machine

_HEAD = (
    "Written by `PYTHONPATH=tests python -m benchmarks heteccl`; `--only` selects, `--journal` lets a run be",
    "stopped and go on. The order is that of the paper (HeteCCL, NSDI 2026). Steps are exact and bounds proved.",
    " **Times are simulated** ([model.md](model.md)), with what runtimes cost, as `synth` counts it by",
    "default; nothing was timed on GPUs. Ours is the program that the default command writes for the size.",
    "Seconds of searches are of this machine, the paper's of another.",
)
_RIVALS = (
    "## What the others are here",
    "",
    "All are programs in the same simulator, on the same clusters, with the same costs.",
    "",
    *(
        wrapped(f"- {text}", "  ")
        for text in (
            "**NCCL**: what it would choose, by its own formulas, corrected by published runs ([reality.md]"
            "(reality.md)), or its rings, one for each NIC, through the best order of GPUs, simulated with as "
            "many channels as pay: the quicker of both (`hetesynth/engine/time_verdict.py`).",
            "**TACCL**: a sketch leaves some links between servers; routes are balanced by load over these, "
            "transfers list-scheduled in seconds, lowered step by step with one chunk a GPU. Two sketches of its "
            "repository, the quicker counts: a sender and a receiver for each NIC (sk1-dgx2-n2; here to every "
            "other NIC, as servers have unequal numbers of GPUs) and GPUs of the same number (sk2-dgx2-n2). Where "
            "one NIC serves a whole server, earliest arrival makes the routes. No MILP is solved, and no time "
            "limit leaves it with less.",
            "**TE-CCL**: epochs as long as the slowest link needs for a chunk are the steps of HeteCCL's eq. 1. "
            "**HS** (epochs aligned with HeteCCL's steps): a schedule of the fewest steps, one chunk "
            "a GPU, lowered "
            "step by step. **SE** (its quick algorithm, taken to be the one that solves round by "
            "round): one greedy "
            "pass. Its own published runs are in [benchmarks_time.md](benchmarks_time.md).",
            "**SyCCL**: not modelled; the paper takes it for TE-CCL on such clusters.",
        )
    ),
    "",
    wrapped(
        "Our lowering serves the models too. None of them is the system itself; a ratio below the paper's is no "
        "evidence against the paper, which measured real systems. In the tables `x NCCL` is how many times as "
        "fast ours is, `paper` the range that the paper states for it, `limit x NCCL` the ratio of a program at "
        "the proved limit."
    ),
)
_GPUS = (
    "## What needs GPUs",
    "",
    "- Figure 4 (bandwidth of 4 and 8 thread blocks on one link): the simulator assumes what it shows, that",
    "  thread blocks partition a link evenly; measured here is nothing.",
    "- Figure 18 (seconds of loads, additions and stores by generation): gamma comes from data sheets instead.",
    "- Figures 6 to 9, 13 and 15 to 17 as times on a cluster, with NCCL, TACCL and TE-CCL themselves:",
    "  simulated above.",
    "- Figures 1 and 14 (search times of TACCL and TE-CCL): not run; their solver needs a licence.",
)


def page(entries: Entries) -> str:
    """The whole page, or what a selection has of it."""
    cases = all_cases()
    missing = [case.name for case in cases if case.name not in entries]
    failed = [f"{entry.name}: {entry.error}" for entry in entries.values() if entry.error]
    parts = [["# The evaluation of HeteCCL, side by side"], list(_HEAD)]
    if missing:
        parts.append([f"**Incomplete: {len(missing)} of {len(cases)} cases are not measured.**"])
    parts += [[f"**Failed**: {text}"] for text in failed]
    parts += [list(scorecard(scores(entries))), list(_RIVALS)]
    parts += [list(lines) for lines in (*step_tables.sections(entries), *time_tables.sections(entries))]
    parts += [list(_GPUS), list(_measured_on(entries))]
    return "\n\n".join("\n".join(lines) for lines in parts if lines) + "\n"


def scorecard(every: Sequence[Score]) -> Iterator[str]:
    """How many of the paper's numbers are reached, then each."""
    met = sum(score.met for score in every)
    beyond = sum(score.verdict == "no: beyond the limit" for score in every)
    yield "## Scorecard"
    yield ""
    yield wrapped(
        f"{met} of the {len(every)} numbers that the paper states are reached: seconds of Table 1 "
        "with steps equal to "
        "the bound, both ends of each range in section 6 and the appendices, the percent of Figure 9. A number is "
        "reached where ours is no smaller (of seconds: no larger). `at the limit` is the ratio that "
        "a program at the "
        f"proved limit has to the same rival: {beyond} numbers are beyond it, so that no program reaches them "
        "against these models."
    )
    yield ""
    yield "| figure | what | paper | ours | at the limit | reached |"
    yield "|---|---|---|---|---|---|"
    for score in every:
        ours = "not measured" if score.ours is None else _number(score.ours, score.unit)
        ceiling = "-" if score.ceiling is None else _number(score.ceiling, score.unit)
        paper = _number(score.paper, score.unit)
        yield f"| {score.figure} | {score.what} | {paper} | {ours} | {ceiling} | {score.verdict} |"
    reasons = dict.fromkeys(score.why for score in every if score.ours is not None and score.why)
    if reasons:
        yield ""
        yield "Where ours is smaller:"
        yield ""
        yield from (wrapped(f"- {why}.", "  ") for why in reasons)


def _number(value: float, unit: str) -> str:
    if unit == "s":
        return f"{value:.3g} s"
    return f"{value:.2f} x" if unit == "x" else f"{value:.1f} %"


def _measured_on(entries: Entries) -> Iterable[str]:
    yield "## Measured on"
    yield ""
    yield "| | |"
    yield "|---|---|"
    for name, value in machine().items():
        yield f"| {name} | {value} |"
    yield f"| the cases took | {sum(entry.wall for entry in entries.values()):.0f} s |"
    yield f"| load after | {load()} |"
