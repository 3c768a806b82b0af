"""load_plans.py, run against a stand-in for MSCCL++ that has the signatures and the habits of its sources."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.deployments import cell, two_cells, written

from hetesynth.model.collective import COLLECTIVE_NAMES


class ExecutionPlan:
    """A plan as its file is read."""

    def __init__(self, planPath: str, rank: int) -> None:
        self.text, self.rank = Path(planPath).read_bytes(), rank


class Algorithm:
    """A plan with what it is registered by."""

    class Constraint:
        """Where it may run."""

        def __init__(self, world_size: int = 0, n_ranks_per_node: int = 0) -> None:
            self.world_size, self.n_ranks_per_node = int(world_size), int(n_ranks_per_node)

    def __init__(self, id=None, execution_plan=None, native_handle=None, tags=None, constraint=None) -> None:
        assert isinstance(execution_plan, ExecutionPlan) and native_handle is None
        self.name, self.plan, self.constraint = id, execution_plan, constraint


class AlgorithmCollectionBuilder:
    """The one collection of the process."""

    def __init__(self) -> None:
        self.algorithms, self.select = builder["algorithms"], None

    def add_algorithm_builder(self, algorithm: Algorithm) -> None:
        self.algorithms.append(algorithm)

    def set_algorithm_selector(self, selector: Any) -> None:
        builder["selector"] = selector


builder: dict[str, Any] = {}


class Request:
    """CppCollectiveRequest: read-only fields, message_size of one rank for an allgather."""

    def __init__(
        self, collective: str, size: int, *, in_place: bool, rank: int = 2, root: int = 0, **stated: Any
    ) -> None:
        self.collective, self.rank, self.world_size, self.n_ranks_per_node = collective, rank, 8, 8
        self.message_size = size // 8 if collective == "allgather" else size
        self.input_buffer, self.output_buffer = 1 << 20, 1 << 30
        if in_place:
            block = size // 8 * rank
            self.input_buffer = self.output_buffer + (block if collective == "allgather" else 0)
            if collective == "reducescatter":
                self.output_buffer = self.input_buffer + block
        self.dtype = Kind("float32")
        self.hints = {"root": [root]} if collective == "broadcast" else {}
        for name, value in stated.items():
            setattr(self, name, value)


class Kind:
    """A type of elements, whose text is that of the runtime."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return f"CppDataType.{self.name}"


