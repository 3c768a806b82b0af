"""Who moves the bytes of a run: a row for each value of ``hetesynth run --backend``."""

from dataclasses import dataclass

from hetesynth.model.target import PORTABLE, TARGETS, Target


@dataclass(frozen=True, slots=True)
class Backend:
    """Who moves the bytes. ``run``: the module and function that give the runs of a job in this process; empty: a
    process per rank. ``target``: whose messages programs have. ``plans``: whether it runs plans too."""

    words: str
    run: str = ""
    target: Target = PORTABLE
    plans: bool = False


BACKENDS = {
    "mpi": Backend("over MPI", plans=True),
    "inprocess": Backend("in one process", "hetesynth.execute.inprocess:run_in_process", plans=True),
    "cpu-kernel": Backend(
        "on threads of one process", "hetesynth.runtimes.nccl_device.cpu:run_on_threads", TARGETS["nccl-device"]
    ),
}
