"""A schedule for a cluster of pods: between pods, inside pods, and both together (HeteCCL, section 7).

In: a ``PodCluster``, a collective, the search for what is inside. Out: a ``Composition``, the quickest of a few
ways to send between pods. The work inside is done once for each type of pod.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Literal

import numpy as np

from hetesynth.errors import HetesynthError
from hetesynth.machine_code import Ints
from hetesynth.model.pods import PodCluster
from hetesynth.search.chunking import ChunkingOptions
from hetesynth.search.copy_problem import NoRoute
from hetesynth.search.pods.gates import Entries, GateTable, Move, Round, doubling, entries, gates_of, ring
from hetesynth.search.pods.loads import Crossings, Inside, Spread, Spreads, StepLoads, picoseconds
from hetesynth.search.search import Progress
from hetesynth.search.solve import Solver

Times = tuple[int, ...]


@dataclass(frozen=True)
class Phase:
    """An allgather of pods, or (``adding``) a reduce-scatter, which is an allgather read backwards.

    ``home``, ``entered``: by kind, how a pod's own chunks and those that entered are spread; when adding, how what
    stays and what leaves is collected. ``rounds``: begin and end in picoseconds. ``batches[k]``: for kind k, the
    times at which steps begin, and the end, of its own chunks and then of each round."""

    entries: Entries
    home: tuple[Spread, ...]
    entered: tuple[Spread, ...]
    moves: tuple[Round, ...]
    rounds: tuple[tuple[int, int], ...]
    batches: tuple[tuple[Times, ...], ...]
    paths: tuple[tuple[int, int, tuple[int, ...]], ...]
    adding: bool = False

    @property
    def end(self) -> int:
        """The picoseconds until everything has ended."""
        return max([end for _, end in self.rounds] + [times[-1] for kind in self.batches for times in kind])


@dataclass(frozen=True)
class Timer:
    """The facts on which the times of one candidate depend besides its rounds.

    A round begins when the one before has ended. What entered a pod in a round is spread there afterwards, a
    *batch* for each round, while later rounds go on, unless gates and links inside share a wire. Then all go in
    lockstep: an interval for a round, the first step of the batch before it, the second of the one before it, and
    so on, as long as all of them together need."""

    entries: Entries
    crossings: Crossings
    inside: Inside
    home: tuple[Spread, ...]
    entered: tuple[Spread, ...]

    def phase(self, rounds: Sequence[Round]) -> Phase:
        """Return the phase of successive ``rounds``. NoRoute: gates that are to exchange chunks are not joined."""
        table = GateTable(self.entries)
        kinds, kind_of = range(len(self.home)), np.array(self.entries.gates.kind_of, np.int64)
        whole = [(self.entries.chunks,) * len(spread.origins) for spread in self.home]
        batches: list[list[Times]] = [[self._batch(k, self.home[k], [whole[k]], 0)] for k in kinds]
        now = 0 if self.entries.own else max((b[0][-1] for b in batches), default=0)
        spans = []
        for moves in rounds:
            src, dst, position = expanded(moves)
            load, wait = self.crossings.load(table.at(src, position), table.at(dst, position))
            end = now + self.crossings.lasting(load, wait)
            spans.append((now, end))
            by_pod = self.slot_counts(dst, position)
            for k in kinds:  # the different numbers of chunks by slot that entered its pods
                counts = np.unique(by_pod[kind_of == k][:, : len(self.entries.slots[k])], axis=0).tolist()
                begin = max(end, batches[k][-1][-1])
                batches[k].append(self._batch(k, self.entered[k], list(map(tuple, counts)), begin))
            now = end
        return self._in_time(rounds, tuple(spans), tuple(tuple(b) for b in batches))

    def lockstep(self, rounds: Sequence[Round]) -> Phase:
        """Return the phase of ``rounds`` and steps of batches in common intervals. Raises NoRoute as ``phase``."""
        kinds, pipeline = range(len(self.home)), _Pipeline(self, rounds)
        first = 0 if self.entries.own else max(len(s.steps) for s in self.home)
        last = max(len(s.steps) for s in self.entered)
        times = [0]
        for stage in range(max(first + len(rounds) + last, max(len(s.steps) for s in self.home))):
            times.append(times[-1] + pipeline.duration(stage, first))
        batches = []
        for k in kinds:
            home, entered = len(self.home[k].steps) + 1, len(self.entered[k].steps) + 1
            later = (tuple(times[first + r + 1 :][:entered]) for r in range(len(rounds)))
            batches.append((tuple(times[:home]), *later))
        spans = tuple((times[first + r], times[first + r + 1]) for r in range(len(rounds)))
        return self._in_time(rounds, spans, tuple(batches))

    def _in_time(
        self, rounds: Sequence[Round], spans: tuple[tuple[int, int], ...], batches: tuple[tuple[Times, ...], ...]
    ) -> Phase:
        paths = tuple((a, b, path) for (a, b), path in sorted(self.crossings.paths.items()))
        return Phase(self.entries, self.home, self.entered, tuple(rounds), spans, batches, paths)

    def _batch(self, kind: int, spread: Spread, counts: Sequence[tuple[int, ...]], begin: int) -> Times:
        """Return the times of a spread's steps one after another, each as long as in the kind's slowest pod."""
        number = self.entries.gates.kinds[kind].type
        lasting = [self.inside.durations(number, spread, count) for count in counts]
        times = [begin]
        for step in range(len(spread.steps)):
            times.append(times[-1] + max((d[step] for d in lasting), default=0))
        return tuple(times)

    def slot_counts(self, dst: Ints, position: Ints) -> Ints:
        """Return the number of chunks that entered each pod at each slot."""
        slots = self.entries.slots
        width = max(map(len, slots))
        kind = np.array(self.entries.gates.kind_of, np.int64)
        length = np.array([len(pattern) for pattern in slots], np.int64)[kind[dst]]
        cells = np.bincount(dst * width + position % length, minlength=len(kind) * width)
        return cells.reshape(len(kind), width)

    def serial(self) -> bool:
        """Return True if wires of gates are used inside pods too."""
        kinds = self.entries.gates.kinds
        for k, kind in enumerate(kinds):
            pod = self.entries.gates.cluster.types[kind.type]
            steps = (*self.home[k].steps, *self.entered[k].steps)
            inside = {w for step in steps for _, link in step for w in pod.links[link].wires}
            if any(not inside.isdisjoint((*gate.out, *gate.into)) for gate in kind.gates):
                return True
        return False


class _Pipeline:
    """The loads of the intervals of a lockstep."""

    def __init__(self, timer: Timer, rounds: Sequence[Round]) -> None:
        gates = timer.entries.gates
        pods = gates.cluster.pods
        self._timer, self._rounds, self._table = timer, rounds, GateTable(timer.entries)
        self._pods = [np.flatnonzero(np.array(gates.kind_of) == k) for k in range(len(gates.kinds))]
        self._wires = [np.array([pods[p].wires for p in alike], np.int64) for alike in self._pods]
        types = [gates.cluster.types[kind.type] for kind in gates.kinds]
        self._home, self._entered = (
            [
                [StepLoads.of(pod, step, len(spread.origins)) for step in spread.steps]
                for pod, spread in zip(types, spreads, strict=True)
            ]
            for spreads in (timer.home, timer.entered)
        )
        self._counts = [timer.slot_counts(*expanded(moves)[1:]) for moves in rounds]

    def duration(self, stage: int, first: int) -> int:
        """Picoseconds of interval ``stage``; round 0 is in interval ``first``."""
        crossings, number = self._timer.crossings, stage - first
        load, wait = np.zeros(len(self._timer.entries.gates.cluster.wires), np.int64), 0
        if 0 <= number < len(self._rounds):
            src, dst, position = expanded(self._rounds[number])
            load, wait = crossings.load(self._table.at(src, position), self._table.at(dst, position))
        in_groups = Fraction(0)  # chunks over rate of the fullest stated group
        for k, pods in enumerate(self._pods):
            # the steps of this kind in this interval, each with the chunks of each pod and slot
            active = [
                (loads, np.full((len(pods), len(loads.wires)), self._timer.entries.chunks, np.int64))
                for loads in self._home[k][stage : stage + 1]
            ]
            active += [
                (loads, self._counts[number - 1 - step][pods][:, : len(loads.wires)])
                for step, loads in enumerate(self._entered[k])
                if 0 <= number - 1 - step < len(self._rounds)
            ]
            for loads, counts in active:
                if counts.any() and loads.wires.any():
                    np.add.at(load, self._wires[k], counts @ loads.wires)
                    wait = max(wait, int(loads.waits.max()))
            if active:
                total = np.sum([counts @ loads.groups for loads, counts in active], axis=0).max(axis=0).tolist()
                shares = zip(total, active[0][0].group_rates, strict=True)
                in_groups = max([in_groups, *(most / rate for most, rate in shares)])
        if not load.any() and not in_groups:
            return 0
        least = wait + picoseconds(in_groups * self._timer.inside.chunk_bytes)
        return max(crossings.lasting(load, wait), least + crossings.after)


def expanded(moves: Round) -> tuple[Ints, Ints, Ints]:
    """Sender pod, receiver pod and position of every chunk of a round."""
    rows = np.array(moves, np.int64).reshape(-1, 4)
    count = rows[:, 3]
    inside = np.arange(int(count.sum())) - np.repeat(np.cumsum(count) - count, count)
    return np.repeat(rows[:, 0], count), np.repeat(rows[:, 1], count), np.repeat(rows[:, 2], count) + inside


def backwards(phase: Phase) -> Phase:
    """Return ``phase``, an allgather on the reversed cluster, read from its end: a reduce-scatter."""
    end = phase.end

    def turned(times: Times) -> Times:
        return tuple(end - t for t in reversed(times))

    return replace(
        phase,
        home=tuple(replace(s, steps=s.steps[::-1]) for s in phase.home),
        entered=tuple(replace(s, steps=s.steps[::-1]) for s in phase.entered),
        moves=tuple([Move(m.dst, m.src, m.first, m.chunks) for m in moves] for moves in reversed(phase.moves)),
        rounds=tuple((end - b, end - a) for a, b in reversed(phase.rounds)),
        batches=tuple((turned(kind[0]), *map(turned, reversed(kind[1:]))) for kind in phase.batches),
        paths=tuple(sorted((b, a, path[::-1]) for a, b, path in phase.paths)),
        adding=True,
    )


ComposedName = Literal["allgather", "reducescatter", "allreduce"]
COMPOSED: tuple[ComposedName, ...] = ("allgather", "reducescatter", "allreduce")


@dataclass(frozen=True, slots=True)
class Task:
    """A cluster and a collective to be composed. ``options`` states the size of a chunk."""

    cluster: PodCluster
    collective: ComposedName
    chunks: int
    chunk_bytes: int
    options: ChunkingOptions


@dataclass(frozen=True)
class Composition:
    """Phases one after another; ``ways``: how each sends between pods."""

    task: Task
    phases: tuple[Phase, ...]
    ways: tuple[str, ...]

    @property
    def picoseconds(self) -> int:
        """The picoseconds that all phases take together."""
        return sum(phase.end for phase in self.phases)

    @property
    def inside_optimal(self) -> bool:
        """True if every schedule inside a pod has the least number of steps."""
        return all(s.optimal for phase in self.phases for s in (*phase.home, *phase.entered))


def compose(task: Task, solvers: tuple[Solver, ...], progress: Progress) -> Composition:
    """Return the composition for ``task``, else raise HetesynthError; ``solvers[0]`` searches inside all pods."""
    if len(task.cluster.pods) < 2:
        raise HetesynthError(
            "the cluster has one instance: there is nothing to compose",
            code="HS412",
            help="state servers, or groups of servers, as instances of the cluster, or choose another strategy",
        )
    phases, ways = list[Phase](), list[str]()
    if task.collective != "allgather":
        phase, way = _gathered(task, task.cluster.reversed(), solvers, progress, adding=True)
        phases, ways = [backwards(phase)], [way]
    if task.collective != "reducescatter":
        phase, way = _gathered(task, task.cluster, solvers, progress, adding=False)
        phases, ways = [*phases, phase], [*ways, way]
    return Composition(task, tuple(phases), tuple(ways))


def _gathered(
    task: Task, cluster: PodCluster, solvers: tuple[Solver, ...], progress: Progress, *, adding: bool
) -> tuple[Phase, str]:
    """The quickest allgather of ``cluster`` and how it sends between pods."""
    gates = gates_of(cluster)
    inside = Inside(cluster.types, task.chunk_bytes, adding)
    sharing = set()  # types whose wires also lead out of the pod
    for kind in gates.kinds:
        used = {w for link in gates.cluster.types[kind.type].links for w in link.wires}
        if any(not used.isdisjoint((*gate.out, *gate.into)) for gate in kind.gates):
            sharing.add(kind.type)
    spreads = Spreads(cluster.types, task.options, solvers, frozenset(sharing))
    best: tuple[Phase, str] | None = None
    reason = "no GPU has a gate"
    for spread_first in (False, True):
        pattern = entries(gates, task.chunks, spread_first=spread_first)
        if pattern is None or (spread_first and best is not None and len(gates.kinds) == 1):
            continue
        kinds = gates.kinds
        slots = [tuple(k.gates[g].gpu for g in slots) for k, slots in zip(kinds, pattern.slots, strict=True)]
        home = tuple(spreads.spread(k.type, gpus) for k, gpus in zip(kinds, pattern.order, strict=True))
        entered = tuple(spreads.spread(k.type, gpus) for k, gpus in zip(kinds, slots, strict=True))
        timer = Timer(pattern, Crossings(gates, task.chunk_bytes, adding=adding), inside, home, entered)
        for way, rounds in _ways(pattern):
            name = f"{way} of {len(cluster.pods)} pods" + (", own chunks spread first" if spread_first else "")
            progress(f"pods: {name}", None)
            try:
                phase = timer.lockstep(rounds) if timer.serial() else timer.phase(rounds)
            except NoRoute as missing:
                reason = str(missing)
                break
            if best is None or phase.end < best[0].end:
                best = phase, name
    if best is None:
        raise HetesynthError(
            f"the pods cannot be composed: {reason}",
            code="HS410",
            help="join the NICs of all pods by a fabric, or their fabrics by a switch",
        )
    return best


def _ways(pattern: Entries) -> Iterator[tuple[str, list[Round]]]:
    """Yield a name and rounds for each way to send between pods; pods close in the network follow each other."""
    gates = pattern.gates
    wires = gates.cluster.wires

    def place(pod: int) -> tuple[int, int]:
        return min((wires[uplink.out].dst for uplink in gates.uplinks[pod]), default=0), pod

    blocks, order = pattern.blocks, sorted(range(len(gates.cluster.pods)), key=place)
    yield "doubling", doubling(blocks, order)
    longest = max(map(len, pattern.slots))
    edges = max(len({(gate.leave, gate.enter) for gate in kind.gates}) for kind in pattern.gates.kinds)
    counts = [count for _, count in blocks]
    whole = {max(*counts, longest), min(counts)}
    for at_once in sorted({*whole, longest, edges}, reverse=True):
        # moves of one ring; one of 512 pods has 261,632 and is composed, timed and judged in some 20 s
        most = 2_000_000 if at_once in whole else 20_000
        if len(order) * sum(counts) <= most * at_once:
            yield f"ring, {at_once} chunks a round,", ring(blocks, order, at_once)
