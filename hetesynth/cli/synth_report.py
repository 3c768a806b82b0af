"""What ``synth`` prints: plain values for JSON, and the lines that say the most of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hetesynth.model.cegis_trace import totals
from hetesynth.model.decisions import OVER_EFFORT, Decision
from hetesynth.model.schedule import hops
from hetesynth.model.target import TARGETS
from hetesynth.model.words import EXACT, clock_line, counted, microseconds, size_text, whole_percent
from hetesynth.search.chunking import LARGE_ROUNDING_ERROR

if TYPE_CHECKING:
    from hetesynth.engine.artifacts import Synthesis
    from hetesynth.engine.composition import ComposedFiles
    from hetesynth.engine.formats import Emitted
    from hetesynth.model.bound import Certificate


def synthesis_summary(synthesis: Synthesis, paths: Iterable[Path], *, explain: bool = False) -> dict[str, Any]:
    """Return the object ``synth --json`` prints. Scripts depend on these names.

    All figures are of what is written; those of the schedule with the fewest steps, where another one is written,
    stand under ``fewest_steps``. ``explain``: with what was decided."""
    solution, chunking = synthesis.solution, synthesis.chunking
    worst, certificate, schedule = chunking.worst_error(), solution.certificate, solution.schedule
    choice, fewest = synthesis.choice, synthesis.step_model
    decisions = [decision.plain() for decision in synthesis.decisions]
    lines = () if synthesis.verdict is None else synthesis.verdict.explanation
    explained = {"explanation": explanation(synthesis), "verdict_explanation": lines, "decisions": decisions}
    return {
        **({"verdict": None} if synthesis.verdict is None else synthesis.verdict.figures()),
        "collective": synthesis.request.collective,
        "ranks": synthesis.topology.ranks,
        "chunks": synthesis.chunks,
        "strategy": synthesis.strategy,
        **_steps(certificate),
        "fewest_steps": fewest
        and {
            **_steps(fewest.solution.certificate),
            "strategy": fewest.strategy,
            "chunks": fewest.chunks,
            "bound_rechecked": fewest.recheck.complete,
        },
        "seconds": round(synthesis.timer.total, 3),
        "outputs": [str(path) for path in paths],
        "cluster": synthesis.topology.name,
        "losses": list(synthesis.topology.notes),
        "root": synthesis.problem.collective.root,
        "seed": synthesis.budget.seed,
        "bound_rechecked": synthesis.recheck.complete,
        "bound_within_composition": solution.within,
        "cut_short": synthesis.cut_short,
        "ended_by": synthesis.ending,
        "decided_by_clock": list(synthesis.decided_by_clock),
        "transfers": len(schedule.transfers),
        "hops": hops(schedule, synthesis.topology.links),
        "chunk_bytes": chunking.chunk_bytes,
        "tau_ref_us": float(chunking.tau_ref * 1_000_000),
        "worst_rounding_error": None if worst is None else float(worst.error),
        "first_schedule_seconds": round(solution.first_seconds, 3),  # of the search, after the bound
        "seconds_by_phase": {name: round(value, 3) for name, value in synthesis.timer.phases.items()},
        **synthesis.time_optimality.figures(),
        "objective": synthesis.request.objective if synthesis.request.size is None else "time",
        "program_predicted_us": _microseconds(synthesis.program_seconds),
        "runtime_costs": synthesis.request.runtime is not None,
        "size_asked": synthesis.request.size,
        "choice": choice and {"candidate": choice.label, "tried": choice.tried, "cut_short": choice.cut_short},
        "programs": {
            program.target.name + (".inplace" if program.in_place else "")
            if len(synthesis.targets) > 1
            else ("inplace" if program.in_place else "outofplace"): program_figures(program)
            for program in synthesis.programs.values()
        },
        "withheld": list(synthesis.withheld),
        "cegis": totals(synthesis.cegis) if synthesis.cegis else None,
        "warnings": [asdict(warned) for warned in synthesis.warnings],
        "runtime_advice": synthesis.advice,
        **(explained if explain else {}),
    }


def _steps(certificate: Certificate) -> dict[str, Any]:
    """Return the steps of a schedule and what is proved of them."""
    return {
        "steps": certificate.steps,
        "lower_bound": certificate.bound.steps,
        "proven_optimal": certificate.proven_optimal,
        "gap": certificate.gap,
        "bound_method": certificate.bound.method,
        "bound_proof": certificate.bound.proof,
    }


def _microseconds(seconds: float | None) -> float | None:
    return None if seconds is None else seconds * 1e6


def program_figures(program: Emitted) -> dict[str, Any]:
    """Thread blocks, steps and channels of one program."""
    figures = program.figures
    return {
        "target": program.target.name,
        "in_place": program.in_place,
        **asdict(figures),
        "instructions": dict(figures.instructions),
        "channels_per_link": [[src, dst, count] for (src, dst), count in figures.channels_per_link],
        "max_channels_per_link": figures.max_channels_per_link,
        "notes": list(program.notes),
    }


MOST_LINES = 8  # of a report


def synthesis_report(document: dict[str, Any]) -> Iterator[str]:
    """Yield at most eight lines of what ``synth --json`` prints; ``--explain`` adds the rest."""
    size, warnings = size_text(document["size"], EXACT), document["warnings"]
    why = "interrupted" if document["ended_by"] == "interrupt" else "too many transfers (--size asks for it)"
    root = "" if document["root"] is None else f", root {document['root']}"
    label = document["strategy"] if document["choice"] is None else document["choice"]["candidate"]
    steps = f"{counted(document['steps'], 'step')}, {_quality(document)}"
    explained = "verdict_explanation" in document
    notes = [f"  note         {'; '.join(document['losses'])}"] if document["losses"] else []
    if document["decided_by_clock"]:
        notes.append(f"  clock        {clock_line(document['decided_by_clock'])}")
    notes += [f"  delay        {'; '.join(map(_delay, document['delays']))}"] if document.get("delays") else []
    files = _files(document["outputs"])
    lines = [
        document["verdict"] or f"not simulated for {size}: {why}",
        f"{document['cluster']}: {document['collective']}, {document['ranks']} ranks{root}; {label}: {steps}",
        f"{_verified([document])}, {document['seconds']:.1f} s",
        *([files] if files else []),
    ]
    tail = [] if document["runtime_advice"] is None else [f"  next         {document['runtime_advice']}"]
    told = warnings if explained else warnings[: MOST_LINES - len(lines) - len(notes) - len(tail)]
    yield from (*lines, *notes, *warning_lines(told, len(warnings) - len(told)))
    if explained:
        yield from _details(document)
    yield from tail


def _details(document: dict[str, Any]) -> Iterator[str]:
    """Yield what ``--explain`` adds: limits, steps, files, seconds, and each decision."""
    yield from (f"  {line}" for line in document["verdict_explanation"])
    if document["bound_us"] is not None:
        yield f"  limit        {document['bound_us']:,.2f} us at line rate: {document['time_bound_proof']}"
    yield f"  steps        {counted(document['transfers'], 'transfer')}, strategy {document['strategy']}"
    yield f"  lower bound  {document['lower_bound']}: {document['bound_proof']}"
    if document["fewest_steps"] is not None:
        fewest = document["fewest_steps"]
        proved = (
            "proved" if fewest["proven_optimal"] else f"at least {fewest['lower_bound']}: {fewest['bound_proof']}"
        )
        chunks = counted(fewest["chunks"], "chunk")
        what = f"{counted(fewest['steps'], 'step')} with {chunks} per rank, {proved}"
        yield f"  fewest       {what}; --objective steps writes it"
    cegis = document["cegis"]
    if cegis is not None:
        counts = (counted(cegis[f"{what}s"], what) for what in ("iteration", "counterexample", "call"))
        yield f"  cegis        {', '.join(counts)} of Z3, {cegis['seconds']:.2f} s"
    if document["predicted_us"] is not None:
        rates = f"algbw {document['algbw_GBps']:.2f} GB/s, busbw {document['busbw_GBps']:.2f} GB/s"
        yield f"  schedule     {document['predicted_us']:,.2f} us (estimated), {rates}"
    worst = document["worst_rounding_error"] or 0
    rounding = f"worst rounding error {worst:+.1%}" if worst else "exact"
    if abs(worst) > LARGE_ROUNDING_ERROR:
        rounding += "; LARGE: steps tell little of time, --size chooses by time"
    chunk = f"chunk {size_text(document['chunk_bytes'], EXACT)}, tau_ref {document['tau_ref_us']:.4g} us"
    yield f"  capacities   {chunk}, {rounding}"
    for name, program in document["programs"].items():
        yield (
            f"  {name:<12} at most {counted(program['max_thread_blocks'], 'thread block')} per GPU, "
            f"{counted(program['max_steps'], 'step')} per block, {counted(program['channels'], 'channel')}"
        )
        yield from (f"               {note}" for note in program["notes"])
    yield from _install(document["programs"])
    yield _seconds(document)
    yield document["explanation"]
    yield from decision_lines(document["decisions"])


def _delay(row: dict[str, Any]) -> str:
    """Return what a program takes at one delay between data centers."""
    share = whole_percent(row["percent_of_limit"])
    return f"{row['delay_us'] / 1000:g} ms: {row['predicted_us']:,.0f} us, {share} % of the limit there"


def _quality(document: dict[str, Any]) -> str:
    """Return what is proved of the steps, and what cut the search short."""
    proved = "proven fewest" if document["proven_optimal"] else f"at least {document['lower_bound']}"
    if not document["proven_optimal"] and document["bound_within_composition"] == document["steps"]:
        proved += ", fewest for reduce-scatter followed by allgather"
    short = {"time": "the time budget", "interrupt": "Ctrl-C"}.get(document["ended_by"])
    return f"{proved}; cut short by {short}, more time may improve it" if short else proved


def _seconds(document: dict[str, Any]) -> str:
    phases = ", ".join(f"{name} {value:.2f}" for name, value in document["seconds_by_phase"].items())
    return f"  seconds      {document['seconds']:.2f}  ({phases})"


def _verified(documents: Sequence[dict[str, Any]]) -> str:
    executed = ", every program executed" if documents[0]["programs"] else ""
    part = "" if all(document["bound_rechecked"] for document in documents) else " in part"
    return f"  verified     schedule replayed{executed}, bound rechecked{part}"


def _files(outputs: Sequence[str]) -> str:
    """Return one line with the files, the folder once; nothing where there are none."""
    paths = [Path(path) for path in outputs]
    folder = f"{paths[0].parent}/" if paths and paths[0].parent != Path() else ""
    return f"  wrote        {folder}{', '.join(path.name for path in paths)}" if paths else ""


def _install(programs: dict[str, Any]) -> Iterator[str]:
    """Yield for each target of ``programs`` the variables that make its runtime take them."""
    for name in dict.fromkeys(program["target"] for program in programs.values()):
        variables = " ".join(f"{variable}={value}" for variable, value in TARGETS[name].environment)
        yield f"  install      {name}: {variables or 'as the runtime asks'}  (hetesynth install-hint {name})"


def warning_lines(warnings: Iterable[dict[str, Any]], more: int = 0) -> Iterator[str]:
    """Yield a line a warning: what may go wrong, and what to do about it. ``more``: how many are not shown."""
    lines = [f"  WARNING      {warned['message']}; {warned['help']}" for warned in warnings]
    if more and lines:
        lines[-1] += f" (and {counted(more, 'warning')} more: --explain)"
    yield from lines


def explanation(synthesis: Synthesis) -> str:
    """Return in one sentence what was chosen, what it beat, and what more effort would try."""
    choice, certificate = synthesis.choice, synthesis.solution.certificate
    more = _more_effort(synthesis.decisions, synthesis.ending)
    if choice is None:
        tried = {d.what: d.why for d in synthesis.decisions if d.why.startswith("steps: ")}
        fewest = [name for name, why in tried.items() if why == f"steps: {certificate.steps}"]
        chosen = fewest[0] if fewest else synthesis.strategy
        beaten = ", ".join(name for name in tried if name != chosen)
        if certificate.proven_optimal:
            more = "more effort would find no fewer: the bound is met"
        return _sentence(f"{chosen}, of {counted(certificate.steps, 'step')}", beaten, more)
    seconds, beaten = synthesis.program_seconds, ""
    if choice.runner_up is not None:
        beaten = f"{choice.runner_up[0]}, at {microseconds(choice.runner_up[1])}"
        beaten += f", and {choice.tried - 2} more" if choice.tried > 2 else ""
    return _sentence(choice.label + ("" if seconds is None else f", at {microseconds(seconds)}"), beaten, more)


def atlas_explanation(index: dict[str, Any], decisions: Sequence[Decision]) -> str:
    """Return in one sentence an atlas's candidates, how many others they beat, what more effort would try."""
    labels = list(dict.fromkeys(entry["candidate"] for entry in index["ranges"]))
    tried = {d.what for d in decisions if d.verdict == "tried"} - set(labels)
    beaten = f"{len(tried)} more" if tried else ""
    return _sentence(", ".join(labels), beaten, _more_effort(decisions, index["ended_by"]))


