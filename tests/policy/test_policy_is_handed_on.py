"""No code falls back on ``DEFAULT`` where it was handed a policy: a replaced threshold would silently do nothing.

Commands run with a policy whose sections have classes of their own, which equal no section of another policy, so
that no cache answers for them. A read of a threshold of any other section is one that the handed policy missed.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from hetesynth.engine.atlas import atlas
from hetesynth.engine.choice.program_ranking import throttlings
from hetesynth.engine.compilation import compilation
from hetesynth.engine.import_file import ImportRequest, import_file
from hetesynth.engine.page.report import report_of_file, report_of_synthesis
from hetesynth.engine.predictors import CostOptions
from hetesynth.engine.problem import bounds
from hetesynth.engine.request import Request
from hetesynth.engine.simulate import simulate_file
from hetesynth.engine.synth import synthesized
from hetesynth.model.problem import Budget
from hetesynth.model.target import TARGETS
from hetesynth.policy import DEFAULT, Policy
from hetesynth.programs.msccl.lower import LoweringOptions

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
TARGETS_OF_BOTH_FORMATS = (TARGETS["portable"], TARGETS["mscclpp"])
BY_STEPS = (
    "auto", "greedy", "trees", "tree-packing", "cegis", "lns", "monolithic", "ring", "double-tree", "sph",
    "server-rings", "hierarchical",
)  # fmt: skip
LITTLE = {"budget": Budget(3.0)}  # for what would try many candidates
CASES: dict[str, dict[str, Any]] = {
    **{f"h20_4x3 allgather {name}": {"strategy": name} for name in BY_STEPS},
    "fig10 allreduce": {"cluster": "fig10", "collective": "allreduce", "strategy": "greedy"},
    "fig10 broadcast": {"cluster": "fig10", "collective": "broadcast", "strategy": "greedy"},
    "h20_4x3 alltoall direct": {"collective": "alltoall", "strategy": "direct"},
    "h20_4x3 alltoall all-pairs": {"collective": "alltoall", "strategy": "all-pairs"},
    "h20_16 allgather doubling": {"cluster": "h20_16", "strategy": "doubling"},
    "h20_4x3 alltoall of 3 peers": {"collective": "alltoall", "strategy": "sph", "max_peers": 3},
    "h20_4x3 allgather of 3 peers": {"strategy": "trees", "max_peers": 3},
    "fig10 allgather of 64 MB": {"cluster": "fig10", "size": 64_000_000, **LITTLE},
    "h20_4x3 allreduce of 64 KB": {
        "collective": "allreduce", "size": 64_000, "targets": TARGETS_OF_BOTH_FORMATS, **LITTLE
    },
    "fig10 alltoall of 1 MB": {"cluster": "fig10", "collective": "alltoall", "size": 1_000_000, **LITTLE},
    **{
        f"fig10 allgather of 1 MB {name}": {"cluster": "fig10", "size": 1_000_000, "strategy": name, **LITTLE}
        for name in ("timed", "timed-trees", "negotiated", "tree-packing")
    },
    "fig10 alltoall of 1 MB exchange": {
        "cluster": "fig10", "collective": "alltoall", "size": 1_000_000, "strategy": "exchange", **LITTLE
    },
}  # fmt: skip


def policy_apart() -> Policy:
    """The values of ``DEFAULT`` in sections that are told from those of any other policy by their classes."""
    sections = {f.name: type(getattr(DEFAULT, f.name)) for f in fields(Policy)}
    return Policy(
        **{name: type(section.__name__, (section,), {"__slots__": ()})() for name, section in sections.items()}
    )


def calls(frame: Any) -> bool:
    """Whether it is a function of the package that reads, not a module or class whose defaults are evaluated, nor
    what dataclasses generate."""
    code = frame.f_code
    return bool(code.co_flags & inspect.CO_OPTIMIZED) and "hetesynth" in code.co_filename


@contextmanager
def reads_elsewhere() -> Iterator[set[str]]:
    """The thresholds that are read meanwhile from sections other than those of ``policy_apart``, and where."""
    reads: set[str] = set()
    sections = [type(getattr(DEFAULT, f.name)) for f in fields(Policy)]
    with pytest.MonkeyPatch.context() as patch:
        for section in sections:
            patch.setattr(section, "__getattribute__", _recording(section, reads), raising=False)
        yield reads


def _recording(section: type, reads: set[str]) -> Any:
    names = {f.name for f in fields(section)}

    def read(self: object, name: str) -> object:
        if name in names and type(self) is section and calls(frame := sys._getframe(1)):
            reads.add(f"{section.__name__}.{name}: {Path(frame.f_code.co_filename).name}:{frame.f_lineno}")
        return object.__getattribute__(self, name)

    return read


def request(cluster: str = "h20_4x3", collective: Any = "allgather", **options: Any) -> Request:
    """A request with a policy of its own, and time enough."""
    options = {"budget": Budget(60.0), "targets": (TARGETS["portable"],), **options}
    return Request(EXAMPLES / cluster / "topo.dsl", collective, policy=policy_apart(), **options)


def test_a_read_of_the_default_policy_is_noticed() -> None:
    asked = request(strategy="greedy")
    (options,) = [LoweringOptions("p", target=target) for target in asked.targets]
    result = synthesized(compilation(asked))
    with reads_elsewhere() as reads:
        list(throttlings(result.topology, result.problem, result.solution.schedule, 1000, options, CostOptions()))
    assert any(read.startswith("MachineCodePolicy.") for read in reads)


@pytest.mark.parametrize("case", CASES)
def test_a_synthesis_and_its_report_decide_by_the_policy_of_the_request(case: str) -> None:
    with reads_elsewhere() as reads:
        report_of_synthesis(synthesized(compilation(request(**CASES[case]))))
    assert reads == set()


def test_an_atlas_decides_by_the_policy_of_the_request() -> None:
    with reads_elsewhere() as reads:
        assert atlas(request("ring8", **LITTLE), (1_000, 1_000_000)).index
    assert reads == set()


def test_bounds_decide_by_the_policy_of_the_request() -> None:
    with reads_elsewhere() as reads:
        bounds(request("v100_4p8", "alltoall"))
    assert reads == set()


def test_files_are_imported_and_predicted_by_the_policy_that_is_handed_in(tmp_path: Path) -> None:
    asked = request(targets=TARGETS_OF_BOTH_FORMATS)
    written = synthesized(compilation(asked)).write(tmp_path / "out")
    options, sizes = CostOptions(policy=asked.policy), (1_000, 1_000_000)
    with reads_elsewhere() as reads:
        for path in written:
            simulate_file(path, asked.topology, sizes, options)
            report_of_file(path, asked.topology, sizes, options)
        for path in (path for path in written if ".mscclpp." not in path.name):
            import_file(ImportRequest(path, asked.topology, targets=asked.targets, policy=asked.policy))
    assert reads == set()
