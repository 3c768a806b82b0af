"""The rule that decides whether a kernel runs as machine code, and how kernels are compiled."""

from __future__ import annotations

import math
import sys
import threading
from pathlib import Path
from types import ModuleType

import pytest

from hetesynth.policy import DEFAULT
from hetesynth.policy.machine_code import WorkLimits
from hetesynth.search import machine_code as module
from hetesynth.search.machine_code import machine_code, most_interpreted
from hetesynth.simulate import fluid_kernel

LIMITS = WorkLimits(load_and_compile=4, load=3, compile=2, ready=1)


def double(value: int) -> int:
    return 2 * value


def kernel(value: int) -> int:
    return double(value) + 1


@pytest.mark.parametrize(
    ("loaded", "on_disk", "most"), [(False, False, 4), (False, True, 3), (True, False, 2), (True, True, 1)]
)
def test_the_limit_depends_on_what_is_left_to_do(
    loaded: bool, on_disk: bool, most: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    if on_disk:
        (tmp_path / "test_machine_code.kernel-20.py311.1.nbc").touch()
    if loaded:
        monkeypatch.setitem(sys.modules, "numba", ModuleType("numba"))
    else:
        monkeypatch.delitem(sys.modules, "numba", raising=False)
    assert most_interpreted(kernel, LIMITS) == most


def test_a_kernel_that_runs_already_may_have_a_limit_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = WorkLimits.by_numba(unloaded=4, loaded=4, running=-1)
    monkeypatch.setattr(module, "_running", {})
    assert most_interpreted(kernel, limits) == 4
    monkeypatch.setattr(module, "_running", {kernel: kernel})
    assert most_interpreted(kernel, limits) == -1


def test_a_kernel_is_compiled_with_the_functions_that_it_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(module, "_running", {})
    compiled = machine_code(kernel)
    assert compiled is machine_code(kernel) and compiled is not kernel
    assert compiled(3) == kernel(3) == 7


def test_numba_is_loaded_where_ctrl_c_leaves_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of it loaded could not be loaded again."""
    threads: list[threading.Thread] = []

    def compiled(kernel: object) -> object:
        threads.append(threading.current_thread())
        return kernel

    monkeypatch.setattr(module, "_running", {})
    monkeypatch.setattr(module, "_compiled", compiled)
    assert machine_code(kernel) is kernel
    assert threads and threads[0] is not threading.main_thread()


def test_nothing_is_compiled_where_numba_is_disabled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels are interpreted on lists of records then: arrays of records have no attributes."""
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    assert most_interpreted(fluid_kernel.run, DEFAULT.machine_code.simulated_tasks) == math.inf
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "0")
    assert most_interpreted(fluid_kernel.run, DEFAULT.machine_code.simulated_tasks) < math.inf
