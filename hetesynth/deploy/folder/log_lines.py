"""What a runtime's log says when it took a folder, ran a program of it, or did neither.

In: a target. Out: its ``LogLines``, read in the runtimes' sources. Only facts stand here.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogLines:
    """``debug``: variables that make the runtime say it. ``read``: when it has read the files; ``ran``: when a
    call runs one of them, empty: it does not say; ``fell_back``: when a call runs a built-in algorithm;
    ``refused``: of a file that it does not take. NAME stands for what NCCL calls the collective, ... for
    anything."""

    debug: tuple[tuple[str, str], ...]
    read: str
    ran: str
    fell_back: str
    refused: str


_NCCL = (("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_SUBSYS", "INIT,ENV,COLL"))
_RCCL = LogLines(
    _NCCL,
    "Using MSCCL files from ...",
    "mscclFuncNAME: opCount",
    "NCCL INFO NAME: opCount",
    "NCCL WARN MSCCL: ...",
)
LOG_LINES: dict[str, LogLines] = {
    "rccl-6": _RCCL,
    "rccl-5": _RCCL,
    "msccl-executor": LogLines(
        _NCCL,
        "Using MSCCL Algo files from ...",
        "MSCCL: Setup Kernel finished",
        "NCCL INFO NAME: opCount",
        "NCCL WARN MSCCL: ...",
    ),
    "msccl": LogLines(
        _NCCL,
        "Parsed MSCCL Algorithm ... successfully.",
        "",
        "",
        "MSCCL: algorithm ... failed to initialize. Will be ignored.",
    ),
    "mscclpp": LogLines(
        (("MSCCLPP_LOG_LEVEL", "INFO"), ("MSCCLPP_LOG_SUBSYS", "EXEC,NCCL")),
        "",
        "Starting execution with plan: ...",
        "fallback to nccl/rccl",
        "",
    ),
}
NAMES = {
    "allreduce": "AllReduce",
    "allgather": "AllGather",
    "reducescatter": "ReduceScatter",
    "broadcast": "Broadcast",
    "reduce": "Reduce",
    "alltoall": "AllToAll",
    "gather": "Gather",
    "scatter": "Scatter",
}
"""What the logs of NCCL and RCCL call the collectives."""
