"""The values of options of ``topo import`` that need a look: which file each is of, models, ratios.

In: texts of the command line. Out: ``Stated`` by file, or exact values. Raises HetesynthError HS736.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import PurePath

from hetesynth.errors import HetesynthError
from hetesynth.topology.import_topology import split_count
from hetesynth.topology.importers.reading import Stated

MAX_MODEL = 40


def of_files(option: str, values: Sequence[str], files: Sequence[str]) -> tuple[str | None, dict[str, str]]:
    """The value for all files, and those for one: ``FILE=VALUE``, FILE as given or without its folder."""
    everywhere: str | None = None
    of: dict[str, str] = {}
    for value in values:
        file, equals, text = value.rpartition("=")
        named = _named(file, files) if equals else ()
        if equals and not named:
            message = f"{option} {value[:80]!r} names no file that is imported"
            raise _wrong(message, f"one of: {', '.join(files[:8])}")
        if (everywhere is not None and not equals) or any(one in of for one in named):
            raise _wrong(f"{option} {value[:80]!r} is a second value for the same", "state one")
        of |= dict.fromkeys(named, text)
        everywhere = everywhere if equals else text
    return everywhere, of


def _named(file: str, files: Sequence[str]) -> tuple[str, ...]:
    """The arguments that ``file`` names: the path itself, else the name of a file in any folder."""
    exact = tuple(one for one in files if file in (one, split_count(one)[0]))
    return exact or tuple(one for one in files if PurePath(split_count(one)[0]).name == file)


def stated_of(models: Mapping[str, str], rates: Mapping[str, Fraction]) -> dict[str, Stated]:
    """What is stated of each file."""
    return {file: Stated(models.get(file, ""), rates.get(file)) for file in {**models, **rates}}


def model(text: str) -> str:
    """``text`` if it can stand in a string of the language."""
    if not text or len(text) > MAX_MODEL or not text.isprintable() or '"' in text or "\\" in text:
        raise _wrong(f"--model {text[:MAX_MODEL]!r} cannot be a name", "for example --model H20")
    return text


def oversubscribed(text: str) -> Fraction:
    """The value of --oversubscription: a number of 1 or more, or ``2:1``; HetesynthError HS736."""
    match = re.fullmatch(r"([0-9]{1,4}(?:\.[0-9]{1,4})?)(?::([1-9][0-9]{0,3}))?", text)
    ratio = Fraction(match[1]) / int(match[2] or 1) if match else Fraction(0)
    if ratio < 1:
        raise _wrong(f"--oversubscription {text[:40]!r} is no number of 1 or more", "for example 2 or 2:1")
    return ratio


def _wrong(message: str, help_: str) -> HetesynthError:
    return HetesynthError(message, code="HS736", help=help_)
