"""``python -m hetesynth.runtimes.nccl_device FILE.xml FOLDER``: tables of all ranks, and the kernel."""

import shutil
import sys
from pathlib import Path

from hetesynth.errors import HetesynthError
from hetesynth.judge.msccl.reader import read_program
from hetesynth.runtimes.nccl_device.binding import kernel, tables
from hetesynth.runtimes.nccl_device.build import HERE


def main(file: str, folder: str) -> None:
    """Writes RANK.table, libhetesynth_device.so and hetesynth_device.h into ``folder``. What does not verify is no
    program: HetesynthError HS892."""
    read = read_program(Path(file).read_bytes(), file)
    if read.program is None or read.violations:
        raise HetesynthError(f"{file} is no program", code="HS892", help=f"hetesynth verify {file} says more")
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    for rank, table in enumerate(tables(read.program)):
        (place / f"{rank}.table").write_bytes(table)
    shutil.copyfile(HERE / "hetesynth_device.h", place / "hetesynth_device.h")
    shutil.copyfile(kernel()._name, place / "libhetesynth_device.so")


if __name__ == "__main__":
    try:
        main(*sys.argv[1:3])
    except TypeError:
        sys.exit(__doc__)
    except (HetesynthError, OSError) as failure:
        sys.exit(failure.render() if isinstance(failure, HetesynthError) else str(failure))
