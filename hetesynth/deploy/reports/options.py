"""Which reports of a build are written, and where.

In: texts of the command line. Out: ``ReportOptions``, checked before the work begins.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from hetesynth.deploy.reports.index_page import MARK as INDEX_MARK
from hetesynth.deploy.reports.markdown import MARK
from hetesynth.engine.places import demand_place
from hetesynth.errors import HetesynthError
from hetesynth.files.regular_files import open_regular

STANDARD_OUTPUT = Path("-")
STEP_SUMMARY = "GITHUB_STEP_SUMMARY"
INDEX_PAGE = "index.html"
_START = 256  # bytes in which a mark is
_JUNIT = rb'<testsuites name="hetesynth build"'
_GITLAB = rb'\A\[(\]|\s+\{\s+"description": )'
_SARIF = rb'\A\{\s+"\$schema": "[^"]*sarif'
_FORGES = "give github, gitlab=FILE or sarif=FILE"


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """``github``: workflow commands; the others are files, None: not asked for. ``markdown``: ``-`` is standard
    output. ``appended``: the file that a summary is added to, never replaced. ``pages``: a folder. ``jobs``:
    processes that make pages."""

    json: bool = False
    junit: Path | None = None
    github: bool = False
    gitlab: Path | None = None
    sarif: Path | None = None
    markdown: Path | None = None
    pages: Path | None = None
    appended: Path | None = None
    jobs: int = 1

    def __post_init__(self) -> None:
        if self.jobs < 1:
            raise ValueError("somebody has to make the pages")

    @property
    def any(self) -> bool:
        """Whether anything is asked for."""
        return self.json or self.github or any((*self.files, self.markdown, self.pages))

    @property
    def shows_findings(self) -> bool:
        """Whether a report has topology findings."""
        return self.json or self.github or any((self.gitlab, self.sarif, self.markdown, self.pages))

    @property
    def files(self) -> tuple[Path, ...]:
        """The files that are written whole."""
        markdown = None if self.markdown in (STANDARD_OUTPUT, self.appended) else self.markdown
        return tuple(path for path in (self.junit, self.gitlab, self.sarif, markdown) if path is not None)

    @property
    def talks(self) -> bool:
        """Whether standard output is a report, so that no other text belongs there."""
        return self.json or self.markdown == STANDARD_OUTPUT


def report_options(
    *, as_json: bool = False, junit: Path | None = None, annotations: Sequence[str] = (),
    markdown: Path | None = None, pages: Path | None = None, jobs: int = 1,
) -> ReportOptions:  # fmt: skip
    """What the options of ``build`` ask for. Raises HetesynthError where they are wrong or cannot be met."""
    places: dict[str, Path] = {}
    github = False
    for stated in annotations:
        forge, _, file = stated.partition("=")
        if stated == "github":
            github = True
        elif forge in ("gitlab", "sarif") and file and forge not in places:
            places[forge] = Path(file)
        else:
            raise HetesynthError(f"--annotations {stated!r}: {_wrong(forge, file)}", code="HS856", help=_FORGES)
    summary = os.environ.get(STEP_SUMMARY)
    appended = markdown if summary and markdown is not None and _same(markdown, Path(summary)) else None
    options = ReportOptions(
        as_json, junit, github, places.get("gitlab"), places.get("sarif"), markdown, pages, appended, jobs
    )
    _check(options)
    return options


def demand_outside(options: ReportOptions, folders: Iterable[Path]) -> None:
    """HetesynthError HS857 where a report would be in one of ``folders``, which are exchanged as a whole."""
    places = [os.path.realpath(folder) for folder in folders]
    for path in (*options.files, options.pages):
        if path is not None and any(Path(os.path.realpath(path)).is_relative_to(place) for place in places):
            raise HetesynthError(
                f"{path} would be in a folder that is deployed",
                code="HS857",
                help="name a place beside the output",
            )


def _wrong(forge: str, file: str) -> str:
    if forge not in ("github", "gitlab", "sarif"):
        return "there is no such forge"
    if forge == "github":
        return "its lines go to standard output"
    return "it is given twice" if file else "it needs a file"


def _check(options: ReportOptions) -> None:
    if options.json and options.markdown == STANDARD_OUTPUT:
        raise HetesynthError(
            "--json and --markdown - both write to standard output", code="HS856", help="give one of them a file"
        )
    if STANDARD_OUTPUT in options.files:
        raise HetesynthError("only --markdown writes to standard output", code="HS856", help="name a file")
    names = [os.path.realpath(path) for path in (*options.files, options.pages) if path is not None]
    if len(names) != len(set(names)):
        raise HetesynthError("two reports have the same name", code="HS570", help="give them two names")
    markdown = options.markdown if options.markdown in options.files else None
    beginnings = (
        (options.junit, _JUNIT), (options.gitlab, _GITLAB), (options.sarif, _SARIF),
        (markdown, re.escape(MARK.encode())),
    )  # fmt: skip
    for path, beginning in beginnings:
        if path is not None:
            demand_place(path)
            _demand_ours(path, beginning)
    if options.pages is not None:
        _demand_ours(options.pages / INDEX_PAGE, re.escape(INDEX_MARK.encode()))


def _demand_ours(path: Path, beginning: bytes) -> None:
    """What a build wrote may be replaced; a manifest, a schedule or a page that somebody else wrote may not."""
    try:
        with open_regular(path) as file:
            start = file.read(_START)
    except FileNotFoundError:
        return
    except OSError as error:
        raise HetesynthError(
            f"cannot read {path}: {error.strerror}", code="HS857", help="give another name"
        ) from error
    if start and not re.search(beginning, start):
        raise HetesynthError(
            f"{path} is not of a build and would be replaced", code="HS857", help="give another name"
        )


def _same(first: Path, second: Path) -> bool:
    return os.path.realpath(first) == os.path.realpath(second)