@pytest.fixture
def loader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The module of a folder, with the stand-in in place of the runtime."""

    def load(*cells):
        folder = written(tmp_path / "folder", "mscclpp", *cells)
        module = types.ModuleType("mscclpp")
        module.ExecutionPlan, module.Algorithm = ExecutionPlan, Algorithm
        module.ext = types.ModuleType("mscclpp.ext")
        module.ext.AlgorithmCollectionBuilder = AlgorithmCollectionBuilder
        monkeypatch.setitem(sys.modules, "mscclpp", module)
        monkeypatch.setitem(sys.modules, "mscclpp.ext", module.ext)
        builder.clear()
        builder["algorithms"] = []
        spec = importlib.util.spec_from_file_location("load_plans", folder / "load_plans.py")
        loaded = importlib.util.module_from_spec(spec)
        monkeypatch.setitem(sys.modules, "load_plans", loaded)
        spec.loader.exec_module(loaded)
        return loaded

    return load


def chosen(request: Request) -> str | None:
    """The name of the algorithm that the registered selector gives ``request``."""
    table: dict[str, dict[str, Any]] = {}
    for algorithm in builder["algorithms"]:
        for collective in COLLECTIVE_NAMES:
            if f"-{collective}-" in algorithm.name:
                table.setdefault(collective, {})[algorithm.name] = algorithm
    algorithm = builder["selector"](table, request)
    return None if algorithm is None else algorithm.name


def test_every_plan_is_registered_on_its_rank(loader) -> None:
    plans = loader().register(3)
    assert [a.name for a in builder["algorithms"]] == [p.title for c in two_cells("mscclpp") for p in c.programs]
    assert [a.plan.text.decode() for a in builder["algorithms"]] == [f"the program {p.path.name}\n" for p in plans]
    assert {a.plan.rank for a in builder["algorithms"]} == {3}
    # the built-in selector takes none of them: it compares these for equality
    assert all(a.constraint.world_size < 0 and a.constraint.n_ranks_per_node < 0 for a in builder["algorithms"])


@pytest.mark.parametrize("in_place", [False, True])
def test_calls_get_the_plan_of_their_size_and_form(loader, in_place: bool) -> None:
    loader().register(2)
    for stated in ({"world_size": 4}, {"dtype": Kind("uint8")}):  # left to the runtime
        assert chosen(Request("allgather", 64_000, in_place=in_place, **stated)) is None
    assert chosen(Request("allreduce", 64_000, in_place=in_place)) is None
    form = "-inplace" if in_place else ""
    for size, expected in (
        (64_000, f"ring8-allgather-64000-999999{form}"), (999_936, f"ring8-allgather-64000-999999{form}"),
        (1_000_192, f"ring8-allgather-1000000-0{form}"), (1 << 30, f"ring8-allgather-1000000-0{form}"),
        (63_744, None), (64_128, None),
    ):  # fmt: skip
        assert chosen(Request("allgather", size, in_place=in_place)) == expected


@pytest.mark.parametrize("collective", ["allreduce", "reducescatter", "broadcast"])
def test_form_and_root_decide(loader, collective) -> None:
    stated = {"input_chunks": 8, "output_chunks": 8}
    loader(cell("mscclpp", collective, 1024, 1 << 20, **stated)).register(2, only_sums=True)
    name = f"ring8-{collective}-1024-1048576"
    assert chosen(Request(collective, 1 << 16, in_place=False)) == name
    assert chosen(Request(collective, 1 << 16, in_place=True)) == f"{name}-inplace"
    if collective == "broadcast":
        assert chosen(Request(collective, 1 << 16, in_place=False, root=1)) is None


@pytest.mark.parametrize("collective", ["allreduce"])
def test_sums_are_registered_where_the_job_has_no_other_reductions(
    loader, collective, capfd: pytest.CaptureFixture[str]
) -> None:
    """A request names no operator, and the runtime would sum for MAX."""
    module = loader(cell("mscclpp", collective, 1024, 1 << 20, input_chunks=8, output_chunks=8))
    assert module.register(0) == []
    assert chosen(Request(collective, 1 << 16, in_place=False)) is None
    said = capfd.readouterr().err
    assert collective in said and "MAX" in said and "only_sums=True" in said
    assert len(module.register(0, only_sums=True)) == 2
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("collective", COLLECTIVE_NAMES)
def test_the_check_knows_what_each_collective_delivers(loader, collective, in_place: bool) -> None:
    """Its inputs through a collective of our own give its outputs."""
    if in_place and collective in ("gather", "scatter"):
        pytest.skip("these have no form in place")
    module = loader(
        cell("mscclpp", collective, 64, 1 << 20, both=in_place or collective not in ("gather", "scatter"))
    )
    plan = next(p for p in module.plans() if p.in_place == in_place)
    size = 4096
    buffers = [module.allocated(lambda n: np.zeros(n, np.float32), np, plan, rank, size) for rank in range(8)]
    sent = [source.copy() for source, _ in buffers]
    delivered = reference(collective, sent, plan.root)
    for rank, (source, target) in enumerate(buffers):
        must = module.outputs(np, plan, rank, size)
        assert (must is None) == (delivered[rank] is None)
        if must is not None:
            assert target.shape == must.shape == delivered[rank].shape
            assert np.array_equal(must, delivered[rank])
        assert np.shares_memory(source, target) == in_place


def reference(collective: str, sent: list[Any], root: int | None) -> list[Any]:
    """What each rank gets, None: nothing."""
    ranks = range(len(sent))
    parts = [np.split(s, 8) if len(s) % 8 == 0 else None for s in sent]
    total = sum(sent[1:], sent[0]) if len({len(s) for s in sent}) == 1 else None
    match collective:
        case "allreduce":
            return [total for _ in ranks]
        case "reducescatter":
            return [np.split(total, 8)[r] for r in ranks]
        case "reduce":
            return [total if r == root else None for r in ranks]
        case "allgather":
            return [np.concatenate(sent) for _ in ranks]
        case "gather":
            return [np.concatenate(sent) if r == root else None for r in ranks]
        case "broadcast":
            return [sent[root] for _ in ranks]
        case "scatter":
            return [parts[root][r] for r in ranks]
        case _:
            return [np.concatenate([parts[other][r] for other in ranks]) for r in ranks]


class Floats(np.ndarray):
    """An array with the address that cupy's have."""

    @property
    def data(self) -> Any:
        return types.SimpleNamespace(ptr=self)


