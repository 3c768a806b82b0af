"""Warnings to read before programs are installed: of roots, GPU vendors, NICs. A runtime that selects files by
ranks, collective, size and in-place form runs a broadcast from root 3 for a call with root 0 as well, and the data
is wrong; whoever writes such a file must promise that all calls have its root."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from hetesynth.engine.formats import Emitted
from hetesynth.errors import HetesynthError
from hetesynth.model.collective import ROOTED, Collective, CollectiveName
from hetesynth.model.target import PORTABLE, TARGETS, USUAL_TARGETS, Target
from hetesynth.model.topology import Rank
from hetesynth.topology.importers.gpu_models import gpu_vendor


def fitting_targets(models: Iterable[str], collective: CollectiveName | None = None) -> tuple[str, ...]:
    """Return the usual runtimes of GPUs of ``models`` that run ``collective``; none for mixed or other vendors."""
    vendors = {gpu_vendor(model) for model in models}
    vendor = vendors.pop() if len(vendors) == 1 else None
    names = () if vendor is None else USUAL_TARGETS[vendor]
    return tuple(name for name in names if collective is None or collective in TARGETS[name].collectives)


def vendor_warnings(
    targets: Sequence[Target], models: Iterable[str], collective: CollectiveName
) -> tuple[Warned, ...]:
    """Return a warning for each target that does not run on all of the GPUs."""
    shown = tuple(dict.fromkeys(models))
    fitting = ",".join(fitting_targets(shown, collective))
    way_out = f"--target {fitting} writes what loads there"
    if not fitting:
        way_out = "--target torch runs over a backend that joins GPUs of both vendors, gloo or FlagCX"
    warned = []
    for target in targets:
        vendors = ((model, gpu_vendor(model)) for model in shown)
        strange = [f"{model} ({v})" for model, v in vendors if v is not None and v not in target.vendors]
        if strange:
            ours, others = " and ".join(target.vendors), ", ".join(strange)
            message = f"{target.name} runs on {ours} GPUs only, not on {others}"
            warned.append(Warned((target.name,), message, way_out))
    return tuple(warned)


def runtime_advice(targets: Sequence[Target], models: Iterable[str], collective: CollectiveName) -> str | None:
    """Return a sentence on what to write for where ``targets`` name no runtime; None where they do."""
    if any(target.name != PORTABLE.name for target in targets):
        return None
    fitting = fitting_targets(models, collective)
    others = (t.name for t in TARGETS.values() if t is not PORTABLE and collective in t.collectives)
    named = " or ".join(fitting) if fitting else f"one of {', '.join(others)}"
    return f"{PORTABLE.name} is no runtime's own format; for these GPUs name its own: --target {named}"


def network_warnings(programs: Iterable[Emitted]) -> tuple[Warned, ...]:
    """Return at most one warning of hangs over NICs, in which the first program says between which ranks."""
    hanging = [p for p in programs if p.over_nics]
    if not hanging:
        return ()
    targets = tuple(dict.fromkeys(p.target.name for p in hanging))
    way_out = "use it inside one server, or write LL for Simple into it and verify it again (docs/targets.md)"
    return (Warned(targets, hanging[0].over_nics, way_out),)


def program_warnings(
    programs: Collection[Emitted], targets: Sequence[Target], models: Iterable[str], goal: Collective, every: bool
) -> tuple[Warned, ...]:
    """Return all warnings of ``programs`` on GPUs of ``models``; ``every``: there are programs for all roots."""
    if not programs:
        return ()
    strange, hangs = vendor_warnings(targets, models, goal.name), network_warnings(programs)
    return strange + call_warnings(targets, goal.name, goal.root, every=every) + hangs


PROMISE = "--single-root"


@dataclass(frozen=True, slots=True)
class Warned:
    """A warning of what may go wrong with programs for ``targets``, and what to do about it."""

    targets: tuple[str, ...]
    message: str
    help: str


def demand_single_root(
    targets: Sequence[Target], collective: CollectiveName, *, promised: bool, every: bool = False
) -> None:
    """Raise HetesynthError HS514 when a runtime among ``targets`` would run a program for one root for every root,
    unless one root is ``promised``; ``portable`` is no runtime. ``every``: there are programs for all roots."""
    if collective not in ROOTED or (promised and not every):
        return
    blind = [t for t in targets if not t.tells_roots and t.name != PORTABLE.name]
    if not blind:
        return
    who = ", ".join(f"{t.name} ({t.runtime})" for t in blind)
    files = f"the first of {collective} files for several roots" if every else f"a {collective} file for one root"
    way_out = "name one root, and" if every else "add"
    raise HetesynthError(
        f"{who} does not look at the root of a call: {files} would run for every root, and deliver wrong data",
        code="HS514",
        help=f"{way_out} {PROMISE} if every {collective} of the job has that root; --target mscclpp is for "
        "runtimes whose selector sees the root",
    )


def call_warnings(
    targets: Sequence[Target], collective: CollectiveName, root: Rank | None, *, every: bool = False
) -> tuple[Warned, ...]:
    """Return warnings of calls that programs for ``root`` get wrong. ``every``: there are some for all roots."""
    if root is None:
        return ()
    warned: list[Warned] = []
    whose = "one root" if every else f"root {root}"
    blind = tuple(t.name for t in targets if not t.tells_roots)
    if blind and collective in ROOTED:
        wrong = f"this {collective} for {whose} runs for every root, and delivers wrong data for all others"
        message = f"runtimes of MSCCL XML do not look at the root of a call: installed, {wrong}"
        way_out = f"install it only where every {collective} of the job has {'that root' if every else whose}"
        warned.append(Warned(blind, message, way_out))
    selecting = tuple(t.name for t in targets if t.tells_roots)
    if selecting and collective == "broadcast":  # those of the other collectives are named by who runs them
        message = f"the built-in selector of MSCCL++ runs a plan for {whose} for every broadcast"
        way_out = 'register plans for all roots, and a selector that chooses by request.hints["root"]'
        warned.append(Warned(selecting, message, way_out + ("" if every else "; --root all writes them")))
    return tuple(warned)
