"""The whole tool as functions, with the defaults of the command line.

    from hetesynth import api

    cluster = api.load("examples/h20_4p8/topo.dsl")
    made = api.synthesize(cluster, "allreduce", size="64MB", target="rccl-6")
    print(made.verdict.line)
    api.write(made, "h20_4p8-allreduce")

A cluster is a ``Topology``, or the path of a file that describes one. Sizes are bytes, or texts as the command
line reads them ("64MB", "1KB..4GB"). What a user can do wrong raises ``HetesynthError``, which has a code and a
way out.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, cast

from hetesynth.engine.formats import contents
from hetesynth.engine.options import demand, demand_options
from hetesynth.engine.request import Exclusion, FirstCandidate, LossKind, Objective, Request
from hetesynth.errors import HetesynthError
from hetesynth.files.sketch_json import MAX_BYTES, read_sketch_json
from hetesynth.model.bound import LowerBound
from hetesynth.model.calibration import CalibrationName
from hetesynth.model.cegis_trace import CegisTrace
from hetesynth.model.collective import CollectiveName
from hetesynth.model.decisions import Decisions
from hetesynth.model.problem import Budget
from hetesynth.model.runtime_costs import NCCL_TABLES
from hetesynth.model.target import Target, targets_of
from hetesynth.model.topology import Rank, Topology
from hetesynth.search.chunking import ChunkingOptions, Rounding
from hetesynth.search.collectives import named_collective
from hetesynth.search.search import Progress, no_progress
from hetesynth.topology.believable import load_topology
from hetesynth.topology.language import TopologySource, parse_topology
from hetesynth.topology.language.nccl_graph import RingFile
from hetesynth.topology.language.units import parse_quantity

if TYPE_CHECKING:  # results, whose modules take time to load
    from typing_extensions import Unpack

    from hetesynth.engine.artifacts import Synthesis
    from hetesynth.engine.atlas import Atlas
    from hetesynth.engine.compare import Comparison
    from hetesynth.engine.composition import ComposedFiles
    from hetesynth.engine.import_file import Imported
    from hetesynth.engine.n_minus_one import NMinusOne
    from hetesynth.engine.pareto import ParetoPoint
    from hetesynth.engine.repair import Repaired
    from hetesynth.engine.simulate import FilePredictions
    from hetesynth.engine.time_verdict import Bounds
    from hetesynth.engine.verify import Judged

Size = int | str
Targets = str | Sequence[str]
Pathlike = str | os.PathLike[str]


class Options(TypedDict, total=False):
    """The options beside the cluster and the collective; the comments begin with the defaults."""

    size: Size | None  # None; of the collective's buffer: what is not stated is then chosen by predicted time
    target: Targets  # "portable"
    strategy: str  # "auto"
    root: Rank | None  # 0 for a rooted collective
    chunks: int | None  # per rank: 1, or with a size what suits it
    chunk_size: Size | None  # the topology's, else 1 MB
    tau_ref: str  # "slowest", or a kind of link, or a time
    rounding: Rounding  # "ceil"
    exclusion: Exclusion  # "auto"
    max_peers: int | None  # what thread blocks allow
    rings: Sequence[str]  # (); files of NCCL's graph, [INSTANCE=]FILE
    first_candidate: FirstCandidate | Path | None  # greedy, for strategy cegis
    sketch: Pathlike | None  # None; a file of TACCL's that says which schedules are searched among
    objective: Objective  # "time"; what strategy auto writes without a size
    schedule_only: bool  # False
    single_root: bool  # False; the promise that all calls have this root
    always: bool  # False; files are for sizes too for which the library is expected to be quicker
    runtime_costs: bool  # True
    time_budget: float | None  # None; seconds after which the best so far is returned (``cut_short``)
    seed: int  # 0
    effort: float  # 1.0


def load(file: Pathlike) -> Topology:
    """Return the cluster that ``file`` describes in the topology language."""
    demand(topology=file)
    return load_topology(file)


def parse(text: str, name: str = "<text>") -> Topology:
    """Return the cluster that ``text`` describes; findings carry ``name``."""
    demand(text=text, name=name)
    return parse_topology(text, name)


def request(topology: TopologySource, collective: CollectiveName, **options: Unpack[Options]) -> Request:
    """Return what the other functions make of the same words. HetesynthError HS301, HS307, HS308, HS612."""
    demand(topology=topology)
    demand_options(options)
    rest: dict[str, Any] = {"objective": "time", "always": False, **options}
    size, chunk_size, chunks = (rest.pop(name, None) for name in ("size", "chunk_size", "chunks"))
    if size is not None and chunk_size is not None:
        message = "--size and --chunk-size contradict each other"
        raise HetesynthError(message, code="HS612", help="use --size with --chunks")
    sketch = rest.pop("sketch", None)
    if sketch is not None:
        way_out = "--sketch takes a file of TACCL's: docs/sketches.md"
        sketch = read_sketch_json(contents(Path(sketch), MAX_BYTES, way_out), str(sketch))
        chunks = chunks or sketch.chunks
    rings = []
    for value in rest.pop("rings", ()):
        instance, equals, path = value.partition("=")
        rings.append(RingFile(Path(path if equals else value), instance if equals else None))
    return Request(
        topology=Path(topology) if isinstance(topology, str) else topology,
        collective=named_collective(collective),
        chunks=chunks or 1,
        chunks_stated=chunks is not None,
        budget=Budget(rest.pop("time_budget", None), rest.pop("seed", 0), effort=rest.pop("effort", 1.0)),
        chunking=chunking_options(chunk_size, rest.pop("tau_ref", "slowest"), rest.pop("rounding", "ceil")),
        targets=_targets(rest.pop("target", "portable") or "portable"),
        size=None if size is None else size_of(size, "--size"),
        rings=tuple(rings),
        runtime=NCCL_TABLES if rest.pop("runtime_costs", True) else None,
        sketch=sketch,
        **rest,
    )


def synthesize(
    topology: TopologySource,
    collective: CollectiveName,
    *,
    progress: Progress = no_progress,
    decisions: Decisions | None = None,
    trace: CegisTrace | None = None,
    began: float | None = None,
    **options: Unpack[Options],
) -> Synthesis:
    """Return judged files of ``collective`` and what is proved of them: the quickest program for the size, or for
    that which the chunks of the schedule of fewest steps make. ``decisions``, ``trace``: are told what was
    decided, and what CEGIS did. ``began``: from when, of ``time.monotonic``, the time budget counts."""
    from hetesynth.engine import synth

    demand(began=began)
    asked = request(topology, collective, **options)
    return synth.synthesize(asked, progress, decisions=decisions, trace=trace, began=began)


def synthesize_roots(
    topology: TopologySource,
    collective: CollectiveName,
    *,
    progress: Progress = no_progress,
    trace: CegisTrace | None = None,
    began: float | None = None,
    **options: Unpack[Options],
) -> list[Synthesis]:
    """Return the same for every root, within one time budget."""
    from hetesynth.engine import synth

    demand(began=began)
    return synth.for_every_root(request(topology, collective, **options), progress, trace, began=began)


def compose(
    topology: TopologySource,
    collective: CollectiveName,
    *,
    progress: Progress = no_progress,
    **options: Unpack[Options],
) -> ComposedFiles:
    """Return the judged composition of schedules of pods, with programs where the cluster is small enough."""
    from hetesynth.engine.composition import compose_files

    return compose_files(_whole(request(topology, collective, **options)), progress)


def bounds(
    topology: TopologySource, collective: CollectiveName, **options: Unpack[Options]
) -> tuple[LowerBound, ...]:
    """Return the proved lower bounds on the steps of ``collective``, each with the witness that proves it."""
    from hetesynth.engine import bounds as proved

    return tuple(proved.bounds(request(topology, collective, **options))[1])


def pareto(
    topology: TopologySource,
    collective: CollectiveName,
    *,
    most: int = 6,
    extra: int = 4,
    sizes: Size | Sequence[Size] = "1KB..1GB",
    progress: Progress = no_progress,
    **options: Unpack[Options],
) -> tuple[list[ParetoPoint], dict[str, bytes]]:
    """Return the frontier of steps and rounds (SCCL, algorithm 1) with up to ``most`` chunks a rank and ``extra``
    more rounds than steps, each point judged, and its files by name."""
    from hetesynth.engine import pareto as points_of
    from hetesynth.engine.compilation import compilation

    demand(most=most, extra=extra)
    options.setdefault("always", True)  # points are for study
    if options.get("exclusion", "auto") == "auto":
        options["exclusion"] = "program"  # SCCL knows no such law
    asked = request(topology, collective, **options)
    points = points_of.pareto(compilation(asked, progress), most, extra, sizes_of(sizes, named="sizes"))
    return points, points_of.files_of(points, f"{collective}: points of (chunks, steps, rounds)")


def bounds_document(
    topology: TopologySource, collective: CollectiveName, *, check: bool = False, **options: Unpack[Options]
) -> dict[str, Any]:
    """Return the same as plain values; with ``check`` each is rechecked from its witness."""
    from hetesynth.engine import bounds as proved

    return proved.bounds_document(request(topology, collective, **options), check=check)


def limits(
    topology: TopologySource, collective: CollectiveName, *, root: Rank | None = None, runtime_costs: bool = True
) -> Bounds:
    """Return the proved lower bounds on time: ``.seconds(size)`` of a buffer in bytes, ``.at(size)`` its proof."""
    from hetesynth.engine.predictors import CostOptions
    from hetesynth.engine.problem import ProblemFactory
    from hetesynth.engine.time_verdict import bounds_of

    asked = request(topology, collective, root=root, runtime_costs=runtime_costs)
    there = load_topology(topology)
    return bounds_of(there, asked.collective, ProblemFactory(there, asked).root, CostOptions.of(asked).line_rate)


def simulate(
    file: Pathlike,
    topology: TopologySource,
    size: Size = "1KB..4GB",
    *,
    target: Targets | None = "portable",
    runtime_costs: bool = True,
    calibration: CalibrationName | None = None,
    page: Pathlike | None = None,
    trace: Pathlike | None = None,
) -> FilePredictions:
    """Return what the schedule, program or plan in ``file`` takes on the cluster, and write the run as a page or
    picture and as a Chrome trace."""
    from hetesynth.engine.predictors import CostOptions
    from hetesynth.engine.simulate import simulate_file

    demand(file=file, topology=topology, target=target, runtime_costs=runtime_costs)
    demand(calibration=calibration, page=page, trace=trace)
    sizes, [runtime, *_] = sizes_of(size, named="--size"), _targets(target or "portable")
    costs = CostOptions(calibration, runtime=NCCL_TABLES if runtime_costs else None)
    if page is not None or trace is not None:
        from hetesynth.engine.page.report import report_of_file, write_reports
        from hetesynth.engine.places import check_places

        drawn, traced = None if page is None else Path(page), None if trace is None else Path(trace)
        check_places(None, (), drawn, traced, None, ())
        write_reports(report_of_file(Path(file), topology, sizes, costs, target=runtime), drawn, traced)
    return simulate_file(Path(file), topology, sizes, costs, runtime)


def verify(
    file: Pathlike, topology: TopologySource | None = None, *, root: Rank | None = None, target: Targets = ()
) -> Judged:
    """Return the judges' findings on ``file``: on all data movement, and on what each runtime does with it."""
    from hetesynth.engine.verify import Question, judge_file

    demand(file=file, topology=file if topology is None else topology, root=root, target=target)
    given = None if topology is None else load_topology(topology)
    return judge_file(Path(file), Question(root=root, targets=_targets(target), given=given))