def floats(number: int, dtype: Any) -> Any:
    return np.zeros(number, dtype).view(Floats)


class Event:
    """A time that was taken."""

    def record(self, stream: Any) -> None: ...
    def synchronize(self) -> None: ...


def stand_ins(module: Any, monkeypatch: pytest.MonkeyPatch, *, wrong: str, ranks: int = 8) -> list[int]:
    """cupy, mpi4py and an executor whose plans deliver what they must, ``wrong`` aside, on rank 1 of 8, which is
    the sixth of its host. The devices that are used."""
    devices: list[int] = []
    by_text = {plan.path.read_bytes(): plan for plan in module.plans()}

    class Executor:
        def __init__(self, comm: Any) -> None: ...

        def execute(
            self, rank, send_buff, recv_buff, send_buff_size, recv_buff_size, data_type, plan, stream
        ) -> None:  # fmt: skip
            what = by_text[plan.text]
            sizes = module.buffers(what.collective, 8, max(send_buff_size, recv_buff_size))
            assert (send_buff_size, recv_buff_size) == sizes and (rank, data_type, stream) == (1, "f", 5)
            recv_buff[...] = module.outputs(np, what, rank, max(sizes))
            if what.name == wrong:
                recv_buff[-1] += 1

    group = types.SimpleNamespace(
        my_rank=1, nranks=ranks, nranks_per_node=8, communicator=None, barrier=lambda: None
    )
    mscclpp = sys.modules["mscclpp"]
    mscclpp.CommGroup, mscclpp.Executor = lambda mpi_comm: group, Executor
    mscclpp.GpuBuffer, mscclpp.DataType = floats, types.SimpleNamespace(float32="f")
    cuda = types.SimpleNamespace(
        Device=lambda n: types.SimpleNamespace(use=lambda: devices.append(n)), Event=Event,
        Stream=lambda non_blocking: types.SimpleNamespace(ptr=5, synchronize=lambda: None),
        get_elapsed_time=lambda start, end: 0.25, runtime=types.SimpleNamespace(deviceSynchronize=lambda: None),
    )  # fmt: skip
    cupy = types.SimpleNamespace(
        cuda=cuda, arange=np.arange, float32=np.float32, zeros=np.zeros, concatenate=np.concatenate
    )
    world = types.SimpleNamespace(
        allreduce=lambda value, op=None: value,
        Split_type=lambda kind, key: {("shared", 1): types.SimpleNamespace(rank=5)}[kind, key],
    )
    mpi = types.SimpleNamespace(MPI=types.SimpleNamespace(COMM_WORLD=world, MAX="max", COMM_TYPE_SHARED="shared"))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setitem(sys.modules, "mpi4py", mpi)
    return devices


@pytest.mark.parametrize("wrong", ["", "ring8-allgather-64000-999999-inplace"])
def test_the_check_tells_wrong_data(loader, monkeypatch: pytest.MonkeyPatch, wrong: str) -> None:
    module = loader(two_cells("mscclpp")[0], cell("mscclpp", "allreduce", 1024, 1 << 16))
    devices = stand_ins(module, monkeypatch, wrong=wrong)
    assert module.main(["--check"]) == (1 if wrong else 0) and devices == [5]
    assert module.main(["--check", "--only", "allreduce"]) == 0


def test_without_the_runtime_it_says_which_and_how_it_is_built(tmp_path: Path) -> None:
    folder = written(tmp_path / "folder", "mscclpp")
    loader = [sys.executable, str(folder / "load_plans.py"), "--check"]
    done = subprocess.run(loader, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    said = ("No module named 'mscclpp'", "MSCCL++ 0.9.0", "1f5f065d", "git clone", 'pip install ".[cuda12]"')
    assert all(words in done.stderr for words in said)
