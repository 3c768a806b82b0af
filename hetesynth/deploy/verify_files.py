"""Many files judged, each as ``verify`` judges one, by several processes where they are many.

In: candidates and a question. Out: a ``FileVerdict`` for each, in their order, whatever the number of processes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from pathlib import Path

from hetesynth.deploy.walked_files import CHANGED, Candidate, Walk, digest
from hetesynth.engine.formats import format_of
from hetesynth.engine.verify import Finding, Judged, Question, is_composition, is_schedule, judge_file
from hetesynth.errors import HetesynthError
from hetesynth.model.target import TARGETS, Target
from hetesynth.model.verdict import Violation
from hetesynth.processes import side_by_side
from hetesynth.topology.language import load_pods, load_topology

FILES_OF_A_PROCESS = 24
"""So many files take as long as a process needs to begin."""


@dataclass(frozen=True, slots=True)
class FileVerdict:
    """What is said of one file. ``unusable``: it was named, and is nothing that can be judged."""

    path: Path
    judged: Judged
    targets: tuple[str, ...] = ()
    unusable: bool = False

    def ok(self, *, portable: bool) -> bool:
        """Whether nothing is wrong; ``portable``: findings that some runtimes refuse and warnings count."""
        stricter = self.judged.count("portability", "warning") if portable else 0
        return not self.unusable and self.judged.readable and self.judged.count("error") + stricter == 0


def loaded(question: Question, walk: Walk) -> Question:
    """``question`` with its topology read, once for all files. Raises HetesynthError where that is wrong."""
    if question.topology is None:
        return question
    paths = [candidate.path for candidate in walk.candidates if candidate.judged]
    composed = [is_composition(path) for path in paths]
    return replace(
        question,
        topology=None,
        pods=load_pods(question.topology) if any(composed) else None,
        given=load_topology(question.topology) if not all(composed) else None,
    )


def file_verdicts(candidates: Sequence[Candidate], question: Question, jobs: int) -> Iterator[FileVerdict]:
    """The verdict on each of ``candidates``, in their order, by up to ``jobs`` processes."""
    number = min(jobs, len(candidates) // FILES_OF_A_PROCESS)
    if number < 2:
        yield from (file_verdict(candidate, question) for candidate in candidates)
        return
    try:
        yield from side_by_side(_verdict, candidates, number, begin=_ask, arguments=(question,))
    except BrokenProcessPool as error:
        message = "a process that judged files was killed; perhaps the memory did not suffice"
        raise HetesynthError(
            message, code="HS878", help="use --jobs 1, or name fewer files", exit_code=3
        ) from error


_question = Question()


def _ask(question: Question) -> None:
    """In a new process: what it is asked of every file."""
    global _question
    _question = question


def _verdict(candidate: Candidate) -> FileVerdict:
    return file_verdict(candidate, _question)


def file_verdict(candidate: Candidate, question: Question) -> FileVerdict:
    """What is to be said of ``candidate``: its place first, then its contents."""
    place = [_finding(candidate.problem)] if candidate.problem else []
    if not candidate.judged:
        return FileVerdict(candidate.path, Judged(tuple(place)))
    if candidate.sha256 and digest(candidate.path) != candidate.sha256:
        place.append(_finding(CHANGED))
    targets = _targets(candidate, question)
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


def _targets(candidate: Candidate, question: Question) -> tuple[Target, ...]:
    """Those that read such a file: of the targets asked for, else of those of its folder. All of them where the
    file was named and none reads it: it is refused."""
    if is_schedule(candidate.path) or is_composition(candidate.path):
        return ()
    targets = question.targets or tuple(TARGETS[name] for name in candidate.targets)
    readers = tuple(target for target in targets if target.format == format_of(candidate.path))
    return readers or (targets if candidate.named else ())