def _sentence(chosen: str, beaten: str, more: str) -> str:
    return f"chosen was {chosen}, which {f'beat {beaten}' if beaten else 'had nothing to beat'}; {more}"


def _more_effort(decisions: Iterable[Decision], ending: str) -> str:
    left = dict.fromkeys(
        f"{d.what} of {d.stage.rpartition(', ')[2]}" if d.what.startswith("all ") else d.what
        for d in decisions
        if OVER_EFFORT in d.why
    )
    if left:
        more = f" and {len(left) - 1} more" if len(left) > 1 else ""
        return f"more effort would try {next(iter(left))}{more}"
    if ending in ("time", "interrupt"):
        return "it was cut short: more time would try more"
    return f"more effort would {'give the solver more units' if ending == 'solver' else 'try nothing else'}"


def decision_lines(decisions: Iterable[dict[str, Any]]) -> Iterator[str]:
    """Yield a heading for each stage and a line for each decision."""
    yield "decisions"
    for stage, group in groupby(decisions, key=lambda decision: decision["stage"]):
        yield f"  {stage}"
        for decision in group:
            yield f"    {decision['what']}: {decision['verdict']}: {decision['why']}"


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


def every_root_report(document: dict[str, Any]) -> Iterator[str]:
    """The short report after ``synth --root all``: a line a root, then what holds for all."""
    roots = document["roots"]
    slowest = max(roots, key=lambda one: one["program_predicted_us"] or one["predicted_us"] or 0.0)
    yield f"slowest root: {slowest['verdict'] or 'not simulated'}"
    yield f"{document['cluster']}: {document['collective']}, {document['ranks']} ranks, every root"
    for one in roots:
        steps = f"{counted(one['steps'], 'step')}, {_quality(one)}"
        yield f"  root {one['root']:<7} {steps}" + (f", {one['verdict']}" if one["verdict"] else "")
    yield _verified(roots)
    yield _files(document["outputs"])
    yield from warning_lines({one["help"]: one for each in reversed(roots) for one in each["warnings"]}.values())
    for one in roots:
        if "explanation" in one:
            yield from (f"root {one['root']}: {one['explanation']}", *decision_lines(one["decisions"]))
    if roots[0]["runtime_advice"] is not None:
        yield f"  next         {roots[0]['runtime_advice']}"


