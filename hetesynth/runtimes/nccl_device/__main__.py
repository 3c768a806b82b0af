"""``python -m hetesynth.runtimes.nccl_device FILE.xml FOLDER``: tables of all ranks, and the kernel."""

import shutil
import sys
from pathlib import Path

from hetesynth.errors import HetesynthError
from hetesynth.judge.msccl.judge import program_violations
from hetesynth.judge.msccl.reader import read_program
from hetesynth.runtimes.nccl_device.binding import kernel, tables
from hetesynth.runtimes.nccl_device.build import HERE


def main(file: str, folder: str) -> None:
    """Write RANK.table, libhetesynth_device.so and hetesynth_device.h into ``folder``. HetesynthError HS892: the
    judge refuses the program."""
    read = read_program(Path(file).read_bytes(), file)
    if read.program is None or program_violations(read):
        raise HetesynthError(f"{file} is refused", code="HS892", help=f"hetesynth verify {file} says why")
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    for rank, table in enumerate(tables(read.program)):
        (place / f"{rank}.table").write_bytes(table)
    shutil.copyfile(HERE / "hetesynth_device.h", place / "hetesynth_device.h")
    shutil.copyfile(kernel()._name, place / "libhetesynth_device.so")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        main(*sys.argv[1:])
    except HetesynthError as failure:
        sys.exit(failure.render())
