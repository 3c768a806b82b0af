"""Calls that Ctrl-C can leave: their results, their errors, and that they are left."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from hetesynth.search.machine_code import leavable


@pytest.fixture(autouse=True)
def usual_handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_it_returns_and_raises_what_the_call_does() -> None:
    assert leavable(lambda: 3) == 3
    with pytest.raises(ZeroDivisionError):
        leavable(lambda: 1 // 0)


def test_ctrl_c_leaves_a_call_that_goes_on() -> None:
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


def test_outside_the_main_thread_it_is_just_called() -> None:
    threads: list[threading.Thread] = []
    other = threading.Thread(target=lambda: threads.append(leavable(threading.current_thread)))
    other.start()
    other.join()
    assert threads == [other]
    assert leavable(threading.current_thread) is not threading.current_thread()
