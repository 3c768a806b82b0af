"""Tables that an executor loads: those of a file or below a folder, judged, and which of them a call is for."""

from collections.abc import Iterable
from pathlib import Path

from hetesynth.errors import HetesynthError
from hetesynth.judge.tables.judge import table_violations
from hetesynth.judge.tables.reader import load_table
from hetesynth.model.collective import ROOTED, CollectiveName
from hetesynth.model.cost import runtime_bytes
from hetesynth.model.table import Table
from hetesynth.model.topology import Rank


def load_tables(path: Path, target: str, *, judge: bool = True) -> list[Table]:
    """The table in file ``path``, or those below folder ``path`` in files ``*.TARGET.json``; where there are none,
    all tables there. An atlas whose calls are all left to the library has none.

    HetesynthError: HS533 and HS540 (a file), HS809 (a wrong table), HS816 (no table).
    """
    below = [path] if path.is_file() else sorted(path.rglob("*.json"))
    own = [file for file in below if file.name.endswith(f".{target}.json")]
    files = own or [file for file in below if file == path or _is_table(file)]
    for file in files:
        if file != path and file.is_symlink():  # a folder is what was written there, whole
            text = f"{file} is a symbolic link, which no command writes"
            raise HetesynthError(text, code="HS809", help="copy the folder with its files", exit_code=1)
    tables = [load_table(file) for file in files]
    for file, table in zip(files, tables, strict=True):
        for violation in table_violations(table, max_findings=1) if judge else ():
            text = f"{file}: {violation.message}"
            raise HetesynthError(text, code="HS809", help="write the table again", exit_code=1)
    if not tables and not (path / "index.json").is_file():
        raise HetesynthError(f"no table in {str(path)!r}", code="HS816", help=f"hetesynth synth --target {target}")
    return tables


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
    """Return the table of a call whose larger buffer has ``size`` bytes, else why there is none. ``always``: of
    other sizes too, the nearest."""
    candidates = [t for t in tables if (t.collective, t.root, t.ranks) == (name, root, ranks)]
    if not candidates:
        return f"no table of {name}" + (f" with root {root}" if name in ROOTED else "")
    told = runtime_bytes(name, ranks, size)
    fitting = (
        t for t in candidates if always or (t.min_bytes <= told and (not t.max_bytes or told <= t.max_bytes))
    )
    nearest = min(fitting, key=lambda t: max(t.min_bytes - told, told - (t.max_bytes or told), 0), default=None)
    return nearest or "no table of this size"
