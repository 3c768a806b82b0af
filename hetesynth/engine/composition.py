"""A judged composition of schedules of pods, made from a topology file, and programs where they can hold it. The
links between GPUs of different pods are never built."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hetesynth import __version__
from hetesynth.engine.artifacts import Synthesis
from hetesynth.engine.compilation import Compilation, compilation
from hetesynth.engine.places import COMPOSITION, COMPOSITION_SUFFIX
from hetesynth.engine.problem import verified_solver
from hetesynth.engine.request import Request
from hetesynth.engine.synth import synthesize
from hetesynth.errors import HetesynthError, InternalError
from hetesynth.model.pods import PodBound
from hetesynth.model.rank_places import places_document
from hetesynth.model.words import counted
from hetesynth.search.bounds.pods import composed_bound
from hetesynth.search.chunking import DEFAULT_CHUNK_BYTES
from hetesynth.search.collectives import collective
from hetesynth.search.pods.compose import COMPOSED, Composition, Task, compose
from hetesynth.search.registry import strategy
from hetesynth.search.search import Progress
from hetesynth.topology.language import load_pods


@dataclass(frozen=True)
class ComposedFiles:
    """A composition and the programs of the same cluster. ``no_program``: why there are no programs."""

    composed: Composed
    synthesis: Synthesis | None
    no_program: str | None

    @property
    def name(self) -> str:
        """The common part of the names of the files, where the user states none."""
        task = self.composed.composition.task
        return f"{task.cluster.name}-{task.collective}" + (f"-c{task.chunks}" if task.chunks > 1 else "")

    def write(self, stem: Path) -> list[Path]:
        """Write all files next to each other, all or none, and return their paths."""
        from hetesynth.files.atomic import write_all

        if self.synthesis is not None:
            files = {**self.synthesis.files, COMPOSITION_SUFFIX: self.composed.document}
            return replace(self.synthesis, files=files).write(stem)
        path = stem.with_name(stem.name + COMPOSITION_SUFFIX)
        with self.composed.run.timer.phase("write"):
            write_all({path: self.composed.document})
        return [path]


def compose_files(request: Request, progress: Progress) -> ComposedFiles:
    """Return the files of ``request``. HetesynthError: the cluster cannot be composed."""
    run = compilation(request, progress)
    done = composed(run)
    ranks, most = done.composition.task.cluster.ranks, 128
    if request.schedule_only:
        return ComposedFiles(done, None, "--schedule-only")
    if ranks > most:
        return ComposedFiles(done, None, f"{ranks} GPUs are more than the {most} of which programs are tried")
    flat = replace(request, strategy=COMPOSITION, objective="steps")
    try:
        return ComposedFiles(done, synthesize(flat, progress, run.budget_left), None)
    except HetesynthError as error:
        return ComposedFiles(done, None, error.message)


FORMAT = "hetesynth-composition"


def composition_document(composition: Composition, header: Mapping[str, Any]) -> bytes:
    """Return the JSON of ``composition``. Gates of additions, found on the reversed cluster, are turned around."""

    def text(value: object) -> str:
        return json.dumps(value, sort_keys=True, allow_nan=False, ensure_ascii=True, separators=(",", ":"))

    task, cluster = composition.task, composition.task.cluster
    phases = []
    for phase in composition.phases:
        entries, kinds = phase.entries, []
        for number, kind in enumerate(entries.gates.kinds):
            links, spreads = cluster.types[kind.type].links, (phase.home[number], phase.entered[number])
            used = sorted({link for spread in spreads for step in spread.steps for _, link in step})
            index = {link: i for i, link in enumerate(used)}
            gates = [[gate.gpu, list(gate.out), list(gate.into)] for gate in kind.gates]
            if phase.adding:
                gates = [[gate.gpu, list(gate.into[::-1]), list(gate.out[::-1])] for gate in kind.gates]
            home, entered = ([[[s, index[link]] for s, link in step] for step in one.steps] for one in spreads)
            kinds.append(
                {
                    "order": list(entries.order[number]),
                    "gates": gates,
                    "slots": list(entries.slots[number]),
                    "own": list(entries.own[number]) if entries.own else [],
                    "links": [[links[i].src, links[i].dst, list(links[i].wires)] for i in used],
                    "home": home,
                    "entered": entered,
                }
            )
        values: dict[str, Any] = {
            "adds": int(phase.adding),
            "kinds": kinds,
            "kind_of": list(entries.gates.kind_of),
            "uplinks": [
                [[u.into, u.out] if phase.adding else [u.out, u.into] for u in uplinks]
                for uplinks in entries.gates.uplinks
            ],
            "paths": [[a, b, list(path)] for a, b, path in phase.paths],
            "rounds": [list(span) for span in phase.rounds],
            "batches": [[list(times) for times in kind] for kind in phase.batches],
        }
        rows = "".join(f'   "{key}": {text(value)},\n' for key, value in values.items())
        moves = ",\n".join(f"    {text([list(move) for move in moves])}" for moves in phase.moves)
        phases.append(f'  {{\n{rows}   "moves": [\n{moves}\n   ]\n  }}')
    values = {
        "format": FORMAT,
        "version": 1,
        "header": header,
        "cluster": cluster.name,
        "collective": task.collective,
        "ranks": cluster.ranks,
        "chunks_per_rank": task.chunks,
        "chunk_bytes": task.chunk_bytes,
        "pods": [[pod.name, pod.first_rank, cluster.size(p)] for p, pod in enumerate(cluster.pods)],
    }
    rows = "".join(f' "{key}": {text(value)},\n' for key, value in values.items())
    return ("{\n" + rows + ' "phases": [\n' + ",\n".join(phases) + "\n ]\n}\n").encode("ascii")


INSIDE = ("auto", "tree-packing", "server-rings", "hierarchical")  # what searches inside pods


@dataclass(frozen=True)
class Composed:
    """A composition that its judge passed. ``phase_bound``: of an allreduce, the sum of the bounds of its two
    phases; else None."""

    run: Compilation
    composition: Composition
    bound: PodBound
    phase_bound: PodBound | None
    document: bytes
    deliveries: int

    @property
    def seconds(self) -> float:
        """The seconds that the composition takes."""
        return self.composition.picoseconds / 1e12

    @property
    def gap(self) -> float:
        """The time of the composition over the bound, minus 1; infinite where the bound is 0."""
        return float(self.seconds / self.bound.seconds) - 1 if self.bound.seconds else math.inf


def composed(run: Compilation) -> Composed:
    """Return the composition that ``run`` asks for, judged. HetesynthError where there is none."""
    from hetesynth.judge.composition.document import MAX_CELLS, MAX_RANKS
    from hetesynth.judge.composition.judge import judge_composition

    request, timer = run.request, run.timer
    if request.collective not in COMPOSED:
        message = f"{request.collective} is not composed of pods"
        way_out = f"composed are {', '.join(COMPOSED)}; choose another strategy"
        raise HetesynthError(message, code="HS413", help=way_out)
    if request.exclusion == "step" and request.collective != "allgather":
        message = "a composition has no steps in which eq. 8 could hold: each addition counts its own time"
        raise HetesynthError(message, code="HS413", help="leave --exclusion out, or choose another strategy")
    with timer.phase("parse"):
        cluster = load_pods(request.file)
        collective(request.collective, len(cluster.pods), request.chunks, request.root)  # does the root fit?
    ranks, chunks = cluster.ranks, request.chunks
    if ranks > MAX_RANKS or ranks * ranks * chunks > MAX_CELLS:
        message = f"{ranks} GPUs with {counted(chunks, 'chunk')} each are more than the judge follows"
        way_out = "use fewer chunks per rank, or compose parts of the cluster"
        raise HetesynthError(message, code="HS414", help=way_out)
    size = request.chunking.chunk_bytes or cluster.chunk_bytes or DEFAULT_CHUNK_BYTES
    if request.size is not None:  # a size of the buffer is cut into chunks, rounded up
        size = max(1, math.ceil(request.size / (cluster.ranks * request.chunks)))
    chunking = replace(request.chunking, chunk_bytes=size)
    task = Task(cluster, request.collective, request.chunks, size, chunking)
    budget = run.budget.part(0.5)  # what the searches inside pods get together
    if budget.seconds is None:
        budget = replace(budget, seconds=20.0)
    question = budget, request.policy
    solvers = tuple(verified_solver(strategy(name), *question, progress=run.progress) for name in INSIDE)
    with timer.phase("synthesis"):
        composition = compose(task, solvers, run.progress)
    with timer.phase("bound"):
        run.progress("pods: bound", None)
        shape = task.chunks, task.chunk_bytes
        bound, phase_bound = composed_bound(cluster, task.collective, *shape), None
        if task.collective == "allreduce":
            halves = [composed_bound(cluster, half, *shape) for half in ("reducescatter", "allgather")]
            seconds = halves[0].seconds + halves[1].seconds
            phase_bound = PodBound(seconds, f"{halves[0].proof}; then {halves[1].proof}", 0, None)
    places = places_document(cluster)
    header = {
        "hetesynth": __version__,
        "strategy": COMPOSITION,
        "between_pods": list(composition.ways),
        "seed": request.budget.seed,
        "picoseconds": composition.picoseconds,
        "bound_picoseconds": math.floor(bound.seconds * 10**12),
        "bound_proof": bound.proof,
        **({"losses": list(cluster.notes)} if cluster.notes else {}),
        **({"ranks": places} if any(place["host"] for place in places) else {}),
    }
    document = composition_document(composition, header)
    with timer.phase("verify"):
        run.progress("pods: every delivery is checked", None)
        verdict = judge_composition(document, cluster)
        if verdict.violations:
            raise InternalError(f"a composition does not verify: {verdict.violations[0].message}")
        if verdict.picoseconds != composition.picoseconds:
            raise InternalError("the judge of compositions counts another time")
    return Composed(run, composition, bound, phase_bound, document, verdict.deliveries)
