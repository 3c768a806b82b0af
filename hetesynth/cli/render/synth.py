"""What the commands print, as text and as plain values for JSON.

In: results of a synthesis, by their attributes. Out: strings and dictionaries. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hetesynth.cli.render.decisions import decision_lines, decision_values
from hetesynth.model.bound import LowerBound
from hetesynth.model.problem import Problem
from hetesynth.model.schedule import hops
from hetesynth.report.words import clock_line, counted, size_text

if TYPE_CHECKING:
    from hetesynth.compile.artifacts import Synthesis
    from hetesynth.compile.roots import Warned
    from hetesynth.synthesis.search import Ending
    from hetesynth.verify.bounds.judge import Recheck

EXACT = 6  # digits of a size that is one's own
_LISTED = ("channels_per_link", "channels_per_gpu", "thread_blocks_per_gpu", "instructions")


def synthesis_summary(made: Synthesis, paths: Iterable[Path], *, explain: bool = False) -> dict[str, Any]:
    """The object ``synth --json`` prints. Scripts depend on these names. ``explain``: with what was decided."""
    solution, worst = made.solution, made.chunking.worst_error()
    certificate = solution.certificate
    return {
        "collective": made.request.collective,
        "ranks": made.topology.ranks,
        "chunks": made.chunks,
        "strategy": made.strategy,
        "steps": certificate.steps,
        "lower_bound": certificate.bound.steps,
        "proven_optimal": certificate.proven_optimal,
        "seconds": round(made.timer.total, 3),
        "outputs": [str(path) for path in paths],
        "cluster": made.topology.name,
        "root": made.problem.collective.root,
        "seed": made.budget.seed,
        "gap": certificate.gap,
        "bound_method": certificate.bound.method,
        "bound_proof": certificate.bound.proof,
        "bound_rechecked": made.recheck.complete,
        "bound_within_composition": solution.within,
        "cut_short": made.cut_short,
        "ended_by": made.ending,
        "decided_by_clock": list(made.decided_by_clock),
        "transfers": len(solution.schedule.transfers),
        "hops": hops(solution.schedule, made.topology.links),
        "chunk_bytes": made.chunking.chunk_bytes,
        "tau_ref_us": float(made.chunking.tau_ref * 1_000_000),
        "worst_rounding_error": None if worst is None else float(worst.error),
        "first_schedule_seconds": round(solution.first_seconds, 3),  # of the search, after the bound
        "least_seconds": round(made.timer.least.seconds, 1) if made.timer.least else None,
        "least_seconds_by_phase": {k: round(v, 1) for k, v in made.timer.least.phases} if made.timer.least else {},
        "beyond_budget_seconds": round(made.timer.beyond(made.budget), 3),
        "seconds_by_phase": {name: round(value, 3) for name, value in made.timer.phases.items()},
        **made.time_optimality.figures(),
        "program_predicted_us": None if made.program_seconds is None else made.program_seconds * 1e6,
        "size_asked": made.request.size,
        "choice": _choice(made),
        "programs": {program_label(made, suffix): program_figures(made, suffix) for suffix in made.programs},
        "warnings": [warned.plain() for warned in made.warnings],
        **({"decisions": decision_values(made.decisions)} if explain else {}),
    }


def _choice(made: Synthesis) -> dict[str, Any] | None:
    chosen = made.choice
    if chosen is None:
        return None
    unfit = [{"candidate": label, "predicted_us": s * 1e6, "reason": why} for label, s, why in chosen.unfit]
    return {"candidate": chosen.label, "tried": chosen.tried, "cut_short": chosen.cut_short, "unfit": unfit}


def program_label(made: Synthesis, suffix: str) -> str:
    """``outofplace`` and ``inplace``; with several targets ``rccl-6`` and ``rccl-6.inplace``."""
    program = made.programs[suffix]
    if len(made.targets) == 1:
        return "inplace" if program.in_place else "outofplace"
    return program.target.name + (".inplace" if program.in_place else "")


def program_figures(made: Synthesis, suffix: str) -> dict[str, Any]:
    """Thread blocks, steps and channels of one program, and what each pass of the lowering saved."""
    from dataclasses import asdict

    program = made.programs[suffix]
    figures = program.figures
    counts = {name: value for name, value in asdict(figures).items() if name not in _LISTED}
    return {
        "target": program.target.name,
        "in_place": program.in_place,
        **counts,
        "instructions": dict(figures.instructions),
        "channels_per_gpu": list(figures.channels_per_gpu),
        "thread_blocks_per_gpu": list(figures.thread_blocks_per_gpu),
        "channels_per_link": [[src, dst, count] for (src, dst), count in figures.channels_per_link],
        "min_channels_per_link": figures.min_channels_per_link,
        "max_channels_per_link": figures.max_channels_per_link,
        "saved": [{"by": saving.by, "count": saving.count, "what": saving.what} for saving in program.savings],
        "notes": list(program.notes),
    }


def synthesis_report(made: Synthesis, paths: Iterable[Path], *, explain: bool = False) -> str:
    """The short report after ``synth``."""
    solution = made.solution
    certificate = solution.certificate
    chunks = counted(made.chunks, "chunk")
    lines = [
        f"{made.topology.name}: {made.request.collective}, {made.topology.ranks} ranks, {chunks} per rank"
        + (f", root {made.problem.collective.root}" if made.problem.collective.root is not None else ""),
        f"  steps        {certificate.steps}  ({len(solution.schedule.transfers)} transfers, "
        f"{counted(hops(solution.schedule, made.topology.links), 'hop')} at most, "
        f"strategy {made.strategy})",
        f"  lower bound  {certificate.bound.steps}  {certificate.bound.proof}",
        f"  quality      {_quality(made)}",
        *(f"  {line}" for line in time_optimality_lines(made)),
        f"  capacities   {_capacities(made)}",
        *(f"  {line}" for line in _programs(made)),
        f"  seconds      {made.timer.total:.2f}  ({_phases(made)})",
        *_beyond(made),
        f"  verified     schedule replayed{', every program executed' if made.programs else ''}, {_recheck(made)}",
        *([f"  clock        {clock_line(made.decided_by_clock)}"] if made.decided_by_clock else []),
        *(f"  wrote        {path}" for path in paths),
        *(f"  {line}" for line in _install(made)),
        *warning_lines(made.warnings),
        *(decision_lines(made.decisions) if explain else ()),
    ]
    return "\n".join(lines)


def every_root_summary(
    made: Sequence[Synthesis], paths: Sequence[Path], *, explain: bool = False
) -> dict[str, Any]:  # fmt: skip
    """The object ``synth --root all --json`` prints: in ``roots`` what ``synth --json`` prints of each."""
    each = len(paths) // len(made)
    return {
        "collective": made[0].request.collective,
        "ranks": made[0].topology.ranks,
        "cluster": made[0].topology.name,
        "roots": [
            synthesis_summary(one, paths[i * each : (i + 1) * each], explain=explain) for i, one in enumerate(made)
        ],
        "outputs": [str(path) for path in paths],
    }


def every_root_report(made: Sequence[Synthesis], paths: Sequence[Path], *, explain: bool = False) -> str:
    """The short report after ``synth --root all``: a line a root, then what holds for all."""
    first = made[0]
    lines = [f"{first.topology.name}: {first.request.collective}, {first.topology.ranks} ranks, every root"]
    for one in made:
        seconds = one.time_optimality.seconds
        time = (
            "" if seconds is None else f", {size_text(one.time_optimality.size, EXACT)} in {seconds * 1e6:,.2f} us"
        )
        lines.append(
            f"  root {one.problem.collective.root:<7} {counted(one.solution.certificate.steps, 'step')}{time}, "
            f"{_quality(one)}"
        )
    programs = ", every program executed" if first.programs else ""
    unproved = sum(not one.recheck.complete for one in made)
    bounds = f"bounds rechecked but for {counted(unproved, 'root')}" if unproved else "bounds rechecked"
    lines.append(f"  verified     every schedule replayed{programs}, {bounds}")
    lines += [f"  wrote        {path}" for path in paths]
    lines += [f"  {line}" for line in _install(first)]
    lines += warning_lines(first.warnings)
    for one in made if explain else ():
        lines += [f"root {one.problem.collective.root}", *decision_lines(one.decisions)]
    return "\n".join(lines)


def warning_lines(warnings: Iterable[Warned]) -> Iterable[str]:
    """Two lines a warning: what may go wrong, and what to do about it."""
    for warned in warnings:
        yield f"  WARNING      {warned.message}"
        yield f"               {warned.help}"


def _recheck(made: Synthesis) -> str:
    """How far the certificate was rechecked."""
    return "bound rechecked" + (f" but for {made.recheck.open}" if made.recheck.open else "")


_ENDINGS: dict[Ending, str] = {  # why the search did not go on
    "bound": "",
    "tried": "; the strategy has done all it does",
    "solver": "; the solver's budget for a problem of this size ended, more time changes nothing",
    "time": "; cut short by the time budget, more may improve it",
    "interrupt": "; cut short by Ctrl-C, more time may improve it",
}


def _quality(made: Synthesis) -> str:
    solution = made.solution
    certificate = solution.certificate
    if certificate.proven_optimal:
        return "proven optimal"
    gap = f"at most {counted(certificate.gap, 'step')} from optimal"
    if solution.within is not None and solution.within == certificate.steps:
        gap += "; optimal for reduce-scatter followed by allgather"
    return gap + _ENDINGS[solution.ending]


_BOUND_WORDS = {
    "cut": "the narrowest cut",
    "volume": "what all parts take in together",
    "exchange": "all wires together",
    "latency": "the path of most latency",
}


def time_optimality_lines(made: Synthesis) -> Iterable[str]:
    """Predicted time, bandwidths and the bound in time; how the schedule was chosen."""
    optimality = made.time_optimality
    figures = optimality.figures()
    if optimality.seconds is None or optimality.bound is None:
        size = size_text(optimality.size, EXACT)
        yield f"time         {size}: not simulated, too many transfers (--size asks for it)"
        return
    size = size_text(optimality.size, EXACT)
    bound = (
        f"bound {figures['bound_us']:,.2f} us by {_BOUND_WORDS[optimality.bound.kind]}: {optimality.bound.proof}"
    )
    yield (
        f"time         {size} in {figures['predicted_us']:,.2f} us (the schedule, simulated), "
        f"algbw {figures['algbw_GBps']:.2f} GB/s, busbw {figures['busbw_GBps']:.2f} GB/s, "
        f"{figures['percent_of_bound']:.1f} % of the bound"
    )
    if made.program_seconds is not None:
        told = f"{made.program_seconds * 1e6:,.2f} us as a program"
        yield f"             {told}, whose thread blocks keep the order of its steps in part"
    elif made.programs:
        yield "             as a program: `hetesynth simulate` tells"
    yield f"             {bound}"
    chosen = made.choice
    if chosen is None:
        return
    short = "; cut short, more time may find a quicker one" if chosen.cut_short else ""
    yield f"chosen       {chosen.label}: the quickest of {chosen.tried} for {size}{short}"
    for label, seconds, why in chosen.unfit:
        lost = f"{optimality.seconds / seconds - 1:.1%}"
        yield f"             {label} would take {seconds * 1e6:,.2f} us ({lost} lost) but fits no file: {why}"


def _capacities(made: Synthesis) -> str:
    chunking = made.chunking
    worst = chunking.worst_error()
    size = f"chunk {size_text(chunking.chunk_bytes, EXACT)}, tau_ref {float(chunking.tau_ref * 1_000_000):.4g} us"
    if worst is None or worst.error == 0:
        return f"{size} ({chunking.reference}), exact"
    flag = (
        "; LARGE: steps tell little of time, --size chooses by time"
        if abs(worst.error) > made.request.policy.compile.large_rounding_error
        else ""
    )
    return (
        f"{size} ({chunking.reference}), worst rounding error {float(worst.error):+.1%} "
        f"({worst.kind} {worst.name}: {worst.chunks} per step){flag}"
    )


def _programs(made: Synthesis) -> Iterable[str]:
    several = len(made.targets) > 1
    for program in made.programs.values():
        figures = program.figures
        label = "in place    " if program.in_place else "out of place"
        low, high = figures.min_channels_per_link, figures.max_channels_per_link
        yield (
            f"{label} {program.target.name + ': ' if several else ''}"
            f"at most {counted(figures.max_thread_blocks, 'thread block')} per GPU, "
            f"{counted(figures.max_steps, 'step')} per block, {counted(figures.channels, 'channel')}, "
            f"{low if low == high else f'{low}-{high}'} per link"
        )
        saved = ", ".join(f"{s.by} {s.count} {s.what}" for s in program.savings if s.count)
        if saved:
            yield f"             saved: {saved}"
        yield from (f"             {note}" for note in program.notes)


def _install(made: Synthesis) -> Iterable[str]:
    """One line a target: the variables that make its runtime take the file."""
    for wanted in made.targets if made.programs else ():
        variables = " ".join(f"{name}={value}" for name, value in wanted.environment)
        how = variables or "as the runtime asks"
        yield f"install      {wanted.name}: {how}  (hetesynth install-hint {wanted.name})"


def _beyond(made: Synthesis) -> Iterable[str]:
    """What was spent beyond the budget, and on what most."""
    beyond = made.timer.beyond(made.budget)
    if beyond >= made.request.policy.compile.beyond_budget_worth_telling and made.timer.least:
        longest = sorted(made.timer.phases.items(), key=lambda phase: -phase[1])[:3]
        most = ", ".join(f"{name} {value:.1f}" for name, value in longest)
        least = f"{made.timer.least.seconds:.1f} s were expected at least"
        yield f"               {beyond:.1f} beyond the budget; most went into {most}; {least}"


def _phases(made: Synthesis) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in made.timer.phases.items())


def bounds_report(problem: Problem, found: list[LowerBound], rechecks: list[Recheck] | None = None) -> str:
    """The lines ``bounds`` prints: the best bound first, then what is wrong with any."""
    collective = problem.collective
    chunks = counted(collective.chunks_per_rank, "chunk")
    lines = [f"{collective.name}, {collective.ranks} ranks, {chunks} per rank"]
    lines.append(f"  lower bound {counted(found[0].steps, 'step')}")
    lines += [f"  {bound.method:<9} {bound.steps:>4}  {bound.proof}" for bound in found]
    if rechecks is not None:
        wrong = [violation.message for recheck in rechecks for violation in recheck.violations]
        lines += [f"  error: {message}" for message in wrong] or [
            f"  rechecked   all {len(rechecks)} from their witnesses"
        ]
    return "\n".join(lines)


def bounds_summary(
    problem: Problem, found: list[LowerBound], rechecks: list[Recheck] | None = None
) -> dict[str, Any]:
    """The object ``bounds --json`` prints. ``rechecked`` is null where nobody asked for it."""
    from dataclasses import asdict

    checked: list[Recheck | None] = [None] * len(found) if rechecks is None else [*rechecks]
    return {
        "collective": problem.collective.name,
        "ranks": problem.ranks,
        "chunks": problem.collective.chunks_per_rank,
        "lower_bound": found[0].steps,
        "bounds": [
            {
                "steps": bound.steps,
                "method": bound.method,
                "proof": bound.proof,
                "backwards": bound.backwards,
                "witness": None if bound.witness is None else asdict(bound.witness),
                "rechecked": None if recheck is None else recheck.complete,
                "violations": [violation.message for violation in recheck.violations] if recheck else [],
            }
            for bound, recheck in zip(found, checked, strict=True)
        ],
    }
