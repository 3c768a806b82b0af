"""The files that a command makes: what cannot be written is said before the work, not after it."""

import os
from collections.abc import Collection, Iterable
from pathlib import Path

from hetesynth.engine.formats import SCHEDULE_SUFFIX
from hetesynth.engine.request import Request
from hetesynth.errors import HetesynthError
from hetesynth.model.diagnostics import SourceError
from hetesynth.topology.language import load_pods

COMPOSITION = "composition"
COMPOSITION_SUFFIX = ".composition.json"


def is_composed(request: Request) -> bool:
    """Return True if pods are composed: strategy auto does it for several with too many GPUs to be solved flat."""
    if request.strategy == COMPOSITION:
        return True
    if request.strategy != "auto" or not isinstance(request.topology, str | os.PathLike):
        return False
    try:
        cluster = load_pods(request.file)
    except SourceError:
        return False  # whoever reads the whole cluster says what is wrong with it
    if len(cluster.pods) == 1 or cluster.ranks <= request.policy.pods.flat_ranks:
        return False
    from hetesynth.search.pods.compose import COMPOSED

    return request.collective in COMPOSED


def check_folder(output: Path | None) -> None:
    """Raise HetesynthError HS511, HS510 where the folder of ``output`` is missing or cannot be written to."""
    from hetesynth.files.atomic import check_writable

    directory = Path() if output is None else output if output.is_dir() else output.parent
    if not directory.is_dir():
        message = f"{directory} is not a directory"
        raise HetesynthError(message, code="HS511", help="create it first, or choose another -o")
    check_writable(directory)


def named_stem(output: Path | None, suffixes: Collection[str]) -> Path | None:
    """Return the stem that ``output`` names, whose files can all be written; None: a folder or nothing."""
    if output is None or output.is_dir():
        return None
    from hetesynth.files.atomic import check_targets

    if output.exists() and not output.is_file():
        check_targets([output])  # a device or a pipe, and nobody means its name with an extension
    stem = stem_of(output, suffixes)
    check_targets(stem.with_name(stem.name + suffix) for suffix in suffixes)
    return stem


def stem_of(output: Path, suffixes: Collection[str]) -> Path:
    """Return the common part of all output paths, from the name of any of them or from the common part itself.
    ``suffixes``: what may follow it. HetesynthError HS512: a name that looks like a file but would be none."""
    others = (".xml", ".json", ".inplace", ".schedule")  # what a file that is none of these ends in
    extensions = {Path(suffix).suffix for suffix in suffixes if suffix != SCHEDULE_SUFFIX} or {".xml", ".json"}
    endings = sorted({*suffixes, *extensions}, key=len, reverse=True)
    ending = next(
        (end for end in endings if output.name.removesuffix(end) not in ("", ".", "..", output.name)), ""
    )
    stem = output.with_name(output.name.removesuffix(ending))
    if stem.suffix in others and stem.suffix != stem.name:
        while stem.suffix in others:
            stem = stem.with_suffix("")
        message = f"{output.name!r} is not a file that this makes: those end in {', '.join(suffixes)}"
        raise HetesynthError(message, code="HS512", help=f"use -o {stem} for all of them")
    return stem


def check_places(
    stem: Path | None,
    suffixes: Collection[str],
    page: Path | None,
    trace: Path | None,
    log: Path | None,
    inputs: Iterable[object],
) -> None:
    """Raise HetesynthError HS570 where two files, those at ``stem`` too, are one; and as ``demand_place`` does."""
    ours = set() if stem is None else {os.path.realpath(stem.with_name(stem.name + suffix)) for suffix in suffixes}
    ends = () if stem is not None else tuple(suffixes)
    if page is not None and trace is not None and os.path.realpath(page) == os.path.realpath(trace):
        raise HetesynthError("--report and --trace name the same file", code="HS570", help="give them two names")
    others = {os.path.realpath(other) for other in (*inputs, page, trace) if isinstance(other, Path)}
    for path in (page, trace, log):
        if path is None:
            continue
        clashing = path is log and os.path.realpath(path) in others
        if clashing or os.path.realpath(path) in ours or path.name.endswith(ends):
            what = "another option names it too" if clashing else "it is the name of a program or of the schedule"
            raise HetesynthError(f"{str(path)!r}: {what}", code="HS570", help="give it another name")
        demand_place(path)


def demand_place(path: Path) -> None:
    """Raise HetesynthError HS571, HS510 where ``path`` cannot be written, before the work rather than after it."""
    from hetesynth.files.atomic import check_targets, check_writable

    if path.is_dir() or not path.parent.is_dir():
        what = "is a folder" if path.is_dir() else "is in a folder that does not exist"
        raise HetesynthError(f"{str(path)!r} {what}", code="HS571", help="name a file in a folder that exists")
    check_targets([path])
    check_writable(path.parent)
