"""Thresholds: declared with a unit and a reason, and obeyed where a request replaces one.

No code falls back on ``DEFAULT`` where it was handed a policy: a replaced threshold would silently do nothing. A
request runs with a policy whose sections have classes of their own, which equal no section of another policy, so
that no cache answers for them. A read of a threshold of any other section is one that the handed policy missed.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

import hetesynth.policy
from hetesynth.engine.compilation import compilation
from hetesynth.engine.page.report import report_of_synthesis
from hetesynth.engine.request import Request
from hetesynth.engine.synth import synthesized
from hetesynth.model.problem import Budget
from hetesynth.model.target import TARGETS
from hetesynth.policy import DEFAULT, Policy

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SECTIONS = {f.name: getattr(DEFAULT, f.name) for f in fields(Policy)}


THRESHOLD = re.compile(r'^    (\w+): [^\n]* = ([^\n]*)\n    """(.*?)"""', re.M | re.S)
"""Name, value, and what stands below."""


def test_a_threshold_has_a_value_a_unit_and_a_reason() -> None:
    for name, value, words in THRESHOLD.findall(Path(hetesynth.policy.__file__).read_text()):
        unit, _, why = words.partition(": ")
        assert value.strip("(").partition(",")[0].replace("_", "").strip() and unit, name
        assert why.endswith(".") and any(letter.isdigit() for letter in why), f"{name}: what was measured"


def policy_apart() -> Policy:
    """The values of ``DEFAULT`` in sections that are told from those of any other policy by their classes."""
    return Policy(**{n: type(type(s).__name__, (type(s),), {})() for n, s in SECTIONS.items()})


@contextmanager
def reads_elsewhere() -> Iterator[set[str]]:
    """Thresholds that functions read meanwhile from sections other than those of ``policy_apart``, and where."""
    reads: set[str] = set()

    def recording(section: type, names: set[str]) -> Any:
        def read(self: object, name: str) -> object:
            code = sys._getframe(1).f_code
            own = "/hetesynth/" in code.co_filename and code.co_flags & inspect.CO_OPTIMIZED
            if own and name in names and type(self) is section:
                reads.add(f"{section.__name__}.{name}: {Path(code.co_filename).name}:{code.co_name}")
            return object.__getattribute__(self, name)

        return read

    with pytest.MonkeyPatch.context() as patch:
        for section in map(type, SECTIONS.values()):
            names = {f.name for f in fields(section)}
            patch.setattr(section, "__getattribute__", recording(section, names), raising=False)
        yield reads


def test_a_synthesis_and_its_report_decide_by_the_policy_of_the_request() -> None:
    targets = TARGETS["portable"], TARGETS["mscclpp"]
    asked = {"size": 64_000, "targets": targets, "budget": Budget(effort=0.1), "policy": policy_apart()}
    request = Request(EXAMPLES / "ring8" / "topo.dsl", "allgather", **asked)  # type: ignore[arg-type]
    by_steps = replace(request, size=None)
    with reads_elsewhere() as reads:
        for each in (request, by_steps):
            report_of_synthesis(synthesized(compilation(each)))
    assert reads == set()
    with reads_elsewhere() as reads:  # what is missed is noticed
        synthesized(compilation(replace(by_steps, policy=DEFAULT)))
    assert any(read.startswith("GreedyPolicy.") for read in reads)
