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
from typing import TYPE_CHECKING, Any

from hetesynth.engine.request import Request
from hetesynth.model.bound import LowerBound
from hetesynth.model.collective import CollectiveName
from hetesynth.model.problem import Budget
from hetesynth.model.runtime_costs import NCCL_TABLES
from hetesynth.model.target import PORTABLE, Target, targets_of
from hetesynth.model.target import target as target_named
from hetesynth.model.topology import Rank, Topology
from hetesynth.topology.language import TopologySource, load_topology, parse_topology

if TYPE_CHECKING:  # results, whose modules take time to load
    from hetesynth.engine.artifacts import Synthesis
    from hetesynth.engine.atlas import Atlas
    from hetesynth.engine.repair import Repaired
    from hetesynth.engine.simulate import FilePredictions
    from hetesynth.engine.time_verdict import Bounds
    from hetesynth.engine.verify import Judged

Size = int | str
Targets = str | Sequence[str]
Pathlike = str | os.PathLike[str]


def load(file: Pathlike) -> Topology:
    """Return the cluster that ``file`` describes in the topology language."""
    return load_topology(file)


def parse(text: str, name: str = "<text>") -> Topology:
    """Return the cluster that ``text`` describes; findings carry ``name``."""
    return parse_topology(text, name)


def synthesize(  # noqa: PLR0913 - the options of the command, by name
    topology: TopologySource, collective: CollectiveName, *, size: Size | None = None,
    target: Targets = "portable", strategy: str = "auto", root: Rank | None = None, chunks: int | None = None,
    time_budget: float | None = None, seed: int = 0, effort: float | None = None, schedule_only: bool = False,
    single_root: bool = False, runtime_costs: bool = True,
) -> Synthesis:  # fmt: skip
    """Return judged files of ``collective`` and what is proved of them: the quickest program for ``size``.

    Without ``size`` the schedule of the fewest steps is searched for, and the program is the quickest for the size
    that its chunks make. ``time_budget``: seconds after which the best so far is returned (``cut_short``).
    """
    from hetesynth.engine import synth

    request = _request(
        topology, collective, size, target, root, runtime_costs,
        strategy=strategy, chunks=chunks or 1, chunks_stated=chunks is not None, schedule_only=schedule_only,
        single_root=single_root, budget=Budget(time_budget, seed, effort=effort),
    )  # fmt: skip
    return synth.synthesize(request)


def bounds(
    topology: TopologySource, collective: CollectiveName, *, root: Rank | None = None, chunks: int = 1
) -> tuple[LowerBound, ...]:
    """Return the proved lower bounds on the steps of ``collective``, each with the witness that proves it."""
    from hetesynth.engine import problem

    _, lower = problem.bounds(_request(topology, collective, None, "portable", root, chunks=chunks))
    return tuple(lower)


def limits(
    topology: TopologySource, collective: CollectiveName, *, root: Rank | None = None, runtime_costs: bool = True
) -> Bounds:
    """Return the proved lower bounds on time: ``.seconds(size)`` of a buffer in bytes, ``.at(size)`` its proof."""
    from hetesynth.engine.predictors import CostOptions
    from hetesynth.engine.time_verdict import bounds_of

    request = _request(topology, collective, None, "portable", root, runtime_costs)
    return bounds_of(load_topology(topology), collective, root, CostOptions.of(request))


def simulate(
    file: Pathlike, topology: TopologySource, size: Size, *, target: str = "portable", runtime_costs: bool = True
) -> FilePredictions:
    """Return what the schedule, program or plan in ``file`` takes on the cluster; ``size`` may be a range."""
    from hetesynth.engine.predictors import CostOptions
    from hetesynth.engine.simulate import simulate_file

    options = CostOptions(runtime=NCCL_TABLES if runtime_costs else None)
    return simulate_file(Path(file), topology, sizes_of(size), options, target_named(target))


def verify(
    file: Pathlike, topology: TopologySource | None = None, *, root: Rank | None = None, target: Targets = ()
) -> Judged:
    """Return the judges' findings on ``file``: on all data movement, and on what each runtime does with it."""
    from hetesynth.engine.verify import Question, judge_file

    given = None if topology is None else load_topology(topology)
    return judge_file(Path(file), Question(root=root, targets=_targets(target), given=given))


def repair(
    schedule: Pathlike, before: TopologySource, after: TopologySource, *, target: Targets = (),
    time_budget: float | None = None, schedule_only: bool = False, single_root: bool = False,
) -> Repaired:  # fmt: skip
    """Return the schedule JSON in ``schedule``, made for ``before``, repaired for what is left of the cluster."""
    from hetesynth.engine import repair as repairs

    asked = repairs.RepairRequest(
        Path(schedule), before, after, Budget(time_budget), _targets(target), schedule_only, single_root
    )
    return repairs.repair(asked)


def atlas(
    topology: TopologySource, collective: CollectiveName, *, sizes: Size | Sequence[int] = "1KB..4GB",
    target: Targets = "portable", root: Rank | None = None, time_budget: float | None = None,
    single_root: bool = False, runtime_costs: bool = True,
) -> Atlas:  # fmt: skip
    """Return the right program for every size: ranges with their programs, where the library is not quicker."""
    from hetesynth.engine import atlas as atlases

    request = _request(
        topology, collective, None, target, root, runtime_costs,
        single_root=single_root, budget=Budget(time_budget),
    )  # fmt: skip
    return atlases.atlas(request, sizes_of(sizes, 2) if isinstance(sizes, int | str) else tuple(sizes))


def write(result: Synthesis | Repaired | Atlas, where: Pathlike) -> list[Path]:
    """Write the files of ``result``, all or none, and return their paths.

    ``where``: the common part of their names (``out/name`` becomes ``out/name.xml`` and so on); of an atlas a
    folder that is new or empty.
    """
    from hetesynth.engine import artifacts
    from hetesynth.engine import atlas as atlases
    from hetesynth.files.folders import write_folder

    if isinstance(result, atlases.Atlas):
        folder = Path(where)
        contents = atlases.files(result)
        write_folder(folder, contents, atlases.MARK)
        return [folder / name for name in contents]
    synthesis = result if isinstance(result, artifacts.Synthesis) else result.synthesis
    return artifacts.write(synthesis, Path(where))


def size_of(size: Size) -> int:
    """Return the bytes that ``size`` states. HetesynthError HS307 where it states none."""
    from hetesynth.engine.predictors import buffer_size

    return size if isinstance(size, int) else buffer_size(size, "size")


def sizes_of(size: Size, factor: int = 4) -> tuple[int, ...]:
    """Return the sizes that ``size`` states: one, several with commas, or a range in steps of ``factor``."""
    from hetesynth.engine.predictors import buffer_sizes

    return (size,) if isinstance(size, int) else buffer_sizes(size, "size", factor)


def _targets(named: Targets) -> tuple[Target, ...]:
    names = (named,) if isinstance(named, str) else tuple(named)
    return targets_of(names) if names else ()


def _request(
    topology: TopologySource, collective: CollectiveName, size: Size | None, target: Targets, root: Rank | None,
    runtime_costs: bool = True, **others: Any,
) -> Request:  # fmt: skip
    """What the command line makes of the same words."""
    return Request(
        topology=Path(topology) if isinstance(topology, str) else topology, collective=collective, root=root,
        size=None if size is None else size_of(size), targets=_targets(target) or (PORTABLE,), objective="time",
        runtime=NCCL_TABLES if runtime_costs else None, **others,
    )  # fmt: skip
