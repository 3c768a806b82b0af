"""What ``synth`` prints, as text and as plain values for JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hetesynth.model.cegis_trace import CegisEntry, totals
from hetesynth.model.decisions import OVER_EFFORT, Decision
from hetesynth.model.schedule import hops
from hetesynth.model.words import clock_line, counted, microseconds, runtime_words, size_text
from hetesynth.search.chunking import LARGE_ROUNDING_ERROR

if TYPE_CHECKING:
    from hetesynth.engine.artifacts import Synthesis
    from hetesynth.engine.composition import ComposedFiles
    from hetesynth.engine.formats import Emitted
    from hetesynth.engine.program_warnings import Warned
    from hetesynth.search.search import Ending


def cegis_lines(entries: Sequence[CegisEntry]) -> Iterable[str]:
    """A few lines; none where CEGIS did not run."""
    if not entries:
        return
    total = totals(entries)
    yield (
        f"cegis        {counted(total.iterations, 'iteration')}, "
        f"{counted(total.counterexamples, 'counterexample')}, "
        f"{counted(total.calls, 'call')} of Z3 ({total.units:,} units), {total.seconds:.2f} s"
    )
    if total.first is not None:
        phase = f"{total.first.phase}, " if total.first.phase else ""
        where = f"{phase}checkpoint {total.first.checkpoint}"
        yield f"             first counterexample ({where}): {total.first.counterexamples[0]}"
    yield (
        f"             checkpoint moved back {counted(total.moved_back, 'time')}, "
        f"{counted(total.laws, 'law')} learned, largest model {total.largest_model:,} Send variables"
    )


def explanation(synthesis: Synthesis) -> str:
    """What was chosen, what it beat, and what more effort would try, in one sentence."""
    choice, certificate = synthesis.choice, synthesis.by_steps.solution.certificate
    if choice is None:
        steps = {d.what: d.why for d in synthesis.decisions if d.why.startswith("steps: ")}
        best = next(
            (name for name, why in steps.items() if why == f"steps: {certificate.steps}"), synthesis.strategy
        )
        chosen = f"{best}, of {counted(certificate.steps, 'step')}"
        others = ", ".join(name for name in steps if name != best)
        beat = f"beat {others}" if others else "had nothing to beat"
    else:
        seconds = synthesis.program_seconds
        chosen = choice.label if seconds is None else f"{choice.label}, at {microseconds(seconds)}"
        beat = "had nothing to beat" if choice.tried == 1 else f"is the quickest of {choice.tried}"
        if choice.runner_up is not None:
            beat = f"beat {choice.runner_up[0]}, at {microseconds(choice.runner_up[1])}"
            beat += f", and {choice.tried - 2} more" if choice.tried > 2 else ""
    more = _more_effort(synthesis.decisions, synthesis.ending)
    if choice is None and certificate.proven_optimal:
        more = "more effort would find no fewer: the bound is met"
    return f"chosen was {chosen}, which {beat}; {more}"


def atlas_explanation(index: dict[str, Any], decisions: Sequence[Decision]) -> str:
    """The same of an atlas: its candidates, and how many others were tried."""
    labels = list(dict.fromkeys(entry["candidate"] for entry in index["ranges"]))
    tried = {d.what for d in decisions if d.verdict == "tried"} - set(labels)
    beat = f"beat {len(tried)} more" if tried else "had nothing to beat"
    return f"chosen was {', '.join(labels)}, which {beat}; {_more_effort(decisions, index['ended_by'])}"


def _more_effort(decisions: Iterable[Decision], ending: Ending) -> str:
    left = list(
        dict.fromkeys(
            f"{d.what} of {d.stage.rpartition(', ')[2]}" if d.what.startswith("all ") else d.what
            for d in decisions
            if OVER_EFFORT in d.why
        )
    )
    if left:
        return f"more effort would try {left[0]}" + (f" and {len(left) - 1} more" if len(left) > 1 else "")
    if ending in ("time", "interrupt"):
        return "it was cut short: more time would try more"
    if ending == "solver":
        return "more effort would give the solver more units"
    return "more effort would try nothing else"


def decision_lines(decisions: Iterable[Decision]) -> Iterator[str]:
    """A heading for each stage, a line for each decision."""
    yield "decisions"
    for stage, group in groupby(decisions, key=lambda decision: decision.stage):
        yield f"  {stage}"
        for decision in group:
            yield f"    {decision.what}: {decision.verdict}: {decision.why}"


EXACT = 6  # digits of a size that is one's own


def synthesis_summary(synthesis: Synthesis, paths: Iterable[Path], *, explain: bool = False) -> dict[str, Any]:
    """The object ``synth --json`` prints. Scripts depend on these names. ``explain``: with what was decided."""
    by_steps = synthesis.by_steps
    solution, worst = by_steps.solution, by_steps.chunking.worst_error()
    certificate = solution.certificate
    schedule, optimality, choice = synthesis.solution.schedule, synthesis.time_optimality, synthesis.choice
    decisions = [decision.plain() for decision in synthesis.decisions]
    explained = {"explanation": explanation(synthesis), "decisions": decisions} if explain else {}
    return {
        **({"verdict": None} if synthesis.verdict is None else synthesis.verdict.figures()),
        "collective": synthesis.request.collective,
        "ranks": synthesis.topology.ranks,
        "chunks": by_steps.chunks,
        "strategy": by_steps.strategy,
        "steps": certificate.steps,
        "lower_bound": certificate.bound.steps,
        "proven_optimal": certificate.proven_optimal,
        "seconds": round(synthesis.timer.total, 3),
        "outputs": [str(path) for path in paths],
        "cluster": synthesis.topology.name,
        "losses": list(synthesis.topology.notes),
        "root": synthesis.problem.collective.root,
        "seed": synthesis.budget.seed,
        "gap": certificate.gap,
        "bound_method": certificate.bound.method,
        "bound_proof": certificate.bound.proof,
        "bound_rechecked": by_steps.recheck.complete,
        "bound_within_composition": solution.within,
        "cut_short": synthesis.cut_short,
        "ended_by": synthesis.ending,
        "decided_by_clock": list(synthesis.decided_by_clock),
        "transfers": len(solution.schedule.transfers),
        "hops": hops(solution.schedule, synthesis.topology.links),
        "chunk_bytes": by_steps.chunking.chunk_bytes,
        "tau_ref_us": float(by_steps.chunking.tau_ref * 1_000_000),
        "worst_rounding_error": None if worst is None else float(worst.error),
        "first_schedule_seconds": round(solution.first_seconds, 3),  # of the search, after the bound
        "seconds_by_phase": {name: round(value, 3) for name, value in synthesis.timer.phases.items()},
        **by_steps.time_optimality.figures(),
        "objective": synthesis.request.objective if synthesis.request.size is None else "time",
        "written": {  # without a size this may be another schedule than that of the fewest steps
            "candidate": None if choice is None else choice.label,
            "fewest_steps": synthesis.step_model is None and synthesis.request.size is None,
            "strategy": synthesis.strategy,
            "chunks": synthesis.chunks,
            "steps": schedule.makespan,
            "transfers": len(schedule.transfers),
            "hops": hops(schedule, synthesis.topology.links),
            "chunk_bytes": synthesis.chunking.chunk_bytes,
            "predicted_us": _microseconds(optimality.seconds),
        },
        "program_predicted_us": _microseconds(synthesis.program_seconds),
        "runtime_costs": synthesis.request.runtime is not None,
        "size_asked": synthesis.request.size,
        "choice": choice
        and {
            "candidate": choice.label,
            "tried": choice.tried,
            "cut_short": choice.cut_short,
        },
        "programs": {
            program.target.name + (".inplace" if program.in_place else "")
            if len(synthesis.targets) > 1
            else ("inplace" if program.in_place else "outofplace"): program_figures(program)
            for program in synthesis.programs.values()
        },
        "cegis": totals(synthesis.cegis).plain() if synthesis.cegis else None,
        "warnings": [warned.plain() for warned in synthesis.warnings],
        "runtime_advice": synthesis.advice,
        **explained,
    }


def _microseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e6


def program_figures(program: Emitted) -> dict[str, Any]:
    """Thread blocks, steps and channels of one program, and what each pass of the lowering saved."""
    figures = program.figures
    listed = ("channels_per_link", "channels_per_gpu", "thread_blocks_per_gpu", "instructions")
    return {
        "target": program.target.name,
        "in_place": program.in_place,
        **{name: value for name, value in asdict(figures).items() if name not in listed},
        "instructions": dict(figures.instructions),
        "channels_per_gpu": list(figures.channels_per_gpu),
        "thread_blocks_per_gpu": list(figures.thread_blocks_per_gpu),
        "channels_per_link": [[src, dst, count] for (src, dst), count in figures.channels_per_link],
        "min_channels_per_link": figures.min_channels_per_link,
        "max_channels_per_link": figures.max_channels_per_link,
        "saved": [{"by": saving.by, "count": saving.count, "what": saving.what} for saving in program.savings],
        "notes": list(program.notes),
    }


def synthesis_report(synthesis: Synthesis, paths: Iterable[Path], *, explain: bool = False) -> list[str]:
    """The short report after ``synth``."""
    by_steps = synthesis.by_steps
    solution = by_steps.solution
    certificate = solution.certificate
    chunks = counted(by_steps.chunks, "chunk")
    topology, root = synthesis.topology, by_steps.problem.collective.root
    executed = ", every program executed" if synthesis.programs else ""
    phases = ", ".join(f"{name} {value:.2f}" for name, value in synthesis.timer.phases.items())
    rechecked = "bound rechecked" + (f" but for {by_steps.recheck.open}" if by_steps.recheck.open else "")
    size = size_text(synthesis.time_optimality.size, EXACT)
    why = "interrupted" if synthesis.ending == "interrupt" else "too many transfers (--size asks for it)"
    chunking, worst = by_steps.chunking, by_steps.chunking.worst_error()
    rounding = "exact"
    if worst is not None and worst.error != 0:
        large = abs(worst.error) > LARGE_ROUNDING_ERROR
        rounding = (
            f"worst rounding error {float(worst.error):+.1%} ({worst.kind} {worst.name}: {worst.chunks} per step)"
            + ("; LARGE: steps tell little of time, --size chooses by time" if large else "")
        )
    programs = []
    for program in synthesis.programs.values():
        figures, target = program.figures, f"{program.target.name}: " if len(synthesis.targets) > 1 else ""
        low, high = figures.min_channels_per_link, figures.max_channels_per_link
        saved = ", ".join(f"{s.by} {s.count} {s.what}" for s in program.savings if s.count)
        programs += [
            f"  {'in place    ' if program.in_place else 'out of place'} {target}"
            f"at most {counted(figures.max_thread_blocks, 'thread block')} per GPU, "
            f"{counted(figures.max_steps, 'step')} per block, {counted(figures.channels, 'channel')}, "
            f"{low if low == high else f'{low}-{high}'} per link",
            *([f"               saved: {saved}"] if saved else []),
            *(f"               {note}" for note in program.notes),
        ]
    return [
        f"not simulated for {size}: {why}" if synthesis.verdict is None else synthesis.verdict.line,
        f"{topology.name}: {synthesis.request.collective}, {topology.ranks} ranks, {chunks} per rank"
        + (f", root {root}" if root is not None else ""),
        *(f"  note: {note}" for note in topology.notes),
        *(f"  {line}" for line in written_lines(synthesis)),
        f"  steps        {certificate.steps}  ({len(solution.schedule.transfers)} transfers, "
        f"{counted(hops(solution.schedule, topology.links), 'hop')} at most, "
        f"strategy {by_steps.strategy})",
        f"  lower bound  {certificate.bound.steps}  {certificate.bound.proof}",
        f"  quality      {_quality(synthesis)}",
        *(f"  {line}" for line in cegis_lines(synthesis.cegis)),
        *(f"  {line}" for line in time_optimality_lines(synthesis)),
        f"  capacities   chunk {size_text(chunking.chunk_bytes, EXACT)}, tau_ref "
        f"{float(chunking.tau_ref * 1_000_000):.4g} us ({chunking.reference}), {rounding}",
        *programs,
        f"  seconds      {synthesis.timer.total:.2f}  ({phases})",
        f"  verified     schedule replayed{executed}, {rechecked}",
        *([f"  clock        {clock_line(synthesis.decided_by_clock)}"] if synthesis.decided_by_clock else []),
        *(f"  wrote        {path}" for path in paths),
        *(f"  {line}" for line in _install(synthesis)),
        *warning_lines(synthesis.warnings),
        *((explanation(synthesis), *decision_lines(synthesis.decisions)) if explain else ()),
        *_advice_lines(synthesis.advice),
    ]


def every_root_summary(
    syntheses: Sequence[Synthesis], paths: Sequence[Path], *, explain: bool = False
) -> dict[str, Any]:
    """The object ``synth --root all --json`` prints: in ``roots`` what ``synth --json`` prints of each."""
    each = len(paths) // len(syntheses)
    return {
        "collective": syntheses[0].request.collective,
        "ranks": syntheses[0].topology.ranks,
        "cluster": syntheses[0].topology.name,
        "roots": [
            synthesis_summary(synthesis, paths[i * each : (i + 1) * each], explain=explain)
            for i, synthesis in enumerate(syntheses)
        ],
        "outputs": [str(path) for path in paths],
    }


def every_root_report(
    syntheses: Sequence[Synthesis], paths: Sequence[Path], *, explain: bool = False
) -> list[str]:
    """The short report after ``synth --root all``: a line a root, then what holds for all."""
    first = syntheses[0]
    verdicts = [s.verdict for s in syntheses if s.verdict is not None and s.verdict.seconds is not None]
    slowest = max(verdicts, key=lambda v: v.seconds or 0.0, default=None)
    lines = [] if slowest is None else [f"slowest root: {slowest.line}"]
    lines += [f"{first.topology.name}: {first.request.collective}, {first.topology.ranks} ranks, every root"]
    for synthesis in syntheses:
        root, solution = synthesis.problem.collective.root, synthesis.by_steps.solution
        time = "" if synthesis.verdict is None else f", {synthesis.verdict.line}"
        said = not solution.certificate.proven_optimal and solution.ending == synthesis.ending
        cut = _ENDINGS[synthesis.ending] if synthesis.cut_short and not said else ""  # the choice for the size
        steps = counted(solution.certificate.steps, "step")
        lines.append(f"  root {root:<7} {steps}, {_quality(synthesis)}{cut}{time}")
    programs = ", every program executed" if first.programs else ""
    unproved = sum(not synthesis.by_steps.recheck.complete for synthesis in syntheses)
    bounds = f"bounds rechecked but for {counted(unproved, 'root')}" if unproved else "bounds rechecked"
    lines.append(f"  verified     every schedule replayed{programs}, {bounds}")
    lines += [f"  wrote        {path}" for path in paths]
    lines += [f"  {line}" for line in _install(first)]
    by_help = {warned.help: warned for synthesis in reversed(syntheses) for warned in synthesis.warnings}
    lines += warning_lines(by_help.values())
    for synthesis in syntheses if explain else ():
        root = synthesis.problem.collective.root
        lines += [f"root {root}: {explanation(synthesis)}", *decision_lines(synthesis.decisions)]
    return lines + _advice_lines(first.advice)


def warning_lines(warnings: Iterable[Warned]) -> Iterable[str]:
    """Two lines a warning: what may go wrong, and what to do about it."""
    for warned in warnings:
        yield f"  WARNING      {warned.message}"
        yield f"               {warned.help}"


def _advice_lines(advice: str | None) -> list[str]:
    """The last line of a report of programs that are for no runtime."""
    return [] if advice is None else [f"  next         {advice}"]


_ENDINGS: dict[Ending, str] = {  # why the search did not go on
    "bound": "",
    "tried": "; the strategy has nothing left to try",
    "solver": "; the solver's units ended, a higher --effort gives it more",
    "time": "; cut short by the time budget, more may improve it",
    "interrupt": "; cut short by Ctrl-C, more time may improve it",
}


def _quality(synthesis: Synthesis) -> str:
    solution = synthesis.by_steps.solution
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
    "prices": "prices of resources",
    "latency": "the path of most latency",
}


def written_lines(synthesis: Synthesis) -> Iterable[str]:
    """Which candidate the program is of, and why none is quicker."""
    optimality, choice = synthesis.time_optimality, synthesis.choice
    size = size_text(optimality.size, EXACT)
    if (synthesis.request.size or 0) % 1000:  # 64M is 67.1089 MB
        yield f"size         {synthesis.request.size:,} bytes"
    if choice is not None:
        short = "; cut short, more time may find a quicker one" if choice.cut_short else ""
        yield f"chosen       {choice.label}: the quickest of {choice.tried} for {size}{short}"
    if synthesis.step_model is not None:
        yield "             the programs and the schedule file are of it; what follows of steps is of the"
        yield "             schedule with the fewest, which --objective steps writes"
    if optimality.bound is None:
        return
    figures = optimality.figures()
    kind = _BOUND_WORDS[optimality.bound.kind]
    yield f"limit        {figures['bound_us']:,.2f} us by {kind}: {optimality.proof}"
    if optimality.tree_bound is not None:
        trees = f"{figures['tree_bound_us']:,.2f} us"
        yield f"             along trees, from in-trees to out-trees of one root, no less than {trees}"


def time_optimality_lines(synthesis: Synthesis) -> Iterable[str]:
    """The time of the schedule, which is no verdict: what runs is the program."""
    optimality = synthesis.by_steps.time_optimality
    if optimality.seconds is None or optimality.bound is None:
        return
    figures, costs = optimality.figures(), runtime_words(synthesis.request.runtime)
    size = size_text(optimality.size, EXACT)
    choice = synthesis.choice if synthesis.by_steps is synthesis else None
    way, how = "step by step", "simulated"
    if choice is not None and choice.pipelined:
        way, how = "in steady state", "its trees at best"
    yield (
        f"{way} {size} in {figures['predicted_us']:,.2f} us (the schedule, {how}, {costs}), "
        f"algbw {figures['algbw_GBps']:.2f} GB/s, busbw {figures['busbw_GBps']:.2f} GB/s"
    )


def _install(synthesis: Synthesis) -> Iterable[str]:
    """One line a target: the variables that make its runtime take the file."""
    for target in synthesis.targets if synthesis.programs else ():
        variables = " ".join(f"{name}={value}" for name, value in target.environment)
        how = variables or "as the runtime asks"
        yield f"install      {target.name}: {how}  (hetesynth install-hint {target.name})"


def composition_summary(files: ComposedFiles, paths: Iterable[Path]) -> dict[str, Any]:
    """The object ``synth --json`` prints of a composition, and of programs beside it. Scripts depend on these
    names."""
    done = files.composed
    task = done.composition.task
    timer = done.run.timer
    programs = {} if files.synthesis is None else synthesis_summary(files.synthesis, paths)
    return {
        "collective": task.collective,
        "ranks": task.cluster.ranks,
        "chunks": task.chunks,
        "strategy": "composition",
        "cluster": task.cluster.name,
        "outputs": [str(path) for path in paths],
        "composition": {
            "pods": len(task.cluster.pods),
            "pod_types": [
                {"gpus": t.ranks, "pods": sum(pod.type == i for pod in task.cluster.pods)}
                for i, t in enumerate(task.cluster.types)
            ],
            "chunk_bytes": task.chunk_bytes,
            "between_pods": list(done.composition.ways),
            "inside_optimal": done.composition.inside_optimal,
            "rounds": [len(phase.rounds) for phase in done.composition.phases],
            "predicted_us": done.seconds * 1e6,
            "bound_us": float(done.bound.seconds) * 1e6,
            "bound_proof": done.bound.proof,
            "gap": done.gap,
            "phase_bound_us": None if done.phase_bound is None else float(done.phase_bound.seconds) * 1e6,
            "deliveries_checked": done.deliveries,
        },
        "no_program": files.no_program,
        "seed": done.run.budget.seed,
        "seconds": round(timer.total, 3),
        "seconds_by_phase": {name: round(value, 3) for name, value in timer.phases.items()},
        "decided_by_clock": list(done.run.budget.clock_decisions.told()),
        **programs,
    }


def composition_report(files: ComposedFiles, paths: Iterable[Path]) -> list[str]:
    """The composition in a few lines, then the report of the programs, or why there are none."""
    done = files.composed
    task = done.composition.task
    size = size_text(task.cluster.ranks * task.chunks * task.chunk_bytes)
    types = counted(len(task.cluster.types), "type")
    lines = [
        f"composition {microseconds(done.seconds)} for {size}: {100 * done.gap:.2f} % above the limit "
        f"(proved: {microseconds(float(done.bound.seconds))})",
        f"  {task.collective} on {task.cluster.name}: {counted(task.cluster.ranks, 'GPU')} in "
        f"{counted(len(task.cluster.pods), 'pod')} of {types}",
        *(f"  note: {note}" for note in task.cluster.notes),
        f"  between pods: {'; then '.join(done.composition.ways)}",
        f"  limit: {done.bound.proof}",
        f"  checked: {counted(done.deliveries, 'delivery').replace('deliverys', 'deliveries')}, "
        "wires and groups in every interval",
    ]
    if done.phase_bound is not None and done.phase_bound.seconds > done.bound.seconds:
        least = microseconds(float(done.phase_bound.seconds))
        lines.append(f"  a reduce-scatter and then an allgather take {least} at least")
    if files.synthesis is not None:
        return lines + synthesis_report(files.synthesis, paths)
    if files.no_program is not None:
        lines.append(f"  no program: {files.no_program}")
    timer = done.run.timer
    phases = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in timer.phases.items())
    return [*lines, f"  seconds: {timer.total:.1f} ({phases})", *(f"wrote {path}" for path in paths)]