class RepairOptions(TypedDict, total=False):
    """The options of a repair; the comments begin with the defaults."""

    target: Targets  # those of the schedule
    size: Size | None  # that of the schedule
    time_budget: float | None  # None; seconds
    seed: int  # 0
    effort: float  # 1.0
    schedule_only: bool  # False
    single_root: bool  # False; the promise that all calls have the schedule's root
    always: bool  # False; files are for sizes too for which the library is expected to be quicker


def repair(
    schedule: Pathlike,
    before: TopologySource,
    after: TopologySource,
    *,
    progress: Progress = no_progress,
    **options: Unpack[RepairOptions],
) -> Repaired:
    """Return the schedule JSON in ``schedule``, made for ``before``, repaired for what is left of the cluster."""
    from hetesynth.engine import repair as repairs

    demand(file=schedule, topology=before)
    demand(topology=after)
    demand_options(options)
    rest: dict[str, Any] = {"always": False, **options}
    size, targets = rest.pop("size", None), _targets(rest.pop("target", ()))
    budget = Budget(rest.pop("time_budget", None), rest.pop("seed", 0), effort=rest.pop("effort", 1.0))
    stated = None if size is None else size_of(size, "--size")
    asked = repairs.RepairRequest(Path(schedule), before, after, budget, targets, size=stated, **rest)
    return repairs.repair(asked, progress)


