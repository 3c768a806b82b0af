"""What ``synth`` prints of a composition, as text and as plain values for JSON."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hetesynth.model.words import counted, microseconds, size_text

if TYPE_CHECKING:
    from hetesynth.engine.composition import Composed, ComposedFiles


def composition_values(files: ComposedFiles, paths: Iterable[Path]) -> dict[str, Any]:
    """The object ``synth --json`` prints of a composition alone. Scripts depend on these names."""
    done = files.composed
    task = done.composition.task
    timer = done.run.timer
    return {
        "collective": task.collective,
        "ranks": task.cluster.ranks,
        "chunks": task.chunks,
        "strategy": "composition",
        "cluster": task.cluster.name,
        "outputs": [str(path) for path in paths],
        "composition": composition_figures(done),
        "no_program": files.no_program,
        "seed": done.run.budget.seed,
        "seconds": round(timer.total, 3),
        "seconds_by_phase": {name: round(value, 3) for name, value in timer.phases.items()},
        "decided_by_clock": list(done.run.budget.clock_decisions.told()),
    }


def composition_figures(done: Composed) -> dict[str, Any]:
    """The composition by itself."""
    task = done.composition.task
    return {
        "pods": len(task.cluster.pods),
        "pod_types": [{"gpus": t.ranks, "pods": _often(done, i)} for i, t in enumerate(task.cluster.types)],
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
    }


def composition_lines(files: ComposedFiles) -> list[str]:
    """The composition in a few lines."""
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
    return lines


def composition_report(files: ComposedFiles, paths: Iterable[Path]) -> str:
    """The short report of a composition without programs."""
    lines = composition_lines(files)
    if files.no_program is not None:
        lines.append(f"  no program: {files.no_program}")
    timer = files.composed.run.timer
    phases = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in timer.phases.items())
    return "\n".join([*lines, f"  seconds: {timer.total:.1f} ({phases})", *(f"wrote {path}" for path in paths)])


def _often(done: Composed, number: int) -> int:
    return sum(pod.type == number for pod in done.composition.task.cluster.pods)
