"""The files that are named and those in folders, each judged as ``verify`` judges one."""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from hetesynth.engine.formats import format_of
from hetesynth.engine.verify import Finding, Judged, Question, is_composition, is_schedule, judge_file
from hetesynth.errors import HetesynthError
from hetesynth.files.folder_index import DEPLOYMENT, FolderIndex, read_index
from hetesynth.files.folders import INDEX
from hetesynth.files.regular_files import digest_of, open_regular
from hetesynth.model.target import TARGETS, Target
from hetesynth.model.verdict import Violation
from hetesynth.processes import side_by_side
from hetesynth.topology.believable import load_topology
from hetesynth.topology.language import load_pods

MAX_FILES = 100_000
HEAD = 65_536  # bytes of a JSON file that say whether it is a plan, a table, a schedule or a composition
ALGORITHMS = "algorithms"  # a folder of which runtimes read every file
CHANGED = "it was changed: index.json has another SHA-256"
EXTRA = "index.json does not name it"
MISSING = "it is missing: index.json names it"
FILES_OF_A_PROCESS = 24  # so many files take as long as a process needs to begin


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file to be judged. ``named``: on the command line, not by a folder. ``targets``: of its folder.
    ``problem``: what is wrong with its place; ``judged``: whether there is a file to judge at all. ``sha256``: as
    the index has it; empty: it does not say."""

    path: Path
    named: bool = False
    targets: tuple[str, ...] = ()
    sha256: str = ""
    problem: str = ""
    judged: bool = True


def walked(paths: Sequence[Path]) -> tuple[tuple[Candidate, ...], int]:
    """The files at ``paths``, each once, and how many others their folders have. HetesynthError HS875: more than
    are judged at once; HS877: a folder in which there is nothing to judge."""
    candidates: dict[Path, Candidate] = {}
    passed = 0
    for path in paths:
        if not path.is_dir():
            candidates.setdefault(path, Candidate(path, named=True))
            continue
        rows, others = _candidates(path, MAX_FILES - len(candidates) - passed)
        if not rows:
            message = f"there is no program, schedule or composition in {path}"
            help_ = "name a folder of `hetesynth build` or `atlas`; what is left to the library has none"
            raise HetesynthError(message, code="HS877", help=help_)
        passed += others
        for row in rows:
            candidates.setdefault(row.path, row)
    return tuple(candidates.values()), passed


def _candidates(root: Path, most: int) -> tuple[list[Candidate], int]:
    """Return every file in ``root`` that is judged, or that an index names and that is missing; and the number of
    its other files."""
    rows: list[Candidate] = []
    indices: dict[Path, FolderIndex | None] = {}
    seen, passed, real = set[Path](), 0, os.path.realpath(root)

    def unreadable(error: OSError) -> None:
        reason = f"the folder cannot be read: {error.strerror}"
        rows.append(Candidate(Path(error.filename), problem=reason, judged=False))

    for place, folders, names in os.walk(root, onerror=unreadable):
        folder = Path(place)
        links = [name for name in folders if (folder / name).is_symlink()]
        passed += len(links)
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name not in links)
        try:
            index = read_index(folder) if INDEX in names else indices.get(folder.parent)
        except HetesynthError as error:
            index = None
            rows.append(Candidate(folder / INDEX, problem=error.message, judged=False))
            names.remove(INDEX)
        indices[folder] = index
        for path in sorted(folder / name for name in names):
            inside = not path.is_symlink()
            if not inside:  # a link is followed where it stays in the folder
                with suppress(OSError, ValueError):
                    inside = Path(os.path.realpath(path)).is_relative_to(real)
            if not inside or path.name.startswith("."):
                passed += 1
                continue
            if len(seen) >= most:
                message = f"{root} holds more than the {MAX_FILES} files that are judged at once"
                raise HetesynthError(message, code="HS875", help="name smaller folders")
            seen.add(path)
            name = "" if index is None else path.relative_to(index.folder).as_posix()
            stated = None if index is None else index.files.get(name)
            if not is_meant(path):
                if stated and digest_of(path) != stated:
                    rows.append(Candidate(path, problem=CHANGED, judged=False))
                else:
                    passed += 1
            elif index is None:
                rows.append(Candidate(path))
            else:
                extra = EXTRA if (index.kind == DEPLOYMENT or index.files) and stated is None else ""
                rows.append(Candidate(path, False, index.targets_of(name), stated or "", extra))
    for index in filter(None, indices.values()):
        missing = (index.folder / name for name in index.files if index.folder / name not in seen)
        rows += [Candidate(path, problem=MISSING, judged=False) for path in missing]
    return sorted(rows, key=lambda row: row.path.parts), passed


def is_meant(path: Path) -> bool:
    """True where a file of a folder is to be judged."""
    suffix = path.suffix.lower()
    if suffix == ".xml" or (path.parent.name == ALGORITHMS and path.name != INDEX):
        return True
    if suffix != ".json" or path.name == INDEX:
        return False
    try:
        if not path.is_file():
            return False
        with open_regular(path) as stream:
            head = stream.read(HEAD)
    except OSError:
        return True  # reading it will say why
    kinds = (b'"hetesynth-schedule"', b'"hetesynth-composition"', b'"hetesynth-table"')
    return any(kind in head for kind in kinds) or (b'"collective"' in head and b'"gpus"' in head)


@dataclass(frozen=True, slots=True)
class FileVerdict:
    """The verdict on one file. ``unusable``: it was named, and is nothing that can be judged."""

    path: Path
    judged: Judged
    targets: tuple[str, ...] = ()
    unusable: bool = False

    def ok(self, *, portable: bool) -> bool:
        """True where nothing is wrong; ``portable``: findings that some runtimes refuse and warnings count."""
        stricter = self.judged.count("portability", "warning") if portable else 0
        return not self.unusable and self.judged.readable and self.judged.count("error") + stricter == 0


def loaded(question: Question, candidates: Sequence[Candidate]) -> Question:
    """Return ``question`` with its topology read, once for all files. Raises HetesynthError if that is wrong."""
    if question.topology is None:
        return question
    paths = [candidate.path for candidate in candidates if candidate.judged]
    composed = [is_composition(path) for path in paths]
    return replace(
        question,
        topology=None,
        pods=load_pods(question.topology) if any(composed) else None,
        given=load_topology(question.topology) if not all(composed) else None,
    )


def file_verdicts(candidates: Sequence[Candidate], question: Question, jobs: int) -> Iterator[FileVerdict]:
    """The verdict on each of ``candidates``, in their order, by up to ``jobs`` processes."""
    message = "a process that judged files was killed; perhaps the memory did not suffice"
    help_ = "use --jobs 1, or name fewer files"
    killed = HetesynthError(message, code="HS878", help=help_, exit_code=3)
    number, judge = min(jobs, len(candidates) // FILES_OF_A_PROCESS), partial(file_verdict, question=question)
    return side_by_side(judge, candidates, number, FILES_OF_A_PROCESS, killed)


def file_verdict(candidate: Candidate, question: Question) -> FileVerdict:
    """Return the verdict on ``candidate``: on its place first, then on its contents."""
    place = [_finding(candidate.problem)] if candidate.problem else []
    if not candidate.judged:
        return FileVerdict(candidate.path, Judged(tuple(place)))
    if candidate.sha256 and digest_of(candidate.path) != candidate.sha256:
        place.append(_finding(CHANGED))
    targets: tuple[Target, ...] = ()
    if not is_schedule(candidate.path) and not is_composition(candidate.path):
        targets = question.targets or tuple(TARGETS[name] for name in candidate.targets)
        readers = tuple(target for target in targets if target.format == format_of(candidate.path))
        # a file that was named and that none of them reads is refused
        targets = readers or (targets if candidate.named else ())
    names = tuple(target.name for target in targets)
    try:
        judged = judge_file(candidate.path, replace(question, targets=targets, documents=True))
    except HetesynthError as error:
        place.append(_finding(error.message, error.code))
        unusable = candidate.named and error.exit_code == 2
        return FileVerdict(candidate.path, Judged(tuple(place), readable=False), names, unusable)
    verdict = replace(judged, findings=(*place, *judged.findings))
    return FileVerdict(candidate.path, verdict, names, candidate.named and not judged.readable)


def _finding(message: str, rule: str | None = None) -> Finding:
    return Finding("error", Violation("file", message, rule=rule))