def import_file(
    file: Pathlike,
    topology: TopologySource | None = None,
    *,
    root: Rank | None = None,
    target: Targets = (),
    single_root: bool = False,
    always: bool = False,
    chunk_size: Size | None = None,
    tau_ref: str = "slowest",
    rounding: Rounding = "ceil",
) -> Imported:
    """Return what the MSCCL XML or schedule JSON in ``file`` moves as a judged schedule, with programs."""
    from hetesynth.engine import import_file as importing

    demand(file=file, topology=file if topology is None else topology, root=root, target=target)
    demand(single_root=single_root, always=always)
    demand(chunk_size=chunk_size, tau_ref=tau_ref, rounding=rounding)
    chunking = chunking_options(chunk_size, tau_ref, rounding)
    return importing.import_file(
        importing.ImportRequest(Path(file), topology, root, single_root, chunking, _targets(target), always=always)
    )


def compare(
    topology: TopologySource,
    collective: CollectiveName,
    *,
    sizes: Size | Sequence[Size] = "1KB..4GB",
    strategies: str | Sequence[str] = ("auto", "ring", "double-tree"),
    progress: Progress = no_progress,
    **options: Unpack[Options],
) -> Comparison:
    """Return what the strategies take at all sizes, beside the bound; the time budget is for all together."""
    from hetesynth.engine import compare as comparing

    demand(strategies=strategies)
    named = (strategies,) if isinstance(strategies, str) else strategies
    buffers = sizes_of(sizes, named="--sizes")
    return comparing.compare(_whole(request(topology, collective, **options)), buffers, named, progress)


