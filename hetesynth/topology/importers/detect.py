"""The tools of the machine itself: runs those that exist, with fixed arguments, and gives what they printed."""

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from fractions import Fraction
from pathlib import Path

from hetesynth.errors import HetesynthError
from hetesynth.topology.importers.machine import Remark
from hetesynth.topology.importers.reading import Source

MAX_SECONDS = 30.0
MAX_OUTPUT = 16_000_000
_PAUSE = 0.01  # seconds between two looks at a tool

# in the order of preference; commands of one family describe one server together or in place of each other
TOOLS = (
    ("nvidia", ("nvidia-smi", "topo", "-m")),
    ("nvidia", ("nvidia-smi", "-L")),
    ("nvidia", ("nvidia-smi", "nvlink", "-s")),
    ("nvidia", ("lscpu",)),  # which CPUs are beside the GPUs that are found
    ("amd", ("amd-smi", "topology", "--json")),
    ("amd-old", ("rocm-smi", "--showtopo")),
    ("hwloc", ("lstopo-no-graphics", "--of", "xml", "--whole-io")),
    ("hwloc", ("lstopo", "--of", "xml", "--whole-io")),
)
FABRIC = (("fabric", ("ibnetdiscover",)),)
PORTS = Path("/sys/class/infiniband")
MAX_PORTS = 256


def detect(
    tools: Sequence[tuple[str, tuple[str, ...]]] = TOOLS, seconds: float = MAX_SECONDS
) -> tuple[list[Source], list[Remark]]:
    """Return the output of the first family of which a tool answers, and remarks; HS745 where none does."""
    remarks: list[Remark] = []
    for family in dict.fromkeys(family for family, _ in tools):
        sources: list[Source] = []
        for of, command in tools:
            path = shutil.which(command[0]) if of == family else None
            if path is None or (family == "hwloc" and sources) or (command == ("lscpu",) and not sources):
                continue
            name = " ".join(command)
            try:
                sources.append(Source(name, _output((path, *command[1:]), seconds)))
            except HetesynthError as error:
                remarks.append(Remark("suspicious", f"`{name}`: {error.message}"))
        if sources:
            return sources, remarks
    names = ", ".join(dict.fromkeys(command[0] for _, command in tools))
    said = "".join(f"; {remark.text}" for remark in remarks)
    help_ = f"run it where there is one of {names}, or use hetesynth topo import with what they print"
    raise HetesynthError(f"no tool that describes this machine answered{said}", code="HS745", help=help_)


def nic_rates_of_ports(ports: Path = PORTS) -> dict[str, Fraction]:
    """Return the rate of the fastest port of each InfiniBand or RoCE NIC, in bytes per second, as Linux says."""
    rates: dict[str, Fraction] = {}
    for file in sorted(ports.glob("*/ports/*/rate"))[:MAX_PORTS]:
        with suppress(OSError), file.open("rb") as stream:
            if match := re.match(rb"([1-9]\d{0,4}(?:\.\d)?) Gb/sec", stream.read(200)):
                rate = Fraction(match[1].decode()) * 10**9 / 8
                rates[file.parts[-4]] = max(rate, rates.get(file.parts[-4], rate))
    return rates


def _output(command: Sequence[str], seconds: float) -> bytes:
    """Return the output of a command. Raise HS747 if it fails, prints nothing or too much, or takes too long."""
    failed = ""
    with tempfile.TemporaryFile() as file:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.DEVNULL,
                env=os.environ | {"LC_ALL": "C", "LANG": "C"},
                start_new_session=True,
            )
            deadline = time.monotonic() + seconds
            while not failed and process.poll() is None:
                time.sleep(_PAUSE)
                failed = "gave no answer in time" if time.monotonic() > deadline else ""
                if os.fstat(file.fileno()).st_size > MAX_OUTPUT:  # it is read below
                    break
            with suppress(OSError):  # end it, if it still runs, with all that it started
                os.killpg(process.pid, signal.SIGKILL)
            failed = failed or (f"left with exit code {process.returncode}" if process.wait() else "")
        except OSError as error:
            failed = error.strerror or "cannot be run"
        file.seek(0)
        output = file.read(MAX_OUTPUT + 1)
    if len(output) > MAX_OUTPUT:
        failed = f"printed more than {MAX_OUTPUT} bytes"
    failed = failed or ("" if output.strip() else "printed nothing")
    if failed:
        raise HetesynthError(f"it {failed}", code="HS747", help="run it by hand and import what it prints")
    return output
