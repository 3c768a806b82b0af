"""The rule that decides whether a kernel runs as machine code, how kernels are compiled, and leaving them."""

from __future__ import annotations

import os
import signal
import threading
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hetesynth import machine_code as module
from hetesynth.machine_code import leavable, machine_code, pays
from hetesynth.model.words import whole_percent
from hetesynth.search.portable_math import exponential


def double(value: int) -> int:
    return 2 * value


def kernel(value: int) -> int:
    return double(value) + 1


def growing(value: float) -> float:
    return exponential(value) + 1.0


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As in a new process without machine code on disk, with the usual handler of Ctrl-C."""
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(module, "_running", {})
    monkeypatch.setattr(module, "_interpreted", defaultdict(float))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_calls_are_interpreted_until_they_took_as_long_as_compiling(tmp_path: Path) -> None:
    assert [pays(kernel, 0.8) for _ in range(3)] == [False, False, True]


def test_what_is_on_disk_is_loaded_sooner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "test_machine_code.kernel_0-20.py311.1.nbc").touch()
    assert [pays(kernel, 0.2) for _ in range(2)] == [False, True]
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    assert not pays(kernel, 10.0)


def test_a_kernel_is_compiled_with_the_functions_that_it_calls() -> None:
    compiled = machine_code(kernel)
    assert compiled is machine_code(kernel) and compiled is not kernel and pays(kernel, 0.0)
    assert compiled(3) == kernel(3) == 7


def test_a_function_of_another_module_is_in_the_name_on_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    before: Any = module._numba_function(growing, cache=False)
    assert before(1.0) == growing(1.0)
    monkeypatch.setitem(globals(), "exponential", whole_percent)
    after: Any = module._numba_function(growing, cache=False)
    assert before.py_func.__qualname__ != after.py_func.__qualname__


def test_numba_is_loaded_where_ctrl_c_leaves_it_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of it loaded could not be loaded again."""
    threads: list[threading.Thread] = []

    def compiled(kernel: object) -> object:
        threads.append(threading.current_thread())
        return kernel

    monkeypatch.setattr(module, "_compiled", compiled)
    assert machine_code(kernel) is kernel
    assert threads and threads[0] is not threading.main_thread()


def test_a_call_returns_and_raises_what_it_does_and_ctrl_c_leaves_it() -> None:
    assert leavable(lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        leavable(lambda: 1 // 0)
    begun, end, ended = threading.Event(), threading.Event(), threading.Event()

    def endless() -> None:
        begun.set()
        end.wait()
        ended.set()

    def press() -> None:
        begun.wait()
        os.kill(os.getpid(), signal.SIGINT)

    presser = threading.Thread(target=press)
    presser.start()
    with pytest.raises(KeyboardInterrupt):
        leavable(endless)
    presser.join()
    assert not ended.is_set()
    end.set()
    ended.wait()