def atlas(
    topology: TopologySource,
    collective: CollectiveName,
    *,
    sizes: Size | Sequence[Size] = "1KB..4GB",
    progress: Progress = no_progress,
    **options: Unpack[Options],
) -> Atlas:
    """Return the right program for every size: ranges with their programs, where the library is not quicker."""
    from hetesynth.engine import atlas as atlases

    buffers = sizes_of(sizes, 2, "--sizes")
    return atlases.atlas(request(topology, collective, **options), buffers, progress)


def single_losses(
    topology: TopologySource,
    collective: CollectiveName,
    *,
    losses: Sequence[LossKind] = ("gpu", "nic", "link", "server"),
    progress: Progress = no_progress,
    **options: Unpack[Options],
) -> NMinusOne:
    """Return files for the whole cluster and, repaired from them, for each single loss."""
    from hetesynth.engine.n_minus_one import n_minus_one

    demand(losses=losses)
    return n_minus_one(_whole(request(topology, collective, **options)), losses, progress)


def write(result: Synthesis | Repaired | Imported | Comparison | Atlas, where: Pathlike) -> list[Path]:
    """Write the files of ``result``, all or none, and return their paths. ``where``: the common part of their
    names; of an atlas a folder that is new or empty, of a comparison the file of its plot."""
    demand(result=result, where=where)
    return result.write(Path(where))


def size_of(size: Size, named: str = "size") -> int:
    """Return the bytes that ``size`` states. HetesynthError HS307 or HS308 where it states none."""
    from hetesynth.engine.predictors import buffer_size

    demand(bytes=size)
    return buffer_size(f"{size}B" if isinstance(size, int) else size, named)


def sizes_of(size: Size | Sequence[Size], factor: int = 4, named: str = "size") -> tuple[int, ...]:
    """Return the sizes that ``size`` states: one, several with commas, or a range in steps of ``factor``."""
    from hetesynth.engine.predictors import buffer_sizes

    demand(sizes=size)
    if isinstance(size, str):
        return buffer_sizes(size, named, factor)
    return tuple(size_of(one, named) for one in ((size,) if isinstance(size, int) else size))


def chunking_options(chunk_size: Size | None, tau_ref: str, rounding: str) -> ChunkingOptions:
    """Return how a cluster's rates become chunks per step."""
    size = None if chunk_size is None else size_of(chunk_size, "--chunk-size")
    reference = parse_quantity(tau_ref, "time", "--tau-ref") if tau_ref[:1].isdigit() else tau_ref
    return ChunkingOptions(size, reference, cast("Rounding", rounding))


def _whole(asked: Request) -> Request:
    """``asked``; HetesynthError HS629 where it has a sketch."""
    if asked.sketch is not None:
        message = "pods, comparisons and losses are of the whole cluster: a sketch is not for them"
        raise HetesynthError(message, code="HS629", help="use synth, bounds or atlas with a sketch")
    return asked


def _targets(named: Targets) -> tuple[Target, ...]:
    names = (named,) if isinstance(named, str) else tuple(named or ())
    return targets_of(names) if names else ()
