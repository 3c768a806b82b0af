"""The predicted time of a file, a schedule, program or plan, at one size or many, once its judge accepts it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hetesynth.engine.formats import FileKind, contents, demand_one_run, format_of, kind_of, read_moves, refused
from hetesynth.engine.predictors import (
    AnyPredictor,
    CostOptions,
    PlanPredictor,
    Prediction,
    ProgramPredictor,
    SchedulePredictor,
    TablePredictor,
    _misfit,
)
from hetesynth.errors import HetesynthError
from hetesynth.model.deadline import now
from hetesynth.model.plan import Plan
from hetesynth.model.problem import Arc, Problem
from hetesynth.model.table import Table
from hetesynth.model.target import PORTABLE, TARGETS, Target
from hetesynth.model.topology import Topology
from hetesynth.model.usable_links import usable
from hetesynth.topology.believable import load_topology
from hetesynth.topology.language import TopologySource

WAY_OUT = "give a schedule JSON or an MSCCL XML"


@dataclass(frozen=True, slots=True)
class FilePredictions:
    """The predictions for the file at ``path`` on ``topology`` at every size asked for."""

    path: Path
    kind: FileKind
    topology: Topology
    options: CostOptions
    predictions: tuple[Prediction, ...]
    spent: Mapping[str, float]  # seconds to read the files, and to simulate


def simulate_file(
    path: Path, topology: TopologySource, sizes: Sequence[int], options: CostOptions, target: Target = PORTABLE
) -> FilePredictions:
    """Predict a schedule JSON, an MSCCL XML with the messages of ``target``, or an MSCCL++ plan at ``sizes``."""
    began = now()
    cluster = load_topology(topology)
    predictor = file_predictor(path, cluster, options, target)
    ready = now()
    predictions = tuple(predictor.predict(size) for size in sizes)
    spent = {"read": ready - began, "simulate": now() - ready}
    return FilePredictions(path, predictor.kind, cluster, options, predictions, spent)


def file_predictor(
    path: Path, topology: Topology, options: CostOptions, target: Target = PORTABLE
) -> SchedulePredictor | AnyPredictor:
    """Return the predictor of what ``path`` holds: a schedule, a plan or a table in JSON, or else MSCCL XML."""
    from hetesynth.files.schedule_json import MAX_BYTES

    demand_one_run(path)
    if format_of(path).plan and kind_of(contents(path, MAX_BYTES, WAY_OUT), path) == "schedule":
        return schedule_predictor(path, topology, options)
    subject, judge = read_moves(path)
    topology = usable(topology, (TARGETS["mscclpp"] if isinstance(subject, Plan) else target,))
    if subject is not None and subject.ranks != topology.ranks:
        message = f"{path} is for {subject.ranks} ranks, {topology.name} has {topology.ranks}"
        raise HetesynthError(message, code="HS561", help="give the topology it was made for")
    servers = {"servers": topology.servers} if isinstance(subject, Plan) else {}
    wrong = judge(links={(link.src, link.dst) for link in topology.links}, max_findings=1, **servers)
    if subject is None or wrong:
        way_out = f"hetesynth verify {path} --topo TOPOLOGY says more"
        raise refused(path, " cannot be simulated", wrong, "HS562", way_out)
    if isinstance(subject, Plan):
        return PlanPredictor(topology, subject, options)
    if isinstance(subject, Table):
        executor = target if target.format.table else TARGETS["torch"]
        return TablePredictor(topology, subject, options, executor)
    return ProgramPredictor(topology, subject, options, target)


def schedule_predictor(path: Path, topology: Topology, options: CostOptions) -> SchedulePredictor:
    """Return the predictor of a schedule JSON. Raises HetesynthError where it is none for ``topology``."""
    from hetesynth.engine.schedule_replay import asked_collective, foreign_link, read_schedule
    from hetesynth.judge.schedule.judge import schedule_violations

    document = read_schedule(path, WAY_OUT)
    other = foreign_link(document, topology.links)
    if document.ranks != topology.ranks or other is not None:
        message = f"{path} is not a schedule for {topology.name}: their ranks or links differ"
        raise HetesynthError(message, code="HS561", help="give the topology it was synthesized for")
    goal = asked_collective(document, str(path))
    room = len(document.schedule.transfers) + 1  # the hardware's limits are the simulator's business
    arcs = tuple(Arc(link.src, link.dst, room) for link in topology.links)
    problem = Problem(topology.ranks, topology.ranks, (), arcs, (), goal, document.exclusive_reduction)
    wrong = schedule_violations(problem, document.schedule)
    if wrong:
        message = f"{path} is no schedule of its collective: {wrong[0].message}"
        way_out = "give a schedule JSON as `hetesynth synth` wrote it"
        raise HetesynthError(message, code="HS562", help=way_out, exit_code=1)
    try:
        return SchedulePredictor(topology, problem, document.schedule, options)
    except ValueError as error:
        raise _misfit(error) from error
