"""``environment.sh``: the variables with which a runtime takes a folder; and what its log says of it."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from hetesynth.deploy.folder.cells import ProgramFile
from hetesynth.model.target import Target

_NCCL = (("NCCL_DEBUG", "INFO"), ("NCCL_DEBUG_SUBSYS", "INIT,ENV,COLL"))
ENVIRONMENT = "environment.sh"
MSCCL_FILES = 4  # MSCCL_MAX_NUM_ALGOS: files that the research runtime reads from MSCCL_XML_FILES
_UNBOUNDED = (
    "the runtime allocates scratch memory for its largest call, and its sizes have no upper end: state one"
)
OWN_CHANNELS = frozenset({"msccl"})
"""Targets that add the channels that files need to those of the communicator, and leave NCCL's own as they are."""
_DIRECTORY = "$HETESYNTH_DEPLOYMENT/algorithms"
_NO_COLON = """\
case $HETESYNTH_DEPLOYMENT in
  *:*) echo "environment.sh: the folder's path has a colon, which separates files" >&2; return 1 ;;
esac"""


@dataclass(frozen=True, slots=True)
class LogLines:
    """The lines of a runtime's log. ``debug``: variables that make the runtime write them. ``read``: when it has
    read the files; ``ran``: when a call runs one of these, empty: it does not say; ``fell_back``: when a call runs
    a built-in algorithm; ``refused``: when it does not take a file. NAME stands for what NCCL calls the
    collective, ... for anything."""

    debug: tuple[tuple[str, str], ...]
    read: str
    ran: str
    fell_back: str
    refused: str


_FELL_BACK, _REFUSED = "NCCL INFO NAME: opCount", "NCCL WARN MSCCL: ..."
_RCCL = LogLines(_NCCL, "Using MSCCL files from ...", "mscclFuncNAME: opCount", _FELL_BACK, _REFUSED)
_EXECUTOR = "Using MSCCL Algo files from ...", "MSCCL: Setup Kernel finished"
_IGNORED = "MSCCL: algorithm ... failed to initialize. Will be ignored."
_PLANS = (("MSCCLPP_LOG_LEVEL", "INFO"), ("MSCCLPP_LOG_SUBSYS", "EXEC,NCCL"))
LOG_LINES: dict[str, LogLines] = {
    "rccl-6": _RCCL,
    "rccl-5": _RCCL,
    "msccl-executor": LogLines(_NCCL, *_EXECUTOR, _FELL_BACK, _REFUSED),
    "msccl": LogLines(_NCCL, "Parsed MSCCL Algorithm ... successfully.", "", "", _IGNORED),
    "mscclpp": LogLines(_PLANS, "", "Starting execution with plan: ...", "fallback to nccl/rccl", ""),
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
"""The names of the collectives in the logs of NCCL and RCCL."""


_OWN_PLANS = "Otherwise RCCL's own MSCCL++ takes allreduce and allgather up to 1 MiB in captured graphs."
_EXTRA = {"rccl-6": (("RCCL_MSCCLPP_ENABLE", "0", _OWN_PLANS),)}


@dataclass(frozen=True, slots=True)
class Environment:
    """The variables for a folder. ``variables``: name, value, comment; in values ``DIRECTORY`` stands for the
    folder of programs. ``left_out``: the programs that the runtime is not told of, and why."""

    variables: tuple[tuple[str, str, str], ...]
    left_out: dict[str, str] = field(default_factory=dict)

    def values(self, directory: str) -> dict[str, str]:
        """Return the values of the variables by name, for programs in ``directory``."""
        return {name: value.replace("DIRECTORY", directory) for name, value, _ in self.variables}


def environment(target: Target, programs: Sequence[ProgramFile]) -> Environment:
    """The variables for ``target`` and the programs of one folder."""
    if not target.environment or not target.format.program:
        return Environment(())
    files: list[str] = []
    left_out: dict[str, str] = {}
    for program in programs:
        if target.name == "msccl" and program.scratch and not program.max_bytes:
            left_out[program.name] = _UNBOUNDED
        elif target.name == "msccl" and len(files) == MSCCL_FILES:
            left_out[program.name] = f"the runtime reads {MSCCL_FILES} files"
        else:
            files.append(f"DIRECTORY/{program.name}")
    variables = []
    for name, value in target.environment:
        variables.append((name, ":".join(files) if value == "FILE" else value, ""))
    variables += _EXTRA.get(target.name, ())
    channels = max((program.channels for program in programs), default=0)
    if channels and target.name not in OWN_CHANNELS:
        comment = f"The programs use {channels} channels at most; NCCL_MAX_NCHANNELS must not be less."
        variables.append(("NCCL_MIN_NCHANNELS", str(channels), comment))
    return Environment(tuple(variables), left_out)


def environment_text(target: Target, stated: Environment, cluster: str) -> str:
    """Return the text of ``environment.sh``, for sh, bash, dash, ksh and zsh."""
    text = (Path(__file__).parent / "environment.txt").read_text(encoding="utf-8")
    lines = [text.replace("@CLUSTER@", cluster).replace("@RUNTIME@", target.runtime).rstrip("\n")]
    if any(":" in value for _, value, _ in stated.variables if "DIRECTORY" in value):
        lines.append(_NO_COLON)
    lines += [f"# Left out: {name}: {reason}." for name, reason in stated.left_out.items()]
    for name, value, comment in stated.variables:
        lines += [f"# {comment}"] if comment else []
        lines.append(f'export {name}="{value.replace("DIRECTORY", _DIRECTORY)}"')
    return "\n".join(lines) + "\n"
