"""Whose GPUs a cluster has, and so which runtimes can load the programs that are written for it.

In: targets, the models of the GPUs as the topology states them. Out: warnings, and where no runtime is named the
targets that fit. Facts about runtimes come from ``model/target.py``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hetesynth.engine.roots import Warned
from hetesynth.model.collective import CollectiveName
from hetesynth.model.target import PORTABLE, TARGETS, USUAL_TARGETS, Target, Vendor
from hetesynth.topology.importers.gpu_models import gpu_vendor


@dataclass(frozen=True, slots=True)
class RuntimeAdvice:
    """``targets``: what to write for instead of ``portable``, none where nothing fits; ``message``: in words."""

    targets: tuple[str, ...]
    message: str

    def plain(self) -> dict[str, str | list[str]]:
        """For JSON."""
        return {"targets": list(self.targets), "message": self.message}


def fitting_targets(models: Iterable[str], collective: CollectiveName | None = None) -> tuple[str, ...]:
    """The usual runtimes of such GPUs that run ``collective``; none for GPUs of several vendors or of another."""
    vendors = {gpu_vendor(model) for model in models}
    return _usual(vendors.pop(), collective) if len(vendors) == 1 else ()


def _usual(vendor: Vendor | None, collective: CollectiveName | None) -> tuple[str, ...]:
    names = () if vendor is None else USUAL_TARGETS[vendor]
    return tuple(name for name in names if collective is None or collective in TARGETS[name].collectives)


def vendor_warnings(
    targets: Sequence[Target], models: Iterable[str], collective: CollectiveName
) -> tuple[Warned, ...]:
    """A warning for each target that does not run on all of the GPUs."""
    shown = tuple(dict.fromkeys(models))
    fitting = fitting_targets(shown, collective)
    way_out = f"--target {','.join(fitting)} writes what loads there" if fitting else (
        "no runtime joins GPUs of both vendors: give each part of the cluster a topology of its own"
    )  # fmt: skip
    warned = []
    for target in targets:
        strange = [
            (model, vendor)
            for model in shown
            if (vendor := gpu_vendor(model)) is not None and vendor not in target.vendors
        ]
        if strange:
            others = ", ".join(f"{model} ({vendor})" for model, vendor in strange)
            message = f"{target.name} runs on {' and '.join(target.vendors)} GPUs only, not on {others}"
            warned.append(Warned((target.name,), message, way_out))
    return tuple(warned)


def runtime_advice(
    targets: Sequence[Target], models: Iterable[str], collective: CollectiveName
) -> RuntimeAdvice | None:
    """What to write for where ``targets`` name no runtime; None where they do."""
    if any(target.name != PORTABLE.name for target in targets):
        return None
    shown = tuple(dict.fromkeys(models))
    fitting = fitting_targets(shown, collective)
    named = ", ".join(model or "unknown" for model in shown)
    each = "; ".join(f"{', '.join(_usual(vendor, collective))} for {vendor}" for vendor in USUAL_TARGETS)
    if fitting:
        then = f"for these GPUs ({named}) name its own: --target {' or '.join(fitting)}"
    elif {gpu_vendor(model) for model in shown} == {"NVIDIA", "AMD"}:
        then = f"and none joins GPUs of two vendors ({named}): --target takes {each}"
    else:
        then = f"name one by the GPUs, here {named}: --target {each}"
    return RuntimeAdvice(fitting, f"{PORTABLE.name} is no runtime's own format; {then}")
