"""The values that options of a request take: the same for the command line and for Python."""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, get_args

from hetesynth.engine.request import LOSS_KINDS, Exclusion, Objective
from hetesynth.errors import HetesynthError, did_you_mean
from hetesynth.model.calibration import CalibrationName
from hetesynth.model.deadline import MOST_SECONDS
from hetesynth.model.topology import Topology
from hetesynth.search.chunking import ROUNDINGS


def _whole_number(least: int, most: int) -> tuple[Callable[[Any], bool], str]:
    """Return the test that a value is a whole number from ``least`` to ``most``, and the words for that."""
    words = f"a whole number from {least}" + (f" to {most}" if most < MANY else "")
    return lambda value: isinstance(value, int) and not isinstance(value, bool) and least <= value <= most, words


def _one_of(values: Sequence[str]) -> tuple[Callable[[Any], bool], str]:
    """Return the test that a value is one of ``values``, and the words for that."""
    return lambda value: isinstance(value, str) and value in values, f"one of {', '.join(values)}"


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf


def _is_texts(value: object) -> bool:
    return isinstance(value, Sequence) and all(isinstance(each, str) for each in value)


def _is_size(value: object) -> bool:
    return isinstance(value, int | str) and not isinstance(value, bool)


def _is_sizes(value: object) -> bool:
    return _is_size(value) or (isinstance(value, Sequence) and bool(value) and all(map(_is_size, value)))


MANY = 1 << 31
_FLAG = (lambda value: isinstance(value, bool)), "True or False"
_TEXT = (lambda value: isinstance(value, str)), "a text"
_SIZE = _is_size, "bytes, or a text such as 64MB"
_FILE = (lambda value: isinstance(value, str | os.PathLike)), "a path"
_TAKES: dict[str, tuple[Callable[[Any], bool], str]] = {
    **dict.fromkeys(("size", "chunk_size"), _SIZE),
    **dict.fromkeys(("strategy", "tau_ref"), _TEXT),
    **dict.fromkeys(("schedule_only", "single_root", "always", "runtime_costs"), _FLAG),
    **dict.fromkeys(("target", "rings"), (_is_texts, "a text, or several")),
    "effort": (_is_positive, "a number above 0"),
    "time_budget": ((lambda value: _is_positive(value) and value <= MOST_SECONDS), "seconds, at most 10000 hours"),
    **dict.fromkeys(("sketch", "first_candidate"), _FILE),
    "root": _whole_number(0, MANY),
    "chunks": _whole_number(1, 4096),
    "max_peers": _whole_number(1, MANY),
    "seed": _whole_number(0, MANY * MANY),
    "rounding": _one_of(ROUNDINGS),
    "exclusion": _one_of(get_args(Exclusion)),
    "objective": _one_of(get_args(Objective)),
}
"""What each option takes, and that in words; None, where it is the default, is taken too."""
_BESIDE: dict[str, tuple[Callable[[Any], bool], str]] = {
    "sizes": (_is_sizes, "bytes or a text such as 1KB..4GB, or several"),
    "strategies": ((lambda value: _is_texts(value) and bool(value)), "names of strategies"),
    "losses": (
        (lambda value: _is_texts(value) and set(value) <= set(LOSS_KINDS)),
        f"some of {', '.join(LOSS_KINDS)}",
    ),
    "calibration": _one_of(get_args(CalibrationName)),
    "most": _whole_number(1, 4096),
    "extra": _whole_number(0, 4096),
    **dict.fromkeys(("page", "trace"), _FILE),
}
"""The same of options that are not of a request."""
_ARGUMENTS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "topology": ((lambda value: isinstance(value, Topology | str | os.PathLike)), "a cluster, or a path"),
    **dict.fromkeys(("text", "name"), _TEXT),
    **dict.fromkeys(("file", "where"), _FILE),
    "bytes": _SIZE,
    "began": ((lambda value: isinstance(value, float | int) and not isinstance(value, bool)), "seconds"),
    "result": ((lambda value: hasattr(value, "write")), "what synthesize, repair, compare or atlas returned"),
}
"""The same of arguments of Python's functions."""
_EVERY = _TAKES | _BESIDE | _ARGUMENTS
_NONE = frozenset(
    {"size", "chunk_size", "root", "chunks", "max_peers", "sketch", "first_candidate", "time_budget", "target"}
    | {"page", "trace", "calibration", "began"}
)


def demand_options(options: Mapping[str, Any]) -> None:
    """Raise HetesynthError HS308 if an option of a request is not known, or has a value that it does not take."""
    for name in options.keys() - _TAKES.keys():
        help_ = did_you_mean(name, _TAKES, f"there are {', '.join(_TAKES)}")
        raise HetesynthError(f"there is no option {name!r}", code="HS308", help=help_)
    demand(**options)


def demand(**values: Any) -> None:
    """Raise HetesynthError HS308 where an option or argument has a value that it does not take."""
    for name, value in values.items():
        takes, words = _EVERY[name]
        if not (takes(value) or (value is None and name in _NONE)):
            shown = name if name in _ARGUMENTS else f"--{name.replace('_', '-')}"
            raise HetesynthError(f"{shown}: {value!r} is not {words}"[:200], code="HS308", help=f"give {words}")
