"""The tools of the machine itself: runs those that exist, with fixed arguments, and gives what they printed.

No shell, nothing from the user in the command, a limit on time and on output; what fails is remarked and passed
over.
"""

from __future__ import annotations

import os
import re
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

from hetesynth.errors import HetesynthError
from hetesynth.topology.importers.machine import Remark
from hetesynth.topology.importers.reading import Source

MAX_SECONDS = 30.0
MAX_OUTPUT = 16_000_000
BLOCK = 65_536


# in the order of preference: the first family that answers counts; commands of one family describe one server
# together or in place of each other
TOOLS = (
    ("nvidia", ("nvidia-smi", "topo", "-m")),
    ("nvidia", ("nvidia-smi", "-L")),
    ("nvidia", ("nvidia-smi", "nvlink", "-s")),
    ("amd", ("amd-smi", "topology", "--json")),
    ("amd-old", ("rocm-smi", "--showtopo")),
    ("hwloc", ("lstopo-no-graphics", "--of", "xml", "--whole-io")),
    ("hwloc", ("lstopo", "--of", "xml", "--whole-io")),
)
FABRIC = (("fabric", ("ibnetdiscover",)),)
PORTS = Path("/sys/class/infiniband")
MAX_PORTS = 256


@dataclass(frozen=True, slots=True)
class Detected:
    """What the tools printed, and remarks on those that failed."""

    sources: tuple[Source, ...]
    remarks: tuple[Remark, ...] = ()


def detect(tools: Sequence[tuple[str, tuple[str, ...]]] = TOOLS, seconds: float = MAX_SECONDS) -> Detected:
    """Return the output of the first family of which a tool exists and answers; HS745 where none does."""
    remarks: list[Remark] = []
    for family in dict.fromkeys(family for family, _ in tools):
        sources: list[Source] = []
        for of, command in tools:
            path = shutil.which(command[0]) if of == family else None
            if path is None or (family == "hwloc" and sources):
                continue
            name = " ".join(command)
            try:
                sources.append(Source(name, _output((path, *command[1:]), seconds)))
            except HetesynthError as error:
                remarks.append(Remark("suspicious", f"`{name}`: {error.message}"))
        if sources:
            return Detected(tuple(sources), tuple(remarks))
    names = ", ".join(dict.fromkeys(command[0] for _, command in tools))
    said = "; ".join(remark.text for remark in remarks)
    what = f"no tool that describes this machine answered{f': {said}' if said else ''}"
    help_ = f"run it where there is one of {names}, or use hetesynth topo import with what they print"
    raise HetesynthError(what, code="HS745", help=help_)


def nic_rates_of_ports(ports: Path = PORTS) -> dict[str, Fraction]:
    """The rates of InfiniBand and RoCE ports by NIC, in bytes per second, as Linux states them."""
    rates: dict[str, Fraction] = {}
    try:
        files = sorted(ports.glob("*/ports/1/rate"))[:MAX_PORTS]
    except OSError:
        return rates
    for file in files:
        try:
            with file.open("rb") as stream:
                text = stream.read(200).decode("ascii", "replace")
        except OSError:
            continue
        if match := re.match(r"(\d{1,5}(?:\.\d)?) Gb/sec", text):
            rates[file.parts[-4]] = Fraction(match[1]) * 10**9 / 8
    return {name: rate for name, rate in rates.items() if rate}


def _output(command: Sequence[str], seconds: float) -> bytes:
    """What a command prints; HetesynthError HS747 where it fails, prints too much or takes too long."""
    environment = os.environ | {"LC_ALL": "C", "LANG": "C"}
    deadline = time.monotonic() + seconds
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        raise _failed(error.strerror or "cannot be run") from error
    output = bytearray()
    try:
        with process.stdout as pipe, selectors.DefaultSelector() as selector:  # type: ignore[union-attr]
            selector.register(pipe, selectors.EVENT_READ)
            block = b"."
            while block:
                left = deadline - time.monotonic()
                if left <= 0 or not selector.select(left):
                    raise _failed("gave no answer in time")
                block = os.read(pipe.fileno(), BLOCK)
                output += block
                if len(output) > MAX_OUTPUT:
                    raise _failed(f"printed more than {MAX_OUTPUT} bytes")
        code = process.wait(timeout=seconds)
    except subprocess.TimeoutExpired as error:
        raise _failed(f"gave no answer in {seconds:g} s") from error
    finally:
        with suppress(OSError):  # end it, if it still runs, with all that it started
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if code != 0:
        raise _failed(f"left with exit code {code}")
    if not output.strip():
        raise _failed("printed nothing")
    return bytes(output)


def _failed(why: str) -> HetesynthError:
    return HetesynthError(f"it {why}", code="HS747", help="run it by hand and import what it prints")