def composition_summary(files: ComposedFiles, paths: Iterable[Path]) -> dict[str, Any]:
    """The object ``synth --json`` prints of a composition, and of programs beside it. Scripts depend on these
    names."""
    done = files.composed
    task, timer = done.composition.task, done.run.timer
    programs = {} if files.synthesis is None else synthesis_summary(files.synthesis, paths)
    return {
        "collective": task.collective,
        "ranks": task.cluster.ranks,
        "chunks": task.chunks,
        "strategy": "composition",
        "cluster": task.cluster.name,
        "losses": list(task.cluster.notes),
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


def composition_report(document: dict[str, Any]) -> Iterator[str]:
    """The composition in a few lines, then the report of the programs, or why there are none."""
    composed = document["composition"]
    size = size_text(document["ranks"] * document["chunks"] * composed["chunk_bytes"])
    time, limit = (microseconds(composed[name] / 1e6) for name in ("predicted_us", "bound_us"))
    yield f"composition {time} for {size}: {100 * composed['gap']:.2f} % above the limit (proved: {limit})"
    pods = f"{counted(composed['pods'], 'pod')} of {counted(len(composed['pod_types']), 'type')}"
    yield f"  {document['collective']} on {document['cluster']}: {document['ranks']} GPUs in {pods}"
    yield from (f"  note: {note}" for note in document["losses"])
    yield f"  between pods: {'; then '.join(composed['between_pods'])}"
    yield f"  limit: {composed['bound_proof']}"
    yield f"  checked: {composed['deliveries_checked']} deliveries, wires and groups in every interval"
    if "programs" in document:
        yield from synthesis_report(document)
        return
    yield f"  no program: {document['no_program']}"
    yield _seconds(document)
    yield from (f"wrote {path}" for path in document["outputs"])
