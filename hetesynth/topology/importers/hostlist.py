"""Slurm's host lists: ``tux[0-3,12,18-20]``, ``rack[0-1]node[01-16],login``; text in, names out, in order."""

from __future__ import annotations

import re

from hetesynth.topology.importers.tool_text import refused

MAX_HOSTS = 100_000

_PART = re.compile(r"\[([\d,-]{1,2000})\]|([^\[\],\s]{1,200})")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")
HELP = "host lists are written like node[0-3,12],login or rack[0-1]n[01-16]"


def hosts_of(text: str, name: str) -> list[str]:
    """The hosts of ``text``; HS732 where it is no host list, or has too many hosts."""
    hosts: list[str] = []
    for word in _words(text, name):
        names = [""]
        position = 0
        while position < len(word):
            match = _PART.match(word, position)
            if match is None:
                raise refused(name, f"{word[:60]!r} is no host list", HELP)
            endings = _numbers(match[1], name) if match[1] else [match[2]]
            if len(names) * len(endings) + len(hosts) > MAX_HOSTS:
                raise refused(name, f"more than {MAX_HOSTS} hosts in one list", "divide it")
            names = [begin + ending for begin in names for ending in endings]
            position = match.end()
        hosts += names
    if not hosts:
        raise refused(name, "an empty host list", HELP)
    return hosts


def _words(text: str, name: str) -> list[str]:
    """The parts between commas outside of brackets."""
    words, depth, begin = [], 0, 0
    for position, character in enumerate(text):
        depth += {"[": 1, "]": -1}.get(character, 0)
        if not 0 <= depth <= 1:
            raise refused(name, f"{text[:60]!r} has brackets that do not match", HELP)
        if character == "," and depth == 0:
            words.append(text[begin:position])
            begin = position + 1
    words.append(text[begin:])
    if depth or not all(words):
        raise refused(name, f"{text[:60]!r} is no host list", HELP)
    return words


def _numbers(text: str, name: str) -> list[str]:
    """The numbers between brackets, with the zeros of the first of each range."""
    numbers: list[str] = []
    for word in text.split(","):
        match = _RANGE.fullmatch(word)
        if match is None:
            raise refused(name, f"{word!r} is no number or range", HELP)
        first, last = int(match[1]), int(match[2] or match[1])
        if last < first or last - first + len(numbers) >= MAX_HOSTS:
            raise refused(name, f"{word!r} is no range, or too long", HELP)
        numbers += [str(number).zfill(len(match[1])) for number in range(first, last + 1)]
    return numbers
