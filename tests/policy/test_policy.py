"""Thresholds: declared with a unit and a reason, listed in the manual, and obeyed where a request replaces one."""

from __future__ import annotations

import importlib
import pkgutil
from dataclasses import Field, FrozenInstanceError, dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import hetesynth.policy
from hetesynth.engine.request import Request
from hetesynth.engine.synth import synthesize
from hetesynth.model.collective import CollectiveName
from hetesynth.model.target import TARGETS
from hetesynth.policy import DEFAULT
from hetesynth.policy.lowering import LoweringPolicy
from hetesynth.policy.machine_code import WorkLimits
from hetesynth.policy.policy import Policy
from hetesynth.policy.threshold import threshold
from hetesynth.programs.summary import ProgramSummary

ROOT = Path(__file__).resolve().parents[2]
SECTIONS = {f.name: getattr(DEFAULT, f.name) for f in fields(Policy)}
THRESHOLDS = {f"{name}.{f.name}": (f, getattr(section, f.name)) for name, section in SECTIONS.items()
              for f in fields(section)}  # fmt: skip


def is_number(value: object) -> bool:
    """Whether it is a number, or a tuple or a record of such."""
    if is_dataclass(value):
        return all(limit is None or is_number(limit) for limit in (getattr(value, f.name) for f in fields(value)))
    if isinstance(value, tuple):
        return bool(value) and all(map(is_number, value))
    return isinstance(value, int | float) and not isinstance(value, bool)


@pytest.mark.parametrize("name", THRESHOLDS)
def test_a_threshold_has_a_value_a_unit_and_a_reason(name: str) -> None:
    field, value = THRESHOLDS[name]
    assert is_number(value)
    assert field.name == field.name.lower()
    assert field.metadata["unit"].strip()
    assert field.metadata["why"].endswith(".") and "|" not in field.metadata["why"]


@pytest.mark.parametrize("name", THRESHOLDS)
def test_a_reason_names_a_figure_or_says_that_nothing_was_measured(name: str) -> None:
    why = THRESHOLDS[name][0].metadata["why"]
    assert any(letter.isdigit() for letter in why) or "Not measured" in why


def test_every_section_is_a_frozen_field_of_the_policy() -> None:
    modules = [m.name for m in pkgutil.iter_modules(hetesynth.policy.__path__, "hetesynth.policy.")]
    defined = {
        value
        for name in modules
        for value in vars(importlib.import_module(name)).values()
        if isinstance(value, type) and is_dataclass(value) and value is not Policy
    }
    assert defined == {type(section) for section in SECTIONS.values()} | {WorkLimits}
    for section in SECTIONS.values():
        assert type(section)() == section
        assert type(section).__module__.startswith("hetesynth.policy.")
    with pytest.raises(FrozenInstanceError):
        DEFAULT.lowering.steady_least_piece = 1  # type: ignore[misc]


def test_a_threshold_keeps_what_it_was_declared_with() -> None:
    @dataclass(frozen=True)
    class Section:
        rounds: int = threshold(3, "rounds", "Not measured.")

    declared: Field[Any] = fields(Section)[0]
    assert Section().rounds == 3 and replace(Section(), rounds=4).rounds == 4
    assert dict(declared.metadata) == {"unit": "rounds", "why": "Not measured."}


# -- a request with another policy


def figures(policy: LoweringPolicy, target: str, collective: CollectiveName = "alltoall") -> ProgramSummary:
    """Those of the program of a small request whose lowering decides with ``policy``."""
    request = Request(
        ROOT / "examples" / "h20_4x3" / "topo.dsl", collective, strategy="greedy",
        targets=(TARGETS[target],), policy=replace(DEFAULT, lowering=policy),
    )  # fmt: skip
    return next(iter(synthesize(request).programs.values())).figures
