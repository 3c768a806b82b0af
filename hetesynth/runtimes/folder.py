"""Tables that an executor loads: those of a file or below a folder, judged, and which of them a call is for."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from hetesynth.errors import HetesynthError
from hetesynth.files.folder_index import FolderIndex, read_index
from hetesynth.files.folders import INDEX
from hetesynth.files.regular_files import digest_of
from hetesynth.judge.tables.judge import table_violations
from hetesynth.judge.tables.reader import load_table
from hetesynth.model.collective import ROOTED, CollectiveName
from hetesynth.model.cost import runtime_bytes
from hetesynth.model.table import Table
from hetesynth.model.topology import Rank


def load_tables(path: Path, target: str, *, judge: bool = True) -> list[Table]:
    """Return the table in file ``path``, or those of folder ``path`` in files ``*.TARGET.json``; where there are
    none, all tables there. Where a folder has an index, its tables are those that the index names, unchanged. An
    atlas whose calls are all left to the library has none.

    HetesynthError: HS533 and HS540 (a file), HS809 (a wrong table), HS816 (no table), HS876 (a damaged index).
    """
    files = [path] if path.is_file() else list(_json_files(path))
    own = [file for file in files if file.name.endswith(f".{target}.json")]
    tables = []
    for file in own or [file for file in files if file == path or _is_table(file)]:
        table = load_table(file)
        for violation in table_violations(table, max_findings=1) if judge else ():
            raise _refused(file, violation.message, "write the table again")
        tables.append(table)
    if not tables and not (path / INDEX).is_file():
        raise HetesynthError(f"no table in {str(path)!r}", code="HS816", help=f"hetesynth synth --target {target}")
    return tables


def _json_files(root: Path) -> Iterator[Path]:
    """Yield the JSON files in ``root`` and below: those an index names, or all where there is none."""
    indices: dict[Path, FolderIndex | None] = {}
    for place, folders, names in os.walk(root):
        here = Path(place)
        folders.sort()
        if link := next((name for name in (*folders, *names) if (here / name).is_symlink()), None):
            why = "a symbolic link, which no command writes"
            raise _refused(here / link, why, "copy the folder with its files")
        own = read_index(here)
        for missing in (name for name in own.files if not (here / name).is_file()) if own else ():
            raise _refused(here / missing, "it is missing, index.json names it", "write the folder again")
        index = indices[here] = own or indices.get(here.parent)
        for file in sorted(here / name for name in names if name.endswith(".json") and name != INDEX):
            if index is None:
                yield file
            elif (digest := index.files.get(file.relative_to(index.folder).as_posix())) is not None:
                if digest_of(file) != digest:
                    raise _refused(file, "it was changed after it was written", "write the folder again")
                yield file


def _refused(file: Path, why: str, help_: str) -> HetesynthError:
    return HetesynthError(f"{file}: {why}", code="HS809", help=help_, exit_code=1)


def _is_table(file: Path) -> bool:
    with file.open("rb") as stream:
        return b'"hetesynth-table"' in stream.read(200)


def table_for(
    tables: Iterable[Table],
    name: CollectiveName,
    root: Rank | None,
    ranks: int,
    size: int,
    *,
    always: bool = False,
) -> Table | str:
    """Return the table of a call whose larger buffer has ``size`` bytes, else why there is none. ``always``: else
    the table of the nearest size."""
    candidates = [t for t in tables if (t.collective, t.root, t.ranks) == (name, root, ranks)]
    if not candidates:
        return f"no table of {name}" + (f" with root {root}" if name in ROOTED else "")
    told = runtime_bytes(name, ranks, size)
    fitting = (
        t for t in candidates if always or (t.min_bytes <= told and (not t.max_bytes or told <= t.max_bytes))
    )
    nearest = min(fitting, key=lambda t: max(t.min_bytes - told, told - (t.max_bytes or told), 0), default=None)
    return nearest or "no table of this size"
