"""Who moves the bytes of a run: a row for each value of ``hetesynth run --backend``."""

from dataclasses import dataclass

from hetesynth.model.target import PORTABLE, TARGETS, Target


@dataclass(frozen=True, slots=True)
class Backend:
    """A way to move the bytes of ``files``: programs in MSCCL XML, plans, tables. ``run``, ``run_table``: the
    module and function that give the runs in this process; empty: a process per rank. ``target``: the one whose
    messages programs have."""

    words: str
    files: tuple[str, ...]
    run: str = ""
    run_table: str = ""
    target: Target = PORTABLE


BACKENDS = {
    "mpi": Backend("over MPI", ("program", "plan")),
    "inprocess": Backend(
        "in one process",
        ("program", "plan", "table"),
        "hetesynth.execute.inprocess:run_in_process",
        "hetesynth.execute.tables:run_table_in_process",
    ),
    "cpu-kernel": Backend(
        "on threads of one process",
        ("program",),
        "hetesynth.runtimes.nccl_device.cpu:run_on_threads",
        target=TARGETS["nccl-device"],
    ),
    "gloo": Backend("over gloo", ("table",), run_table="hetesynth.runtimes.torch.run:run_table_on_gloo"),
    "jax": Backend(
        "on JAX's virtual devices", ("table",), run_table="hetesynth.runtimes.jax.run:run_table_on_jax"
    ),
}
