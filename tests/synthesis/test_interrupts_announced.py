"""A first Ctrl-C is answered at once, wherever it arrives, and only once."""

import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

import pytest

from hetesynth.search.interrupts import _heard, announcing, deferred, finishing


@pytest.fixture(autouse=True)
def usual_handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_it_is_said_before_the_search_ends() -> None:
    said: list[str] = []
    with pytest.raises(KeyboardInterrupt), announcing(lambda: said.append("x")):
        signal.raise_signal(signal.SIGINT)
    assert said == ["x"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize("guard", [finishing, deferred])
def test_it_is_said_where_ctrl_c_is_put_off(guard: Callable[[], AbstractContextManager[object]]) -> None:
    said: list[str] = []
    put_off = False
    try:
        with announcing(lambda: said.append("x")), finishing(), guard():
            signal.raise_signal(signal.SIGINT)
            put_off = True
    except KeyboardInterrupt:
        pass
    assert put_off and said == ["x"]


def test_a_second_one_ends_what_is_being_finished() -> None:
    said: list[str] = []
    with pytest.raises(KeyboardInterrupt), announcing(lambda: said.append("x")), finishing() as interrupted:
        signal.raise_signal(signal.SIGINT)
        assert interrupted.is_set()
        signal.raise_signal(signal.SIGINT)
    assert said == ["x"]


def test_it_is_said_though_no_handler_can_run() -> None:
    """As in foreign code; here the handler does nothing."""
    said: list[str] = []
    signal.signal(signal.SIGINT, lambda number, frame: None)
    with _heard(lambda: said.append("x")):
        signal.raise_signal(signal.SIGINT)
    assert said == ["x"]
