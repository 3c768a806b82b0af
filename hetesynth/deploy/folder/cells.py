"""A cell as it stands in a folder, and what its record says of programs, sizes and times.

In: a name, keys, a record, files. Out: a ``DeployedCell``. Records are plain values: older ones may lack what
newer ones say, and then nothing is said of it.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import Any

from hetesynth.deploy.folder.programs import ProgramFile, of_record, program_at
from hetesynth.deploy.folder.records import check_record
from hetesynth.deploy.folder.selection import Call, selected
from hetesynth.model.collective import COLLECTIVE_NAMES, CollectiveName
from hetesynth.model.cost import bandwidths, runtime_bytes
from hetesynth.model.target import Target


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a program takes for ``size`` bytes of the whole buffer, simulated. ``test``: the nearest size that its
    runtime gives to it, with which a test is run; None: there is none in the range. ``library_us``: its own.
    ``program``: the file of the program that runs out of place."""

    size: int
    test: int | None
    us: float
    algorithm: float
    bus: float
    library_us: float | None
    program: str = ""

    def plain(self) -> dict[str, Any]:
        """For JSON: bandwidths in GB/s, as the tests print them."""
        return {
            "size": self.size,
            "test_size": self.test,
            "microseconds": round(self.us, 3),
            "algbw": round(self.algorithm / 1e9, 3),
            "busbw": round(self.bus / 1e9, 3),
            "library_microseconds": None if self.library_us is None else round(self.library_us, 3),
        }


@dataclass(frozen=True, slots=True)
class DeployedCell:
    """A cell as it stands in a folder. ``key``: of the job it was last decided for; ``made_for``: of the job whose
    result it is, another one where an older result stays because the newer is worse. ``files``: by the names that
    the cell gave them. ``origin``: where the cell comes from; empty: from a manifest."""

    name: str
    key: str
    made_for: str
    record: dict[str, Any]
    files: dict[str, bytes]
    origin: str = ""

    @property
    def row(self) -> dict[str, Any]:
        """The cell in the index."""
        stated = {"origin": self.origin} if self.origin else {}
        return {"name": self.name, "key": self.key, "made_for": self.made_for, **stated, "record": self.record}

    @property
    def collective(self) -> CollectiveName:
        """The collective's name."""
        return next(c for c in COLLECTIVE_NAMES if c == self.record.get("collective"))

    @property
    def ranks(self) -> int:
        """How many GPUs take part."""
        return int(self.record["ranks"])

    @property
    def programs(self) -> tuple[ProgramFile, ...]:
        """The programs of the cell, by what their runtime selects them by."""
        return tuple(of_record(row) for row in self.record.get("programs", ()))

    def check(self) -> None:
        """Raise ValueError where the record is none, or is not of these files."""
        check_record(self.record)
        digests = {name: hashlib.sha256(data).hexdigest() for name, data in self.files.items()}
        if self.record["files"] != digests:
            raise ValueError(f"{self.name}: its record is of other files")
        if {program.name for program in self.programs} - self.files.keys():
            raise ValueError(f"{self.name}: a program without its file")

    def expectations(self, target: Target) -> tuple[Expectation, ...]:
        """The times of the program at the sizes at which it was simulated."""
        rows = []
        for row in self.record.get("sizes", ()):
            size, us = int(row["size"]), row.get("program_us")
            if not us:
                continue
            speeds = bandwidths(self.collective, self.ranks, size, us / 1e6)
            counted, calls = runtime_bytes(self.collective, self.ranks, size), self.record.get("calls", (0, 0))
            name = program_at(self.programs, counted, (calls[0], calls[1])) or ""
            test = self._test_size(name, size, target)
            rows.append(Expectation(size, test, us, speeds.algorithm, speeds.bus, row.get("library_us"), name))
        return tuple(rows)

    def _test_size(self, name: str, size: int, target: Target) -> int | None:
        """The size nearest to ``size`` that the program ``name`` in both of its forms is selected for."""
        stem = name.partition(".")[0]
        programs = [program for program in self.programs if program.name.partition(".")[0] == stem]
        if not programs:
            return None
        unit = math.lcm(*(program.unit for program in programs))
        down = size // unit * unit
        nearest = sorted({down - unit, down, down + unit}, key=lambda near: (abs(near - size), near))
        for test in nearest:  # where a range ends, `size` itself may belong to the next
            if test > 0 and all(self._is_selected(program, test, target) for program in programs):
                return test
        return None

    def _is_selected(self, program: ProgramFile, size: int, target: Target) -> bool:
        in_place = not program.out_of_place
        call = Call(program.collective, program.ranks, size, in_place, program.root)
        return bool(selected([program], call, target))
